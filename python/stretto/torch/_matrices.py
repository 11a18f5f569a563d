"""Products of gradients: tensors of any leading dimensions as matrices."""


def matrix(tensor):
    return tensor.flatten(0, -2)


def weight_gradient(dy, rows):
    """[N, K] of dy [..., N] and the rows [..., K] that were multiplied."""
    return matrix(dy).t() @ matrix(rows)
