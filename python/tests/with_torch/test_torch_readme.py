"""The README's lines of Python work as they stand there."""

import contextlib
import io
import pathlib
import re
import unittest

import ranks  # noqa: F401: skips without PyTorch

README = pathlib.Path(__file__).resolve().parents[3] / "README.md"


class Readme(unittest.TestCase):
    def test_lines_of_python(self):
        block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        said, names = io.StringIO(), {}
        with contextlib.redirect_stdout(said):
            exec(compile(block.group(1), "README.md", "exec"), names)
        self.assertRegex(said.getvalue(), r"^\d+\.\d+ \[\]\n$")
        expected = sum(names["x"][r] @ names["w"][r].T for r in range(4))
        for rank in range(4):
            self.assertLess((names["y"][rank] - expected).abs().max().item(), 1e-2)


if __name__ == "__main__":
    unittest.main()
