"""Which term of few and middle rows is named, by a simulation that is made up."""

import json
import pathlib
import stat
import tempfile
import unittest

from bench.report import held_back

# Says what a run takes by the machine that it is asked of: 4 us of starts, 3 of links and 2 of sums behind 10.
STRETTO = """#!/usr/bin/env python3
import json, pathlib, sys
machine = sys.argv[sys.argv.index("--machine") + 1]
us = {"h200x8": 19, "no-start": 15, "no-link": 12}[pathlib.Path(machine).stem]
if machine.endswith(".json"):
    figures = json.loads(pathlib.Path(machine).read_text())["figures"]
    assert figures["signal_us"]["value"] < 0.01, figures
    assert ("link_gb_per_s" in figures) == machine.endswith("no-link.json"), figures
print(json.dumps({"results": [{"simulate": {"total_us": us, "compute_us": 10}}]}))
"""


def row(m, us, schedule="gemm=few-rows,tile=64x64"):
    return {"operator": f"gemm-rs m={m} n=256 k=64 ranks=2 dtype=bf16", "gemm_us": 9, "link_floor_us": 2,
            "floor_us": 9, "strategies": [{"strategy": "auto", "schedule": schedule, "short": "few-rows",
                                           "time_us": us}]}


class HeldBack(unittest.TestCase):
    def lines(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            stretto = pathlib.Path(folder) / "stretto"
            stretto.write_text(STRETTO, encoding="utf-8")
            stretto.chmod(stretto.stat().st_mode | stat.S_IXUSR)
            return held_back.lines_of({"plans_for": "h200x8", "sms": 4, "rows": rows}, str(stretto)).split("\n")

    def test_rows_below_the_bar_have_their_terms(self):
        lines = self.lines(row(16, 20), row(17, 10), row(8, 20), row(4096, 20))
        self.assertEqual([line for line in lines if line.startswith("| gemm-rs 1")],
                         ["| gemm-rs 16 256 64 | `few-rows` | 20.0 | 9.0 | 2.0 | 0.45 | 1.0 | 0.0 | 4.0 | 3.0 | 2.0 | "
                          "1.0 | start |"])

    def test_the_second_table_is_of_all_rows_and_no_row_is_below_its_floor(self):
        lines = self.lines(row(16, 20), row(17, 10))
        without_start = (9 / 16 * 1) ** 0.5
        second = next(line for line in lines if line.startswith("| gemm-rs | 2 | "))
        self.assertTrue(second.startswith("| gemm-rs | 2 | 0.64 |"), second)
        self.assertEqual(second.split(" | ")[5], f"{without_start:.2f}")

    def test_each_machine_file_has_what_takes_next_to_no_time(self):
        for path in (held_back.ROOT / "machines").glob("*.json"):
            figures = held_back.without(path.stem, held_back.STARTS, held_back.LINKS)["figures"]
            self.assertEqual(set(figures), {*held_back.STARTS, *held_back.LINKS}, path)

    def test_pieces_hide_all_but_one(self):
        last = self.lines(row(16, 20))[-1].split(" | ")
        self.assertEqual(last[1:3], ["0.45", f"{9 / (9 + 2 + 2.3):.2f}"])
        self.assertEqual(last[3], f"{9 / (9 + 1 + 2.3):.2f}")

    def test_a_last_wave_is_of_own_tiles(self):
        tiles = row(16, 20, "mover=epilogue,tile=64x64")["strategies"][0]["schedule"]
        operator = row(65, 20)["operator"]  # 2 x 4 tiles on 5 SMs: two waves for 1.6
        self.assertAlmostEqual(held_back.idle_share(operator, tiles, 5), 0.2)
        self.assertAlmostEqual(held_back.idle_share(operator, tiles + ",comm-sms=3", 8), 0.2)
        self.assertEqual(held_back.idle_share(operator, "gemm=library," + tiles, 5), 0)
        self.assertEqual(held_back.idle_share(operator.replace("gemm-rs", "ag-gemm"), tiles, 4), 0)


if __name__ == "__main__":
    unittest.main()
