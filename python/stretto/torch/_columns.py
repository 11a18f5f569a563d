"""Columns that are dealt to ranks, in blocks of whole 16 bytes where ranks do not divide them."""

VECTOR = 16  # bytes


def block_of(columns, ranks, itemsize):
    """So many of a tensor's columns every rank has, but the last ranks, which may have fewer: as ColShards (held.h)."""
    least = -(-columns // ranks)
    step = VECTOR // itemsize
    return least if columns % ranks == 0 else -(-least // step) * step


def own(total, block, rank):
    """How many a rank has."""
    return max(0, min(block, total - rank * block))


def own_part(row, rank, ranks):
    """A rank's part of one row [columns]."""
    if ranks == 1:
        return row
    block = block_of(len(row), ranks, row.element_size())
    return row.narrow(0, rank * block, own(len(row), block, rank))
