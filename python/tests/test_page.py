"""The lines of docs/python.md that need no GPU work as they stand there."""

import importlib.util
import os
import pathlib
import re
import tempfile
import textwrap
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
OPTIONAL = {"pandas.": "pandas", ".plot()": "matplotlib"}  # what a line needs besides


def blocks_of(heading):
    """The indented blocks behind a heading, up to the next heading."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index(f"\n{heading}\n") + len(heading) + 2
    section = text[begin:text.find("\n#", begin)]
    return [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)]


def has(module):
    return importlib.util.find_spec(module) is not None


def runnable(block):
    """Without the lines whose packages are not here."""
    return "\n".join(line for line in block.splitlines()
                     if all(has(module) for word, module in OPTIONAL.items() if word in line))


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.names = {}

    def run_block(self, block, **names):
        self.names.update(names)
        exec(compile(runnable(block), str(PAGE), "exec"), self.names)

    def test_plans_and_their_texts(self):
        first, = blocks_of("## Without a GPU")
        self.run_block(first)
        self.assertEqual(self.names["plan"].check(), [])
        second, = blocks_of("### Plans and their texts")
        import stretto
        if has("pandas"):
            self.names["pandas"] = __import__("pandas")
        mine = stretto.plan("gemm-rs", m=4096, n=8192, k=14336, ranks=4, schedule="slices")
        self.run_block(second, text=mine.text(), pathlib=pathlib)
        self.assertGreater(self.names["found"].total_us, 0)
        self.assertIn("<html", pathlib.Path("report.html").read_text(encoding="utf-8"))

    def test_runs_on_the_cpu(self):
        blocks = blocks_of("### Runs on the CPU")
        self.assertEqual(len(blocks), 2)  # the second is the signature
        if not has("torch"):
            self.skipTest("no PyTorch: the block takes its tensors")
        import torch
        made = {name: [torch.randn(*shape, dtype=torch.bfloat16) / 16 for _ in range(2)]
                for name, shape in {"wg": (768, 512), "wu": (768, 512), "wd": (512, 768), "down": (32, 512)}.items()}
        before = [one.clone() for one in made["down"]]
        import stretto
        self.run_block(blocks[0], torch=torch, stretto=stretto, **made)
        for old, new in zip(before, made["down"]):
            self.assertFalse(torch.equal(old, new))


if __name__ == "__main__":
    unittest.main()
