"""Plugins in the serving frameworks themselves, where one is installed: job_serving.py's checks, in two processes."""

import importlib.util
import pathlib
import unittest

import ranks  # noqa: F401  (PyTorch, or no tests)

from test_torch_processes import start

JOB = pathlib.Path(__file__).resolve().parent / "job_serving.py"


class Serving(unittest.TestCase):
    def check(self, framework, least):
        if importlib.util.find_spec(framework) is None:
            self.skipTest(f"no {framework}: STRETTO_TORCH_PYTHON may name an interpreter that has it")
        for rank, (code, out, err) in enumerate(start([str(JOB), framework], 2)):
            with self.subTest(rank=rank):
                self.assertEqual(code, 0, out[-3000:] + err[-2000:])
                lines = [line for line in out.splitlines() if line.startswith("check_")]
                wrong = [line for line in lines if not line.endswith((" ok", "has no AsyncTP pass"))]
                self.assertFalse(wrong, out[-3000:])
                self.assertEqual(len(lines), least, out[-3000:] + err[-2000:])

    def test_vllm(self):
        self.check("vllm", 8)

    def test_sglang(self):
        self.check("sglang", 4)


if __name__ == "__main__":
    unittest.main()
