"""pack.sh with small programs in the place of ours: its folder runs where the tree that it came from is gone."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = {"src/cli": ("stretto",), "src/c": ("libstretto.so",),
            "bench/gpu": ("call_bench", "serve_bench", "learn_bench", "soak", "lang_bench", "gemm_bench", "plan_bench"),
            "tests": ("test_gpu", "test_tables", "test_fabric", "test_run", "test_measure", "test_serve", "test_c",
                      "test_cli")}
FOLDERS = ("python", "include", "machines", "models", "operators", "examples", "integrations", "tests/cli", "tests/serve",
           "bench/results", "bench/host")


@unittest.skipUnless(all(map(shutil.which, ("strip", "ldd", "xz", "true"))), "strip, ldd, xz or true is missing")
class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.tree, self.packed = self.folder / "tree", self.folder / "packed"
        for name in FOLDERS:
            (self.tree / name).mkdir(parents=True)
        for name in ("pyproject.toml", "bench/results/large.json", "machines/one.json"):
            (self.tree / name).write_text("")
        shutil.copy(BENCH / "pack.sh", self.tree / "bench")
        (self.tree / "bench" / "on_gpus.sh").write_text("#!/bin/sh\necho steps \"$@\"\n")
        (self.tree / "bench" / "on_gpus.sh").chmod(0o755)
        for place, names in PROGRAMS.items():
            (self.tree / "build" / "any" / place).mkdir(parents=True)
            for name in names:
                shutil.copy(shutil.which("true"), self.tree / "build" / "any" / place / name)

    def run_script(self, *words, code=0):
        done = subprocess.run([str(word) for word in words], text=True, capture_output=True, timeout=60, check=False,
                              env={**os.environ, "PYTHONPATH": "/their/own"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_the_folder_runs_by_itself(self):
        told = self.run_script("bash", self.tree / "bench" / "pack.sh", self.packed, "--build", self.tree / "build" / "any")
        self.assertRegex(told, r"packed: \d+ MiB, programs.tar.xz \d+")
        self.assertFalse((self.packed / "bench" / "results").exists())
        shutil.rmtree(self.tree)
        run = self.packed / "run.sh"
        self.run_script(run, "stretto")
        told = self.run_script(run, "sh", "-c", "echo $PYTHONPATH; ls $STRETTO_MACHINE_PATH; test -x $STRETTO_LIBRARY")
        self.assertEqual(told.splitlines(), [f"{self.packed}/python:/their/own", "one.json"])
        told = self.run_script(run, "bench/on_gpus.sh", "results", "--minutes", "3")
        self.assertEqual(told, f"steps results --build {self.packed}/build/any --commit unknown --minutes 3\n")
        # Where tests look for what they were built with.
        self.assertTrue((self.tree / "build" / "any" / "src" / "cli" / "stretto").is_file())

    def test_what_is_missing_is_named(self):
        (self.tree / "build" / "any" / "tests" / "test_run").unlink()
        pack = self.tree / "bench" / "pack.sh"
        told = self.run_script("bash", pack, self.packed, "--build", self.tree / "build" / "any", code=2)
        self.assertIn("pack: no test_run in", told)
        told = self.run_script("bash", pack, self.tree, "--build", self.tree / "build" / "any", code=2)
        self.assertIn("exists, and is no folder that this has made", told)


if __name__ == "__main__":
    unittest.main()
