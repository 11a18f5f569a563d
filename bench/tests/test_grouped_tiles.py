"""The tile that the bench takes is the one that Stretto takes, and a good one by what was measured."""

import json
import pathlib
import statistics
import unittest

from bench.experts.grouped_tiles import TILES, expert_us, filled, fitted, has_registers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = ROOT / "tests" / "gpu" / "grouped_tiles.txt"
MEASURED = ("expert_tiles", "expert_tiles_chosen", "expert_cuts", "expert_tall", "expert_tall_gathered",
            "grouped_shuffled")


def behind_the_best(row, gathers):
    """How many times longer the chosen one of the tiles that were timed takes, or nothing where one was or none."""
    follower = " swiglu" if any("swiglu" in name for name in row["us"]) and "load" in row else ""
    by_four = " by 4" * any("by 4" in name for name in row["us"])  # where two warps gathered, too
    words = f" gathered{by_four}" if gathers else ""
    us = {tile: row["us"][tile.name + words + follower][0] for tile in TILES
          if tile.name + words + follower in row["us"] and has_registers(tile, gathers, joins=bool(follower))}
    if len(us) < 2:
        return None
    mean = row["rows"] // row["active"]
    chosen = min(us, key=lambda tile: expert_us(tile, mean, row["active"], row["n"], row["k"], gathers))
    return us[chosen] / min(us.values())


class GroupedTiles(unittest.TestCase):
    def test_are_those_of_the_library(self):
        lines = [line for line in SHAPES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 10)
        for line in lines:
            shape, tile = line.split(":")
            sizes, words = shape.split()[:5], shape.split()[5:]
            how = {word: word in words for word in ("gathers", "scatters")}
            found = fitted(*map(int, sizes), joins="swiglu" in words, **how)
            found = filled(found._replace(follower="swiglu" if "swiglu" in words else "none", **how))
            self.assertEqual((found.columns, found.rows, found.stages, found.ranges, found.together), tuple(map(int, tile.split())),
                             line)

    def test_are_close_to_the_best_that_was_measured(self):
        behind = []
        for name in MEASURED:
            rows = json.loads((ROOT / "bench" / "results" / f"{name}_h200_x1.json").read_text(encoding="utf-8"))["rows"]
            behind += [times for row in rows for gathers in (False, True) if (times := behind_the_best(row, gathers))]
        self.assertGreater(len(behind), 400)
        self.assertLess(statistics.geometric_mean(behind), 1.014)
        # Where a few experts have about as many rows as a tile, one draw decides who has a cut more.
        self.assertLess(max(behind), 1.27)


if __name__ == "__main__":
    unittest.main()
