"""Token embeddings and positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""

import math

import torch
from torch import Tensor, nn

from core.model.attention import check_states
from core.model.dropout import Dropout


class TokenEmbedding(nn.Module):
    """A table of token vectors, multiplied by sqrt(d_model) (section 3.4).

    Entries are drawn from N(0, 1/d_model). Scaled, they are about as large as the positional
    encoding, and the table can also be the weight of the output layer (Press and Wolf 2017).
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
    """Adds the vectors of the positions (section 3.5), then applies dropout (section 5.4).

    Those of the paper are sinusoids:

        PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))

    Args:
        d_model: D, even or odd.
        max_len: the length of the longest sequence.
        positions: "sinusoidal"; "learned" (Gehring et al. 2017), which starts from the sinusoids;
            or "rotary", for which nothing is added here.
    """

    table: Tensor | None  # [max_len, 1, D]

    def __init__(
        self,
        d_model: int,
        dropout: float = 0.0,
        max_len: int = 5000,
        *,
        positions: str = "sinusoidal",
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.d_model = d_model
        self.max_len = max_len
        if positions not in ("sinusoidal", "learned"):
            self.table = None
            return
        table = torch.empty(max_len, d_model)
        if not table.is_meta:  # there, a tensor has a shape and no numbers
            position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)
            frequency = torch.exp(
                torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model)
            )
            table[:, 0::2] = torch.sin(position * frequency)
            table[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
        if positions == "learned":
            self.table = nn.Parameter(table.unsqueeze(1))
        else:
            # A constant of the formula: not part of the saved weights.
            self.register_buffer("table", table.unsqueeze(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[S, B, D]`` -> ``[S, B, D]``.

        Raises:
            ValueError: ``x`` has the wrong rank or width, or is longer than ``max_len``.
        """
        # Without this check, the sum below would broadcast a wrong shape silently.
        check_states("x", x, self.d_model)
        if x.shape[0] > self.max_len:
            raise ValueError(
                f"position {x.shape[0]} is beyond the longest sequence of this encoding, "
                f"{self.max_len}"
            )
        return self.dropout(x if self.table is None else x + self.table[: x.shape[0]])
