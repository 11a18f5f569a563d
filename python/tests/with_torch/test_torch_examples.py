"""The examples verify themselves; here they do so on the CPU."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import ranks  # noqa: F401  (PyTorch, or no tests)

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
BY_MPIRUN = {"02_training_step.py": 2}  # as many ranks as it starts by itself
# Open MPI wants to be told that root and more processes than cores are meant.
OF_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def launcher(name):
    """Before the command of an example; nothing where it starts its ranks itself, as it does without Open MPI."""
    if name not in BY_MPIRUN or not shutil.which("mpirun"):
        return []
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    return ["mpirun", "-n", str(BY_MPIRUN[name])] if "Open MPI" in said else []


class Examples(unittest.TestCase):
    def test_each_ends_well_and_is_served(self):
        paths = sorted(EXAMPLES.glob("[0-9]*.py"))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(path.name):
                ended = subprocess.run([*launcher(path.name), sys.executable, str(path)], capture_output=True, text=True,
                                       timeout=250, env={**os.environ, **OF_MPI})
                self.assertEqual(ended.returncode, 0, ended.stderr[-2000:])
                self.assertRegex(ended.stdout, r" x \w+: served")


if __name__ == "__main__":
    unittest.main()
