"""The largest of many numbers, quicker than ``topk`` and ``argmax`` find them on a CPU.

Both look at one number after another. Here the numbers are first folded into a sixteenth of their
length, each place keeping the largest of those that fall on it, which is a few passes of wide
instructions. The k largest numbers lie at k places at most, and these are the places of the k
largest maxima: only what fell on them is looked at again.
"""

from __future__ import annotations

import torch
from torch import Tensor

_FOLDS = 16
# Below so many numbers the few more calls cost more than they save.
_WORTHWHILE = 1 << 16


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest values of each row of ``x`` ``[R, M]``, the largest first, and where
    they are: ``[R, count]`` each. Of equal ones any may come."""
    rows, length = x.shape
    width = -(-length // _FOLDS)
    if x.numel() < _WORTHWHILE or count > width or x.device.type != "cpu":
        return x.topk(count, dim=1) if count > 1 else x.max(dim=1, keepdim=True)
    whole = length // width * width
    maxima = x[:, :whole].view(rows, -1, width).amax(dim=1)
    rest = maxima[:, : length - whole]
    torch.maximum(rest, x[:, whole:], out=rest)
    places = maxima.topk(count, dim=1).indices if count > 1 else maxima.argmax(1, keepdim=True)
    folds = torch.arange(0, length, width, device=x.device)
    where = (places.unsqueeze(2) + folds).flatten(1)  # [R, count * folds]
    is_beyond = where >= length
    found = x.gather(1, where.masked_fill(is_beyond, 0)).masked_fill_(is_beyond, -torch.inf)
    values, chosen = found.topk(count, dim=1)
    where = where.gather(1, chosen)
    # Where little is above minus infinity, what lies beyond the end is as large as what does not.
    return x.topk(count, dim=1) if where.max() >= length else (values, where)
