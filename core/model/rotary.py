"""Rotary positions in self-attention (Su et al. 2021), an alternative to the sinusoids.

Queries and keys are rotated by angles that grow with their positions. Their product then depends on
the distance alone: shifting a whole sequence changes nothing. Attention from the decoder to the
memory has no such positions: a distance between positions of two sequences has no meaning.
"""

import math

import torch
from torch import Tensor


def rotations(length: int, head_dim: int, like: Tensor) -> Tensor:
    """Returns the rotations of the positions 0 to ``length`` - 1, ``[2, length, K]``.

    Dimensions i and i + K/2 are a complex number, multiplied by exp(1j * position / 10000^(2i/K))
    (Su et al., section 3.2.2). The first half has the cosines, the second one the signed sines.

    Args:
        head_dim: K, an even number.
        like: a tensor of the type and on the device of the queries.

    Raises:
        ValueError: an odd ``head_dim``.
    """
    if head_dim % 2 != 0:
        raise ValueError(f"rotary positions need heads of an even width, not {head_dim}")
    half, device = head_dim // 2, like.device
    # Not in half precision, which cannot count to a thousand.
    dtype = torch.promote_types(like.dtype, torch.float32)
    exponents = torch.arange(half, dtype=dtype, device=device) * (-math.log(10000.0) / half)
    angles = torch.arange(length, device=device).unsqueeze(1) * exponents.exp()
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], dim=1), torch.cat([-sin, sin], dim=1)])


def rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """Returns queries or keys ``[..., L, K]`` with the positions of ``rotations`` ``[2, L, K]``."""
    cos, sin = rotations
    # (a + ib)(cos + i sin) = (a cos - b sin) + i(b cos + a sin)
    rotated = torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)
    return rotated.to(x.dtype)
