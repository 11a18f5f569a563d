"""The tile that the bench takes is the one that Stretto takes."""

import pathlib
import unittest

from grouped_tiles import fitted

TILES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "gpu" / "grouped_tiles.txt"


class GroupedTiles(unittest.TestCase):
    def test_are_those_of_the_library(self):
        lines = [line for line in TILES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 10)
        for line in lines:
            shape, tile = line.split(":")
            *sizes, last = shape.split()
            gathers = last == "gathers"
            found = fitted(*map(int, sizes if gathers else [*sizes, last]), gathers=gathers)
            self.assertEqual((found.columns, found.rows, found.stages, found.ranges), tuple(map(int, tile.split())), line)


if __name__ == "__main__":
    unittest.main()
