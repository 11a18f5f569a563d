"""What checks of on_gpus.py share: tensors of every rank, and what was wrong of a check."""

import torch

MOST_ERROR = 1e-2  # relative, in norm: partial sums and results are rounded to 16 bits
K = 512
_wrong = []  # of the check that runs: a rank that is wrong goes on, or the others wait for it


def wrong():
    """What was wrong since the last call."""
    found, _wrong[:] = list(_wrong), []
    return found


def told_wrong(what):
    _wrong.append(what)


def generator(seed):
    return torch.Generator(device="cuda").manual_seed(seed)


def normal(seed, *shape, scale=1.0, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", generator=generator(seed)).mul_(scale).to(dtype)


def integers(seed, *shape, dtype=torch.bfloat16):
    """-1, 0 and 1: sums of a few hundred are exact in every type, partial ones too."""
    return torch.randint(-1, 2, shape, device="cuda", generator=generator(seed)).to(dtype)


def of_ranks(make, group, seed, *shape, **more):
    """Every rank's tensor."""
    return [make(100 * seed + rank, *shape, **more) for rank in range(group.ranks)]


def close(what, got, right, most=MOST_ERROR):
    if got.shape != right.shape:
        _wrong.append(f"{what}: {list(got.shape)} instead of {list(right.shape)}")
        return
    error = ((got.float() - right.float()).norm() / right.float().norm().clamp(min=1e-6)).item()
    if not error <= most:
        _wrong.append(f"{what} {list(got.shape)}: an error of {error:.1e}")


def exact(what, got, right):
    if got.shape != right.shape or not torch.equal(got.float(), right.float()):
        unlike = (got.float() != right.float()).sum().item() if got.shape == right.shape else "shape"
        rows = (got.float() != right.float()).flatten(0, -2).any(1).nonzero().flatten().tolist() if (
            got.shape == right.shape) else []
        _wrong.append(f"{what} {list(got.shape)}: {unlike} elements are not what exact sums are, in rows {rows[:12]}")


def products(xs, ws):
    """The sum over ranks of x @ w.T, in fp32."""
    return sum(x.float() @ w.float().t() for x, w in zip(xs, ws))
