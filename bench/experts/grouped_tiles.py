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
    together: int = 1

    @property
    def name(self):
        words = ["gathered" * self.gathers, "scattered" * self.scatters, self.follower.replace("none", "")]
        words.append(f"together {self.together}" * (self.together > 1))
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
    rest = 1024 + rings * 2 * sort.together * 32 * sort.stored_at_once * 2 + 7088 + 8 * (-(-sort.rows // 32) * 32) * sort.gathers
    return sort._replace(stages=min(12, (232448 - rest) // (128 * (sort.columns + sort.rows))))


# What follows is src/op/expert_tiles.cpp in Python, where the constants are explained; tests/gpu/grouped_tiles.txt
# holds both to the same.
TILES = tuple(Sort(*tile) for tile in (
    (256, 128, 4), (128, 192, 5), (128, 256, 4), (192, 128, 4), (128, 128, 6), (256, 96, 4), (192, 96, 5), (128, 96, 7),
    (256, 64, 5), (192, 64, 6), (128, 64, 8), (256, 32, 5), (192, 32, 6), (128, 32, 10), (192, 160, 4), (256, 144, 4),
    (128, 64, 8, 2), (128, 128, 6, 2)))
SMS_OF_RANGES, WORTH_RANGES = 132, 0.9
ALIKE, TALL, MANY_ROWS, MANY_EACH = 1.02, 128, 1024, 32
TENSOR = {128: 2.3, 192: 2.15, 256: 2.38}
SHORT_K, FEWEST_ROWS, ROWS_OF_TALL, STAGES_OF_SHORT_K = 256, 32, 96, 4


def has_registers(tile, gathers, scatters=False, joins=False):
    """By most_rows_of() of include/stretto/device/grouped_task.h."""
    if tile.columns == 128:
        return tile.rows <= (192 if gathers else 256)
    if tile.columns == 192:
        return tile.rows <= (128 if gathers else 160)
    return tile.rows <= (128 if (gathers or scatters) and not joins else 144)


def cuts_of(rows, spread, most):
    cuts, edge = 1, most
    while edge < rows + 4 * spread - 1e-6:
        cuts += 0.5 * math.erfc((edge - rows) / (spread * math.sqrt(2))) if spread > 0 else 1
        edge += most
    return cuts


def is_short(rows, k):
    return k <= SHORT_K and rows >= FEWEST_ROWS


def chunks_of(columns, rows, joins=False):
    """Of 32 rows by 64 columns, those of one consumer's."""
    return math.ceil(rows / 32) * (2 if columns == 256 and not joins else 1)


def lines_of(k):
    """Lines of the L2 cache from which 128 bytes of a row of so many elements come, in the mean over rows."""
    return 2 - math.gcd(2 * k, 128) / 128


def expert_us(tile, rows, experts, columns, k, gathers=False, num_sms=132, joins=False):
    """About, of experts that have so many rows in the mean."""
    rows, experts = max(rows, 1), max(experts, 1)
    spread = math.sqrt(rows * (1 - 1 / experts))
    cuts = cuts_of(rows, spread, tile.rows)
    high = min(max(rows / cuts + (8 if experts > 1 else 0), 16), tile.rows)
    multiply = TENSOR[tile.columns] * (tile.columns / 64) * high
    shared = 1.075 * (2 * tile.columns + high + high * tile.columns / 64)
    load, gather = 128 * lines_of(k) * (tile.columns + high) / 59, 128 * high / 23.5 if gathers else 0
    limit = (multiply ** 8 + shared ** 8 + load ** 8 + gather ** 8) ** (1 / 8)
    stage = limit + 0.15 * gather + 200 / tile.stages ** 2
    blocks_of_k = math.ceil(-(-k // 64) / tile.ranges)
    besides = 400 + (5000 if tile.ranges > 1 else 0)
    if tile.together == 1:
        if is_short(rows, k):
            besides += 240 * chunks_of(tile.columns, high)
        else:
            besides += 180 * max(0, chunks_of(tile.columns, high, joins) - (blocks_of_k - 1))
    stored = tile.columns * high * 2 / 18
    of_blocks = math.hypot(blocks_of_k * stage, stored)
    places = max(tile.ranges, num_sms // tile.ranges * tile.ranges)
    rounds = experts * cuts * -(-columns // tile.columns) * tile.ranges / places
    whole = math.floor(cuts)
    uneven = 4 * (cuts - whole) * (1 - (cuts - whole))
    each = (of_blocks + besides) * (1 + 0.12 * uneven / whole)
    longest = of_blocks * max(1, min(tile.rows, (rows + spread) / whole) / high) + besides
    cycles = (0.2 * tile.columns * high + (1 - uneven) * math.ceil(rounds - 1e-9) * each
              + uneven * max(longest, rounds * each + 0.4 * longest))
    return 7 + math.hypot(cycles / 1750, experts * columns * k * 2 / 4.9e6)


def for_short_k(tile, mean, k):
    """The tile as it is for this K, or nothing where it has no room for what it should be."""
    if not is_short(mean, k) or tile.ranges > 1 or tile.rows < ROWS_OF_TALL:
        return tile
    short = filled(tile._replace(together=-(-chunks_of(tile.columns, tile.rows) // 2)))
    return short if short.stages >= STAGES_OF_SHORT_K else None


def fitted(rows, experts, columns, k, num_sms=132, gathers=False, joins=False, scatters=False):
    """Of `rows` rows of all experts together."""
    mean = rows // max(experts, 1)

    def best(ranges, sms):
        tiles = [short for tile in TILES if tile.ranges == ranges and has_registers(tile, gathers, scatters, joins)
                 and (short := for_short_k(tile, mean, k))]
        us = {tile: expert_us(tile, mean, experts, columns, k, gathers, sms, joins) for tile in tiles}
        least = min(us.values())

        def height(tile):
            return min(tile.rows, TALL) if mean * experts >= MANY_ROWS and mean >= MANY_EACH and us[tile] <= ALIKE * least else 0

        return least, min(tiles, key=lambda tile: (-height(tile), us[tile]))

    splits = k > 192 and best(2, SMS_OF_RANGES)[0] < WORTH_RANGES * best(1, SMS_OF_RANGES)[0]
    return best(2 if splits else 1, num_sms)[1]
