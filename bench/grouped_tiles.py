"""Which tile the grouped kernel takes for a product of experts. Without PyTorch, so that tests can ask."""

import typing


class Sort(typing.NamedTuple):
    columns: int
    rows: int
    stages: int
    gathers: bool = False
    scatters: bool = False
    follower: str = "none"

    @property
    def name(self):
        words = ["gathered" * self.gathers, "scattered" * self.scatters, self.follower.replace("none", "")]
        return " ".join([f"{self.columns}x{self.rows}", *filter(None, words)])

    @property
    def halves(self):
        return 2 if self.follower == "swiglu" else 1


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
