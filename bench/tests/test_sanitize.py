"""What compute-sanitizer's output comes to, with a program in its place."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from bench.verify import sanitize

# Says what the tool of that name does, and of each suite that its tests passed.
FAKE = """#!/bin/sh
echo "========= COMPUTE-SANITIZER"
echo "[  PASSED  ] 3 tests."
case "$2" in
  racecheck) echo "========= RACECHECK SUMMARY: 12 hazards displayed (4 errors, 8 warnings)" ;;
  *) echo "========= ERROR SUMMARY: %s errors" ;;
esac
"""


class Sanitize(unittest.TestCase):
    def test_counts_are_read(self):
        self.assertEqual(sanitize.found_in("========= ERROR SUMMARY: 224 errors"), 224)
        self.assertEqual(sanitize.found_in("========= RACECHECK SUMMARY: 7 hazards displayed"), 7)
        self.assertIsNone(sanitize.found_in("cannot attach"))
        self.assertEqual(sanitize.tests_in("[  PASSED  ] 9 tests.\n[  FAILED  ] 2 tests, listed"), (9, 2))

    def test_nothing_looked_at_is_not_good(self):
        good = {"tool": "memcheck", "found": 0, "passed": 3, "failed": 0}
        self.assertTrue(sanitize.is_good(good))
        for change in ({"found": None}, {"found": 1}, {"passed": 0}, {"failed": 1}):
            self.assertFalse(sanitize.is_good({**good, **change}), change)
        self.assertTrue(sanitize.is_good({**good, "tool": "racecheck", "found": 5}))

    def run_with(self, errors):
        with tempfile.TemporaryDirectory() as folder:
            def executable(name, text):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(path, 0o755)
            executable("compute-sanitizer", FAKE % errors)
            for name in sanitize.SUITES:
                executable(name, "#!/bin/sh\n")
            out = os.path.join(folder, "sanitizer.json")
            done = subprocess.run(
                [sys.executable, sanitize.__file__, "--build", folder, "--commit", "abc", "--out", out],
                env={**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}, stdout=subprocess.PIPE,
                check=False)
            with open(out, encoding="utf-8") as file:
                return done.returncode, json.load(file)

    def test_a_clean_run_is_good(self):
        code, found = self.run_with(0)
        self.assertEqual(code, 0)
        self.assertEqual(found["commit"], "abc")
        self.assertEqual([r["found"] for r in found["results"] if r["tool"] == "racecheck"], [12, 12])
        self.assertEqual(len(found["results"]), len(sanitize.TOOLS) * len(sanitize.SUITES))

    def test_an_error_fails(self):
        code, found = self.run_with(2)
        self.assertEqual(code, 1)
        self.assertFalse(found["results"][0]["good"])


if __name__ == "__main__":
    unittest.main()
