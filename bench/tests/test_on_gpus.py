"""on_gpus.sh with programs that only say how they were called: steps in the order given, what is cut off or left out when
the time is over, and that a part that fails does not end the others."""

import json
import os
import pathlib
import stat
import subprocess
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
previous=
for word; do
  case "$previous" in -o|--out) echo '{"rows": []}' >"$word" ;; esac
  previous=$word
done
[ -z "$SLEEPS" ] || case " $* " in *$SLEEPS*) exec sleep 30 ;; esac
[ -z "$FAILS" ] || case " $* " in *$FAILS*) echo "no such thing"; exit 3 ;; esac
exit 0
"""


class OnGpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        for name in ("nvidia-smi", "stretto", "libstretto.so", "call_bench", "serve_bench", "test_run", "test_serve",
                     "python3"):
            path = self.folder / ("bin" if name in ("nvidia-smi", "python3") else "build") / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(FAKE)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        (self.folder / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA H100\necho NVIDIA H100\n")

    def run_script(self, *arguments, code=0, **environment):
        done = subprocess.run(
            ["bash", str(BENCH / "on_gpus.sh"), str(self.out), "--build", str(self.folder / "build"), *arguments],
            text=True, capture_output=True, timeout=50, check=False,
            env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "SLEEPS": "", "FAILS": "",
                 "CALLS": str(self.folder / "calls"), "CUDA_VISIBLE_DEVICES": "", **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return done.stdout + done.stderr, [line for line in lines if "shapes/" not in line and " -c " not in line]

    def test_steps_run_in_the_order_given(self):
        told, calls = self.run_script("--steps", "models,graphs,layers,serve", "--commit", "abc")
        self.assertEqual([line.split()[0] for line in told.splitlines()],
                         ["models", "graphs", "layers", "calls", "serve", "serve_low_latency"])
        self.assertEqual(told.count("good"), 6)
        self.assertRegex(calls[0], "^python3 -m torch.distributed.run --standalone --nproc-per-node 2 .*/models.py "
                                   "--layers 8 .*--commit abc")
        self.assertRegex(calls[1], "^stretto bench --shapes .*/graphs.txt --ranks 2 .*split=2/tiles --json -o .*graphs.json")
        self.assertIn("--max-restarts 5", calls[2])
        self.assertEqual(json.loads((self.out / "graphs.json").read_text()), {"rows": []})

    def test_rows_of_experts_come_behind_the_kernels_of_all(self):
        told, calls = self.run_script("--steps", "routed")
        self.assertEqual(told.count("good"), 3)
        self.assertEqual(told.splitlines()[-1].split()[0], "routed")
        warm, compiled, measured, bars = *sorted(calls[:2]), *calls[2:]
        self.assertRegex(warm, "^python3 .*/warm_experts.py --shapes .*/routed_first.txt --ranks 2")
        self.assertRegex(compiled, "^stretto compile --shapes .*/routed_first.txt --ranks 2 --strategy auto")
        self.assertRegex(measured, "/layers.py --shapes .*/routed.txt .*--rounds 3 --kernels --beside library .*routed.json")
        self.assertRegex(bars, "^python3 .*/expert_bars.py .*/routed.json")

    def test_a_part_that_is_cut_off_leaves_what_it_has_measured(self):
        told, _ = self.run_script("--steps", "graphs,serve", "--seconds", "1", SLEEPS="graphs.txt")
        self.assertIn("cut off after 1 s", told)
        self.assertIn("serve_low_latency", told)
        self.assertTrue((self.out / "graphs.json").exists())

    def test_what_has_no_time_is_named_and_left_out(self):
        told, calls = self.run_script("--steps", "graphs,serve", "--minutes", "1", SECONDS="52")
        self.assertEqual([line.split(maxsplit=1)[1] for line in told.splitlines()], ["left out: no time is left"] * 4)
        self.assertEqual(calls, [])
        told, _ = self.run_script("--steps", "graphs", "--minutes", "1", SECONDS="20")
        self.assertIn("good", told)

    def test_a_part_that_fails_does_not_end_the_others(self):
        told, _ = self.run_script("--steps", "graphs,serve", code=1, FAILS="graphs.txt")
        self.assertRegex(told, "graphs .*exit 3, see .*graphs.log")
        self.assertIn("on_gpus: 1 parts failed", told)
        self.assertEqual(told.count("good"), 3)

    def test_what_does_not_go_is_said_before_anything_runs(self):
        for arguments, why in ((("--steps", "graphs,all"), "unknown step 'all'"),
                               (("--minutes", "0"), "--minutes 0: a number from 1 up"),
                               (("--steps", "soak"), "no soak in"),
                               (("--suites", "test_all"), "unknown suite 'test_all'"),
                               (("--ranks", "3"), "--ranks 3, but there are 2 GPUs")):
            told, calls = self.run_script(*arguments, code=2)
            self.assertIn(why, told)
            self.assertEqual(calls, [])


if __name__ == "__main__":
    unittest.main()
