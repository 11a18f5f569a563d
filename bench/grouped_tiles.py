"""Which tile the grouped kernel takes for a product of experts. Without PyTorch, so that tests can ask."""

import typing


class Sort(typing.NamedTuple):
    columns: int
    rows: int
    stages: int
    gathers: bool = False
    scatters: bool = False
    follower: str = "none"
    ranges: int = 1
    ahead: int = 0
    gather_warps: int = 2

    @property
    def name(self):
        words = ["gathered" * self.gathers, "by 4" * (self.gathers and self.gather_warps == 4), "scattered" * self.scatters, self.follower.replace("none", "")]
        parts = f"/{self.ranges}" * (self.ranges > 1) + f"+{self.ahead}" * (self.ahead > 0)
        return " ".join([f"{self.columns}x{self.rows}{parts}", *filter(None, words)])

    @property
    def halves(self):
        return 2 if self.follower == "swiglu" else 1

    @property
    def stored_at_once(self):
        """Columns of a chunk."""
        return 32 if self.columns // self.halves == 96 else 64


WIDE, MIDDLE, TALL = Sort(256, 128, 4), Sort(128, 192, 5), Sort(128, 256, 4)


def fitted(rows, experts, columns, num_sms=132, gathers=False):
    """As fitted() of src/gpu/grouped_kernel.h: tests/gpu/grouped_tiles.txt holds both to the same."""
    mean = rows // max(experts, 1)
    wide, thin = -(-columns // 256), -(-columns // 128)
    # An SM gathers rows for tiles of 256 columns as fast as it multiplies, for thin ones it does not.
    if mean < 80 or (gathers and mean > 180 and 10 * wide <= 6 * thin
                     and experts * -(-mean // 128) * wide >= 2 * num_sms):
        return WIDE
    tall_tiles = experts * -(-mean // 256) * thin
    return MIDDLE if mean <= 180 or tall_tiles < 4 * num_sms else TALL
