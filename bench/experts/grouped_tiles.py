"""Which tile the grouped kernel takes for a product of experts. Without PyTorch, so that tests can ask."""

import math
import typing


class Sort(typing.NamedTuple):
    columns: int
    rows: int
    stages: int
    ranges: int = 1
    gathers: bool = False
    scatters: bool = False
    follower: str = "none"
    slots: int = 2

    @property
    def name(self):
        words = ["gathered" * self.gathers, "scattered" * self.scatters, self.follower.replace("none", "")]
        words.append(f"slots {self.slots}" * (self.slots > 2))
        return " ".join([f"{self.columns}x{self.rows}" + f"/{self.ranges}" * (self.ranges > 1), *filter(None, words)])

    @property
    def halves(self):
        return 2 if self.follower == "swiglu" else 1

    @property
    def stored_at_once(self):
        """Columns of a chunk."""
        return 32 if self.columns // self.halves == 96 else 64


def filled(sort):
    """With as many stages as shared memory has room for."""
    stored = sort.columns // sort.halves
    rings = 1 if stored == 64 else sort.columns // 64 if sort.columns == 192 else 2
    rest = 1024 + rings * sort.slots * 32 * sort.stored_at_once * 2 + 7088 + 8 * sort.rows * sort.gathers
    most = 12 if sort.slots == 2 else 12 - sort.slots
    return sort._replace(stages=min(most, (232448 - rest) // (128 * (sort.columns + sort.rows))))


# What follows is src/op/expert_tiles.cpp in Python, where the constants are explained; tests/gpu/grouped_tiles.txt
# holds both to the same.
TILES = tuple(Sort(*tile) for tile in (
    (256, 128, 4), (128, 192, 5), (128, 256, 4), (192, 128, 4), (128, 128, 6), (256, 96, 4), (192, 96, 5), (128, 96, 7),
    (256, 64, 5), (192, 64, 6), (128, 64, 8), (256, 32, 5), (192, 32, 6), (128, 32, 10), (128, 64, 8, 2),
    (128, 128, 6, 2)))
SMS_OF_RANGES, WORTH_RANGES, MOST_GATHERED = 132, 0.9, 192
SHORT_K, FEWEST_GATHERED, SLOTS = 192, 128, 8


def cuts_of(rows, spread, most):
    cuts, edge = 1, most
    while edge < rows + spread - 1e-6:
        cuts += min(max(0.5 + (rows - edge) / (2 * spread), 0), 1) if spread > 0 else 1
        edge += most
    return cuts


def expert_us(tile, rows, experts, columns, k, gathers=False, num_sms=132):
    """About, of experts that have so many rows in the mean."""
    rows, experts = max(rows, 1), max(experts, 1)
    spread = math.sqrt(rows * (1 - 1 / experts))
    cuts = cuts_of(rows, spread, tile.rows)
    high = min(max(rows / cuts + (8 if experts > 1 else 0), 16), tile.rows)
    multiply = (2.52 if tile.columns == 128 else 2.6) * (tile.columns / 64) * high
    load, gather = 128 * (tile.columns + high) / 56, 128 * high / 26 if gathers else 0
    stage = math.sqrt(math.sqrt(multiply ** 4 + load ** 4 + gather ** 4)) + 0.12 * gather + 200 / tile.stages ** 2
    blocks_of_k = math.ceil(-(-k // 64) / tile.ranges)
    besides = 400 + (5000 if tile.ranges > 1 else 0)
    each = blocks_of_k * stage + besides
    places = max(tile.ranges, num_sms // tile.ranges * tile.ranges)
    rounds = experts * cuts * -(-columns // tile.columns) * tile.ranges / places
    whole = math.floor(cuts)
    uneven = 4 * (cuts - whole) * (1 - (cuts - whole))
    longest = blocks_of_k * stage * max(1, min(tile.rows, (rows + spread) / whole) / high) + besides
    cycles = (0.2 * tile.columns * high + (1 - uneven) * math.ceil(rounds - 1e-9) * each
              + uneven * max(longest, rounds * each + 0.75 * longest))
    return 7 + math.hypot(cycles / 1750, experts * columns * k * 2 / 4.6e6)


def for_short_k(tile, k, mean, gathers):
    """With chunks for a whole tile that waits while the next one is multiplied, where that is over sooner."""
    is_short = k <= SHORT_K and tile.ranges == 1 and tile.rows >= 96
    is_few = gathers and mean < FEWEST_GATHERED
    return filled(tile._replace(slots=SLOTS)) if is_short and not is_few else tile


def fitted(rows, experts, columns, k, num_sms=132, gathers=False):
    """Of `rows` rows of all experts together."""
    mean = rows // max(experts, 1)

    def best(ranges, sms):
        tiles = [tile for tile in TILES if tile.ranges == ranges and not (gathers and tile.rows > MOST_GATHERED)]
        us = [expert_us(tile, mean, experts, columns, k, gathers, sms) for tile in tiles]
        return min(us), tiles[us.index(min(us))]

    splits = k > 192 and best(2, SMS_OF_RANGES)[0] < WORTH_RANGES * best(1, SMS_OF_RANGES)[0]
    return for_short_k(best(2 if splits else 1, num_sms)[1], k, mean, gathers)
