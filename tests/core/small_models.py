"""Small random encoder-decoder models, batches for them, and decoding without a cache."""

from typing import Any

import torch
from torch import Tensor

from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence
from core.special_ids import SPECIAL_IDS
from tests.core.model.parity import shake

UNK, PAD, BOS, EOS = SPECIAL_IDS
SRC_WORDS, TGT_WORDS, MAX_LEN = 11, 13, 12


def sizes(**changes: Any) -> TransformerConfig:
    """The smallest useful Transformer without dropout, changed."""
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    small = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0, **layers}
    return TransformerConfig(**(small | changes))


def model_of(
    seed: int,
    norm_first: bool = True,
    *,
    tie_output: bool = True,
    max_len: int = MAX_LEN,
    positions: str = "sinusoidal",
) -> SequenceToSequence:
    """A small model with random biases and norms; dropout is on, but in evaluation."""
    torch.manual_seed(seed)
    own = {"norm_first": norm_first, "max_len": max_len, "positions": positions}
    config = sizes(num_decoder_layers=2, dim_feedforward=17, dropout=0.5, **own)
    model = SequenceToSequence(
        SRC_WORDS, TGT_WORDS, config, share_embeddings=False, tie_output=tie_output
    ).eval()
    shake(model)
    return model


def column(length: int, words: int) -> Tensor:
    """``[length, 1]``: random words, no special token among them."""
    return torch.randint(4, words, (length, 1))


def together(columns: list[Tensor], *, extra: int = 0) -> Tensor:
    """``[S, B]``: the columns side by side, padded to the longest and ``extra`` places beyond."""
    batch = torch.full((max(map(len, columns)) + extra, len(columns)), PAD)
    for i, one in enumerate(columns):
        batch[: len(one), i] = one[:, 0]
    return batch


def chatty(seed: int, norm_first: bool, positions: str = "sinusoidal") -> SequenceToSequence:
    """A model whose outputs differ in words and length: most random ones repeat one word."""
    model = model_of(seed, norm_first, tie_output=False, positions=positions)
    with torch.no_grad():
        model.generator.weight.mul_(4.0)
        model.generator.bias[EOS] += 1.0
    return model


class Uncached:
    """A search state without any cache: the whole prefix through ``forward`` at every step."""

    def __init__(self, model: SequenceToSequence, src: Tensor) -> None:
        self.model, self.src = model, src
        self.history = torch.empty(0, src.shape[1], dtype=torch.long)

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        self.history = self.history[:, rows]
        if sentences is not None:
            self.src = self.src[:, sentences]

    @staticmethod
    def step(tokens: Tensor, state: "Uncached") -> Tensor:
        state.history = torch.cat([state.history, tokens.unsqueeze(0)])
        beams = len(tokens) // state.src.shape[1]
        return state.model(state.src.repeat_interleave(beams, dim=1), state.history)[-1]
