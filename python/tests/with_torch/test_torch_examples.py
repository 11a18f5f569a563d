"""The examples verify themselves; here they do so on the CPU."""

import pathlib
import subprocess
import sys
import unittest

import ranks  # noqa: F401  (PyTorch, or no tests)

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"


class Examples(unittest.TestCase):
    def test_each_ends_well_and_is_served(self):
        paths = sorted(EXAMPLES.glob("[0-9]*.py"))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(path.name):
                ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=250)
                self.assertEqual(ended.returncode, 0, ended.stderr[-2000:])
                self.assertRegex(ended.stdout, r" x \w+: served")


if __name__ == "__main__":
    unittest.main()
