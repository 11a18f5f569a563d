"""Triton kernels of one pass for layers of experts, and the buffers between them: how serving engines put libraries'
grouped products together. They run on CPU tensors too, with TRITON_INTERPRET=1.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def count_choices(ids, counts, first, experts, choices, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < choices
    expert = tl.load(ids + at, mask=inside, other=0) - first
    tl.atomic_add(counts + expert, 1, mask=inside & (expert >= 0) & (expert < experts))


@triton.jit
def begin_experts(counts, cursors, experts, align, each, BLOCK: tl.constexpr):
    """Where each expert's rows begin: behind those of the ones before, rounded up, or at equal distances."""
    at = tl.arange(0, BLOCK)
    inside = at < experts
    count = tl.load(counts + at, mask=inside, other=0)
    space = (count + align - 1) // align * align
    begin = tl.cumsum(space, 0) - space
    if each > 0:
        begin = at * each
    tl.store(cursors + at, begin, mask=inside)


@triton.jit
def place_rows(x, ids, cursors, rows, places, layout, hidden, first, experts, top_k: tl.constexpr, BLOCK: tl.constexpr):
    """A choice takes its expert's next row, and its token's values go there; -1 where it is no expert of this rank."""
    choice = tl.program_id(0)
    expert = tl.load(ids + choice) - first
    if (expert >= 0) & (expert < experts):
        place = tl.atomic_add(cursors + expert, 1)
        tl.store(places + choice, place)
        tl.store(layout + place, expert)
        source, target = (choice // top_k).to(tl.int64) * hidden, place.to(tl.int64) * hidden
        for begin in range(0, hidden, BLOCK):
            at = begin + tl.arange(0, BLOCK)
            tl.store(rows + target + at, tl.load(x + source + at, mask=at < hidden), mask=at < hidden)
    else:
        tl.store(places + choice, -1)


@triton.jit
def swiglu_of_choices(both, act, places, inner, BLOCK: tl.constexpr):
    place = tl.load(places + tl.program_id(0)).to(tl.int64)
    if place >= 0:
        for begin in range(0, inner, BLOCK):
            at = begin + tl.arange(0, BLOCK)
            gate = tl.load(both + place * 2 * inner + at, mask=at < inner, other=0.0).to(tl.float32)
            up = tl.load(both + place * 2 * inner + inner + at, mask=at < inner, other=0.0).to(tl.float32)
            result = gate / (1.0 + tl.exp(-gate)) * up
            tl.store(act + place * inner + at, result.to(act.dtype.element_ty), mask=at < inner)


@triton.jit
def sum_choices(rows, weights, places, y, hidden, top_k: tl.constexpr, BLOCK: tl.constexpr):
    token, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for slot in tl.static_range(top_k):
        place = tl.load(places + token * top_k + slot).to(tl.int64)
        weight = tl.load(weights + token * top_k + slot)
        row = tl.load(rows + place * hidden + at, mask=tl.where(at < hidden, place, -1) >= 0, other=0.0)
        total += weight * row.to(tl.float32)
    tl.store(y + token.to(tl.int64) * hidden + at, total.to(y.dtype.element_ty), mask=at < hidden)


@triton.jit
def weigh_rows(rows, ids, weights, to, hidden, first, experts, top_k: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    weight = 0.0
    for slot in tl.static_range(top_k):
        expert = tl.load(ids + row * top_k + slot) - first
        own = tl.load(weights + row * top_k + slot)
        weight += tl.where((expert >= 0) & (expert < experts), own, 0.0)
    inside, begin = at < hidden, row.to(tl.int64) * hidden
    value = tl.load(rows + begin + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(to + begin + at, (weight * value).to(to.dtype.element_ty), mask=inside)


def sum_rows(rows, weights, places, to):
    """to[i] = the sum over slots of weights[i] times the row of `rows` at places[i], where that is not below 0."""
    tokens, top_k = places.shape
    if tokens > 0:
        sum_choices[(tokens, triton.cdiv(to.shape[1], 1024))](rows, weights, places, to, to.shape[1], top_k=top_k,
                                                              BLOCK=1024)


def weigh_received(rows, ids, weights, first, experts, to):
    """to[r, i] = rows[r, i] times its weights of experts [first, first + experts)."""
    count, hidden = rows.shape[0] * rows.shape[1], rows.shape[2]
    weigh_rows[(count, triton.cdiv(hidden, 1024))](rows, ids, weights, to, hidden, first, experts, top_k=ids.shape[2],
                                                   BLOCK=1024)


class Passes:
    """Choices of experts `first` on, of which `space` says how many rows each gets, in order for grouped products.

    order(x)     rows: the tokens' values by expert; counts, places, layout and ends say whose they are
    order_choices(a)  act: the choices' rows of `a` by expert, likewise
    activate()   act: SwiGLU of both halves of `both`
    total(y)     y: each token's rows of `out`, weighted, summed in fp32
    """

    def __init__(self, ids, weights, first, space, align, is_masked, hidden, inner, device):
        self.ids, self.weights, self.first, self.space, self.align = ids, weights, first, space, align
        self.is_masked, self.hidden, self.inner, self.experts = is_masked, hidden, inner, len(space)
        self.choices, total = ids.numel(), max(1, sum(space))
        bf16 = {"device": device, "dtype": torch.bfloat16}
        self.rows, self.both = torch.zeros(total, hidden, **bf16), torch.zeros(total, 2 * inner, **bf16)
        self.act, self.out = torch.zeros(total, inner, **bf16), torch.zeros(total, hidden, **bf16)
        self.counts, self.cursors = (torch.zeros(self.experts, device=device, dtype=torch.int32) for _ in range(2))
        self.places = torch.full((self.choices,), -1, device=device, dtype=torch.int32)
        self.layout = torch.full((total,), -1, device=device, dtype=torch.int32)
        self.some = max(1, self.choices // self.experts)

    @property
    def ends(self):
        """Behind each expert's last row, once rows are placed."""
        return self.cursors

    def order(self, x):
        self._place(x, self.rows, self.ids.shape[1])

    def order_choices(self, rows):
        self._place(rows, self.act, 1)

    def _place(self, rows, to, choices_of_row):
        self.counts.zero_()
        self.layout.fill_(-1)
        count_choices[(triton.cdiv(self.choices, 256),)](self.ids, self.counts, self.first, self.experts, self.choices,
                                                         BLOCK=256)
        begin_experts[(1,)](self.counts, self.cursors, self.experts, self.align, self.space[0] if self.is_masked else 0,
                            BLOCK=triton.next_power_of_2(self.experts))
        place_rows[(self.choices,)](rows, self.ids, self.cursors, to, self.places, self.layout, to.shape[1],
                                    self.first, self.experts, top_k=choices_of_row,
                                    BLOCK=min(2048, triton.next_power_of_2(to.shape[1])))

    def activate(self):
        swiglu_of_choices[(self.choices,)](self.both, self.act, self.places, self.inner,
                                           BLOCK=min(2048, triton.next_power_of_2(self.inner)))

    def total(self, y):
        sum_rows(self.out, self.weights, self.places.view(self.ids.shape), y)
