"""Trained padding of context windows: what stands beyond the ends of a sequence."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def padding(weight: Tensor, offsets: Tensor, start: int, length: int) -> Tensor:
    """What stands in context windows beyond the ends of their sequences: the lines of `weight`, first those for before."""
    lengths = offsets[1:] - offsets[:-1]
    inside = torch.arange(int(offsets[-1])) - torch.repeat_interleave(offsets[:-1], lengths)
    place = inside[:, None] + torch.arange(start, start + length)
    behind = place - torch.repeat_interleave(lengths, lengths)[:, None]
    line, column = torch.nonzero((place < 0) | (behind >= 0), as_tuple=True)
    wanted = torch.where(place < 0, place, behind)[line, column] + max(0, -start)
    out = weight.new_zeros(len(place), length, weight.shape[1])
    return out.index_put((line, column), functional.embedding(wanted, weight)).flatten(1)
