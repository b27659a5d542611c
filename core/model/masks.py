"""Masks: which positions may attend to which (Vaswani et al. 2017, sections 3.1 and 3.2.3).

There are three masks, in PyTorch's conventions:

* ``attn_mask`` ``[T, S]`` or ``[B*H, T, S]``: which query may attend to which key;
* ``key_padding_mask`` ``[B, S]``: which keys are padding;
* the causal mask, an ``attn_mask`` that hides later positions from a decoder.

True blocks in a boolean mask; a float mask is added to the attention scores.
"""

import torch
from torch import Tensor


def generate_square_subsequent_mask(
    sz: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Returns the causal mask ``[sz, sz]``: position t attends to positions 0 to t only.

    It takes the arguments of PyTorch's function of this name and returns the same: 0 where
    attention is allowed and ``-inf`` where it is blocked, in ``dtype`` (None for the default type).
    With ``dtype=torch.bool`` the mask is boolean, True where blocked.
    """
    is_future = torch.ones(sz, sz, dtype=torch.bool, device=device).triu(diagonal=1)
    if dtype == torch.bool:
        return is_future
    return float_mask(is_future, dtype or torch.get_default_dtype())


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Returns ``[B, S]``, True where ``tokens`` ``[S, B]`` is padding."""
    return (tokens == pad_id).transpose(0, 1)


def create_mask(src: Tensor, tgt: Tensor, pad_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Makes the four masks of a training step for ``src`` ``[S, B]`` and ``tgt`` ``[T, B]``.

    Returns:
        ``src_mask`` ``[S, S]``, which blocks nothing; ``tgt_mask`` ``[T, T]``, the causal mask;
        ``src_is_pad`` ``[B, S]`` and ``tgt_is_pad`` ``[B, T]``. All are boolean.
    """
    src_mask = torch.zeros(len(src), len(src), dtype=torch.bool, device=src.device)
    tgt_mask = generate_square_subsequent_mask(len(tgt), device=tgt.device, dtype=torch.bool)
    return src_mask, tgt_mask, padding_mask(src, pad_id), padding_mask(tgt, pad_id)


def combine_masks(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, shape: tuple[int, int, int, int]
) -> Tensor | None:
    """Returns one mask that broadcasts to ``[B, H, T, S]`` and blocks what either mask blocks.

    The result is boolean if all given masks are, else float. It is None if there is no mask.
    ``shape`` has the sizes (B, H, T, S).

    Raises:
        ValueError: a mask of the wrong size or kind; the message names both sizes.
    """
    for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
        if mask is not None and mask.dtype != torch.bool and not mask.is_floating_point():
            raise ValueError(
                f"{name} must be boolean (True blocks) or float (added), not {mask.dtype}"
            )
    batch_size, num_heads, target_length, source_length = shape
    if attn_mask is not None:
        plain = [target_length, source_length]
        per_head = [batch_size * num_heads, *plain]
        if list(attn_mask.shape) not in (plain, per_head):
            raise ValueError(
                f"attn_mask must be [T, S] = {plain} or [B*H, T, S] = {per_head}, "
                f"not {list(attn_mask.shape)}"
            )
        attn_mask = attn_mask.view(shape if attn_mask.dim() == 3 else (1, 1, *plain))
    if key_padding_mask is not None:
        if key_padding_mask.shape != (batch_size, source_length):
            raise ValueError(
                f"key_padding_mask must be [B, S] = {[batch_size, source_length]}, "
                f"not {list(key_padding_mask.shape)}"
            )
        key_padding_mask = key_padding_mask.view(batch_size, 1, 1, source_length)
    if attn_mask is None or key_padding_mask is None:
        return key_padding_mask if attn_mask is None else attn_mask
    dtype = torch.promote_types(attn_mask.dtype, key_padding_mask.dtype)
    if dtype == torch.bool:
        return attn_mask | key_padding_mask
    return float_mask(attn_mask, dtype) + float_mask(key_padding_mask, dtype)


def float_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns ``mask`` as a float mask: ``-inf`` where a boolean mask blocks."""
    if mask.dtype != torch.bool:
        # Cast first: the lowest float32 number becomes -inf in half precision.
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
