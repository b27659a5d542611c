"""The masks of a decoder's self-attention, for one example."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from core.config import check
from core.model.masks import combine_masks, generate_square_subsequent_mask, padding_mask
from data.vocabulary import BOS, BOS_ID, PAD, PAD_ID, UNK_ID
from tasks.pictures import BLUE, draw_matrix, picture

MAX_TOKENS = 50
"""The most tokens of an example, padding included."""

_ALLOWED = "#F2F2F2"
_CELL_INCHES = 0.32


def draw_masks(path: str | Path, words: Sequence[str], *, padding: int = 2) -> None:
    """Draws the causal mask, the padding mask and their union, side by side.

    The example is a target as a decoder reads it: ``<bos>``, the words, then padding. A row is a
    query and a column is a key.

    Args:
        padding: the number of ``<pad>`` after the words.

    Raises:
        ConfigError, UserError: no word, or too many; or as for :func:`.picture`.
    """
    tokens = [BOS, *words, *[PAD] * padding]
    length = len(tokens)
    check(bool(words), "the example", " ".join(words), "a text of at least one word")
    check(length <= MAX_TOKENS, "the example", length, f"at most {MAX_TOKENS} tokens long")
    ids = torch.tensor([[BOS_ID], *[[UNK_ID]] * len(words), *[[PAD_ID]] * padding])
    is_future = generate_square_subsequent_mask(length, dtype=torch.bool)
    is_pad = padding_mask(ids, PAD_ID)
    is_blocked = combine_masks(is_future, is_pad, (1, 1, length, length))
    assert is_blocked is not None
    masks = {
        "causal mask: later positions": is_future,
        "padding mask": is_pad.expand(length, length),
        "union: blocked by either mask": is_blocked[0, 0],
    }
    with picture(path) as figure:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        side = 1.1 + _CELL_INCHES * length
        figure.set_size_inches(3 * side, side + 0.7)
        colors, edges = ListedColormap([_ALLOWED, BLUE]), [i - 0.5 for i in range(1, length)]
        for axes, (title, mask) in zip(figure.subplots(1, 3), masks.items(), strict=True):
            draw_matrix(axes, mask.numpy(), tokens, tokens, cmap=colors, vmin=0, vmax=1)
            axes.set(title=title, xlabel="key", ylabel="query")
            axes.set_xticks(edges, minor=True)
            axes.set_yticks(edges, minor=True)
            axes.grid(which="minor", color="white", alpha=1)
            axes.tick_params(which="minor", length=0)
        keys = [Patch(color=BLUE), Patch(facecolor=_ALLOWED, edgecolor="grey")]
        names = ["True: blocked", "False: the query may attend to the key"]
        figure.legend(keys, names, loc="outside lower center", ncols=2)
