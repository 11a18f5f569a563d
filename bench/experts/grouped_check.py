"""Whether kernels of experts are right, each in turn, on experts of all sorts: for bench/experts/grouped_choice.py.

In processes of their own, since a kernel that faults ends its process, and one that hangs must be killed.
"""

import pathlib
import selectors
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from bench.experts.grouped_contest import error_of  # noqa: E402
from bench.experts.grouped_kernels import Kernels, Product  # noqa: E402
from bench.experts.grouped_tiles import TILES, filled  # noqa: E402

WORST_ERROR = 6e-3
SILENT_SECONDS, MOST_HUNG = 15, 3


def named(names):
    """Tiles of such names."""
    by_name = {tile.name: tile for one in TILES for gathers in (False, True) for follower in ("none", "swiglu")
               for tile in [filled(one._replace(gathers=gathers, follower=follower))]}
    return [by_name[name] for name in names.split(",")]


def check(kernels, tile):
    """Why the kernel is wrong on experts of all sorts; empty where it is right."""
    counts_here, n, k = (0, 1, 300, 17, 0, 129, 16, 48), 264, 648
    counts = torch.tensor(counts_here)
    rows = int(counts.sum())
    generator = torch.Generator(device="cuda").manual_seed(1)
    x = torch.randint(-2, 3, (rows, k), generator=generator, device="cuda").bfloat16()
    weights = torch.randint(-2, 3, (len(counts), n * tile.halves, k), generator=generator, device="cuda").bfloat16()
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(2)).int().cuda()
    sorted_rows = x[order.long()] if tile.gathers else x
    expected, first = torch.empty(rows, n, device="cuda"), 0
    for expert, count in enumerate(counts_here):
        both = sorted_rows[first:first + count].float() @ weights[expert].float().T
        if tile.halves == 2:
            both = torch.nn.functional.silu(both[:, :n]) * both[:, n:]
        expected[first:first + count] = both
        first += count
    bits = []
    for blocks in (132, 37, 4):
        output = torch.full((rows, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        call = Product(kernels, tile, x, weights, output, counts.int().cuda(), order, order)
        call.take(blocks)
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        bits.append(output)
    if not all(torch.equal(bits[0], other) for other in bits[1:]):
        return f"other bits by other numbers of blocks: {[error_of(one, expected) for one in bits]}"
    if tile.halves == 1 and not torch.equal(bits[0], expected.bfloat16()):
        return f"integers are not exact, off by {error_of(bits[0], expected):.2g}"
    return "" if error_of(bits[0], expected) < WORST_ERROR else f"off by {error_of(bits[0], expected):.2g}"


def check_here(tiles, folder):
    """In a process of its own, since a kernel that faults ends it."""
    kernels = Kernels(tiles, folder)
    for tile in tiles:
        print("begin", flush=True)
        print(f"end {check(kernels, tile)}", flush=True)


def lines_of(command, seconds):
    """What a process prints, line by line, until it is silent for so many seconds; then it is killed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(seconds):
            line = process.stdout.readline().decode()
            if not line:
                break
            yield line
    process.kill()


def wrong_tiles(folder, tiles):
    """By tile, why it takes no part. Of kernels that hang three are enough."""
    bad, number, hung = {}, 0, 0
    while number < len(tiles) and hung < MOST_HUNG:
        names = ",".join(tile.name for tile in tiles[number:])
        command = [sys.executable, "-u", __file__, names, folder]
        began = None
        for line in lines_of(command, SILENT_SECONDS):
            word, *why = line.split(maxsplit=1)
            if word == "begin":
                began = tiles[number]
                print(f"check {began.name}", flush=True)
            elif word == "end":
                if why and why[0].strip():
                    bad[began] = why[0].strip()
                    print(f"  {bad[began]}", flush=True)
                number, began = number + 1, None
        if began is None and number < len(tiles):
            raise RuntimeError(f"cannot check kernels from {tiles[number].name} on")
        if began is not None:
            bad[began] = "ended the process, or hung"
            print(f"  {bad[began]}", flush=True)
            number, hung = number + 1, hung + 1
    return {**bad, **{tile: "not checked" for tile in tiles[number:]}}


if __name__ == "__main__":
    check_here(named(sys.argv[1]), sys.argv[2])
