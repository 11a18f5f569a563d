"""Rooms: operations for more rows than a call has, so that a few of them serve any number.

What is added on each rank counts for nothing (Call.fill), and costs a copy of what rows of the call there are.
"""

import dataclasses

SMALLEST = 4


def room_of(rows, ranks):
    """Rows of all ranks in the smallest room for so many, of which each rank has as many: 4, 6, 8, 12, 16, 24, ..."""
    own = max(SMALLEST, -(-rows // ranks))
    power = 1 << (own - 1).bit_length()
    return ranks * (power // 4 * 3 if own <= power // 4 * 3 else power)


def in_room(call, rows, ranks):
    """The call with so many rows, as many on each rank, of which its own are the first."""
    own, (name, _) = rows // ranks, call.sizes[0]
    return dataclasses.replace(
        call, sizes=((name, rows), *call.sizes[1:]),
        inputs={one: _filled(tensor, own, call.fill[one]) if one in call.fill else tensor
                for one, tensor in call.inputs.items()},
        outputs={one: (own, columns) for one, (_, columns) in call.outputs.items()}, fill={})


def _filled(tensor, rows, value):
    given = tensor.shape[0]
    if given == rows:
        return tensor
    made = tensor.new_empty((rows, *tensor.shape[1:]))
    made[:given] = tensor
    made[given:] = value
    return made
