"""Networks of random weights: nothing learnt, but every rule of the code around them holds."""

import torch

from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence

CPU = torch.device("cpu")


def sizes(max_len: int = 512) -> TransformerConfig:
    """The smallest useful Transformer, without dropout."""
    return TransformerConfig(
        d_model=8,
        nhead=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dim_feedforward=16,
        dropout=0.0,
        max_len=max_len,
    )


def network(words: int = 20, *, max_len: int = 512) -> SequenceToSequence:
    """A model of one vocabulary of ``words``."""
    torch.manual_seed(1)
    model = SequenceToSequence(words, words, sizes(max_len), share_embeddings=True)
    spread(model)
    return model.eval()


def spread(model: torch.nn.Module) -> None:
    """Makes the outputs of a fresh model differ from input to input, as a trained one's do."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
