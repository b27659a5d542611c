"""Token embeddings and positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .dropout import Dropout


class TokenEmbedding(nn.Module):
    """A table of token vectors, multiplied by sqrt(d_model) as section 3.4 has it.

    Entries start as N(0, 1/d_model): after the scaling they have the size of the positional
    encoding, and the table can serve as the output layer too (Press and Wolf 2017).
    """

    def __init__(self, vocab_size: int, emb_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_size)
        self.emb_size = emb_size
        nn.init.normal_(self.embedding.weight, std=emb_size**-0.5)

    @property
    def weight(self) -> Tensor:
        """The table, ``[V, D]``."""
        return self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Ids ``[S, B]`` -> vectors ``[S, B, D]``."""
        return self.embedding(tokens) * math.sqrt(self.emb_size)


class PositionalEncoding(nn.Module):
    """Adds the sinusoids of section 3.5, then drops out (section 5.4).

        PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))

    Args:
        emb_size: D, even or odd.
        dropout: of the sum.
        max_len: the longest sequence that can come.
    """

    table: Tensor  # [max_len, 1, D]

    def __init__(self, emb_size: int, dropout: float = 0.0, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)
        frequency = torch.exp(
            torch.arange(0, emb_size, 2, dtype=torch.float64) * (-math.log(10000.0) / emb_size)
        )
        table = torch.zeros(max_len, emb_size, dtype=torch.float64)
        table[:, 0::2] = torch.sin(position * frequency)
        table[:, 1::2] = torch.cos(position * frequency[: emb_size // 2])
        # A constant of the formula, not something learnt: no part of the saved weights.
        self.register_buffer("table", table.float().unsqueeze(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[S, B, D]`` -> ``[S, B, D]``.

        Raises:
            ValueError: an ``x`` of another rank or width, or longer than ``max_len``.
        """
        emb_size = self.table.shape[2]
        # Checked, because the sum below would broadcast many a wrong shape in silence.
        if x.dim() != 3 or x.shape[2] != emb_size:
            raise ValueError(f"x must be [S, B, D] with D = {emb_size}, not {list(x.shape)}")
        self._check_positions(0, len(x))
        return self.dropout(x + self.table[: len(x)])

    def at(self, position: int) -> Tensor:
        """The vector ``[1, D]`` of one position, for decoding step by step.

        Raises:
            ValueError: a position outside 0 to ``max_len`` - 1.
        """
        self._check_positions(position, position + 1)
        return self.table[position]

    def _check_positions(self, start: int, end: int) -> None:
        if start < 0:
            raise ValueError(f"positions are counted from 0, not {start}")
        if end > len(self.table):
            raise ValueError(
                f"position {end} is beyond the longest sequence this encoding was made for, "
                f"{len(self.table)}"
            )
