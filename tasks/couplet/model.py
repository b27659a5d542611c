"""The couplet model."""

from typing import Any

import torch
from torch import Tensor, nn

from core.config import complete
from core.model.sequence_to_sequence import SequenceToSequence
from tasks.couplet.config import CoupletTransformerConfig


class CoupletModel(SequenceToSequence):
    """The encoder-decoder of the paper, with one vocabulary and one embedding for both lines.

    Args:
        vocab_size: the size of the vocabulary.
        config: the sizes of the Transformer. They can also be given as keywords:
            ``CoupletModel(3000, d_model=256, nhead=4, aligned=True)``.
        sizes: fields of :class:`CoupletTransformerConfig`.

    Raises:
        ConfigError: an unknown or a wrong size.
    """

    def __init__(
        self, vocab_size: int, config: CoupletTransformerConfig | None = None, **sizes: Any
    ) -> None:
        config = complete(CoupletTransformerConfig, config, sizes)
        super().__init__(
            vocab_size, vocab_size, config, share_embeddings=True, tie_output=config.tie_output
        )
        self.alignment = Alignment(config.d_model) if config.aligned else None

    @property
    def source_reader(self) -> "Alignment | None":
        return self.alignment


class Alignment(nn.Module):
    """What the decoder reads of the first line where it writes character i of the second.

    Character i answers character i, so attention need not search for it: the embeddings of
    characters i and i - 1 of the first line and the encoder's output at i are added to the
    decoder's input, through one linear map that is zero at first. With character i - 1, which the
    decoder's own last character answers, a later position can find the answer to a character that
    the first line repeats.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * d_model, d_model)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, embedded: Tensor, states: Tensor, is_pad: Tensor | None) -> Tensor:
        """Maps the first line to what the decoder reads, see ``source_reader``."""
        previous = torch.cat([torch.zeros_like(embedded[:1]), embedded[:-1]])
        # Under autocast, the embeddings are in float32 and the states may not be.
        read: Tensor = self.linear(torch.cat([embedded, previous, states.to(embedded.dtype)], 2))
        return read if is_pad is None else read.masked_fill(is_pad.t().unsqueeze(2), 0.0)
