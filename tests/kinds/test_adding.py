"""The files that docs/adding.md lists for a thing of each sort are those that name it, and no more than it says."""

import pathlib
import re
import unittest

from kind_switches import bare

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^#[^\n]*", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| (operator|task kind|edge|coordinate) `([\w-]+)` \|([^|]*)\| (\d+) \|([^|]*)\|$", re.MULTILINE)
FILE = re.compile(r"`([\w./-]+)`")
# The most that a thing of the sort may touch.
BARS = {"operator": 1, "task kind": 3, "edge": 2, "coordinate": 6}


def name_in_code(sort, name):
    """How code names a thing, and what of a source is code."""
    if sort == "operator":
        return rf"(?<![\w-]){name}(?![\w-])", lambda text: COMMENT.sub("", text)
    if sort == "edge":  # Collectives have names that edges have, too.
        return rf"\b(?:Edge|edges)::{name}\b|^  X\({name}, .*->", lambda text: COMMENT.sub("", text)
    if sort == "coordinate":
        return rf"\b{name.capitalize()}\b", bare
    return rf"\b{name}\b", bare


def listed_on(page):
    """(sort, name) -> its own files, at most so many, and those of other things with its name."""
    return {(sort, name): (set(FILE.findall(own)), int(most), set(FILE.findall(besides)))
            for sort, name, own, most, besides in ROW.findall(page)}


class Adding(unittest.TestCase):
    def setUp(self):
        self.listed = listed_on((ROOT / "docs/adding.md").read_text(encoding="utf-8"))
        self.texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
                      for folder in ("include", "src", "operators") for path in (ROOT / folder).rglob("*.*")
                      if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".graph")}
        self.assertGreater(len(self.texts), 300)

    def test_one_of_each_sort_is_listed(self):
        self.assertEqual({sort for sort, _ in self.listed}, set(BARS))

    def test_what_is_listed_is_what_names_it(self):
        for (sort, name), (own, _, besides) in self.listed.items():
            word, code_of = name_in_code(sort, name)
            found = {file for file, text in self.texts.items() if re.search(word, code_of(text), re.MULTILINE)}
            self.assertEqual(found, own | besides, name)

    def test_none_takes_more_than_its_sort_may(self):
        for (sort, name), (own, most, _) in self.listed.items():
            self.assertEqual(most, BARS[sort], name)
            self.assertGreater(len(own), 0, name)
            self.assertLessEqual(len(own), most, name)

    def test_rows_are_read(self):
        page = "| edge `ring` | `a/edge.h`, `b/ring.cpp` | 2 | its kernel: `c/ring.h` |\n| `edge` | `d.h` | 1 | |\n"
        self.assertEqual(listed_on(page), {("edge", "ring"): ({"a/edge.h", "b/ring.cpp"}, 2, {"c/ring.h"})})


if __name__ == "__main__":
    unittest.main()
