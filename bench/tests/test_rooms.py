"""Rooms of bench import only what stands above them in its README, and scripts run by their paths, from any folder."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
IMPORT = re.compile(r"^\s*from bench\.(\w+)", re.MULTILINE)
ROOM = re.compile(r"^\| `(\w+)/` \|", re.MULTILINE)
# Those that need no PyTorch; each says its usage, or refuses what it does not know.
SCRIPTS = ("shapes/layers.py", "shapes/moe.py", "shapes/unseen.py", "rivals/warm_experts.py", "verify/gpu_tests.py",
           "verify/sanitize.py", "report/write.py", "report/pictures.py", "report/summary.py", "report/expert_bars.py",
           "report/unseen_summary.py", "report/held_back.py")


class Rooms(unittest.TestCase):
    def test_each_is_named_in_the_readme_and_imports_what_stands_above_it(self):
        rooms = ROOM.findall((BENCH / "README.md").read_text(encoding="utf-8"))
        self.assertEqual(sorted(rooms), sorted(path.name for path in BENCH.iterdir()
                                               if path.is_dir() and path.name != "__pycache__"))
        for path in BENCH.glob("*/**/*.py"):
            room = path.relative_to(BENCH).parts[0]
            above = set(rooms[:rooms.index(room) + 1])
            self.assertLessEqual(set(IMPORT.findall(path.read_text(encoding="utf-8"))), above, path)

    def test_scripts_run_by_their_paths(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            for script in SCRIPTS:
                done = subprocess.run([sys.executable, "-B", str(BENCH / script), "--help"], cwd=elsewhere, text=True,
                                      capture_output=True, timeout=60, check=False)
                self.assertIn("usage:", done.stdout + done.stderr, script)

    def test_scripts_that_on_gpus_runs_are_there(self):
        called = re.findall(r"\$(?:here|root)/([\w/]+\.py)", (BENCH / "on_gpus.sh").read_text(encoding="utf-8"))
        self.assertGreater(len(called), 15)
        for script in called:
            self.assertTrue((BENCH / script).is_file() or (BENCH.parent / script).is_file(), script)


if __name__ == "__main__":
    unittest.main()
