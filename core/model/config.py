"""The configuration of a model: its sizes (Vaswani et al. 2017, table 3)."""

from dataclasses import dataclass

from core.config import check, check_choice, check_range

POSITIONS = ("sinusoidal", "learned", "rotary")
"""The values of ``model.positions``. The first two are vectors that the embeddings contain."""

ACTIVATIONS = ("relu", "gelu")
"""The values of ``model.activation``."""

# Far beyond the largest models. Without bounds, a configuration of one line takes all memory.
MAX_WIDTH = 1 << 17
MAX_LAYERS = 1000
MAX_POSITIONS = 1 << 15


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The sizes of a Transformer encoder (Vaswani et al. 2017, table 3).

    Args:
        d_model: D, the width of the states.
        nhead: H, the number of heads; it divides ``d_model``.
        num_encoder_layers: the number of layers.
        dim_feedforward: F, the width inside the feed-forward networks.
        dropout: the probability of dropping a number, in training (section 5.4).
        activation: "relu" (the paper's) or "gelu", in the feed-forward networks.
        norm_first: normalize the input of a sublayer (pre-norm); the paper normalizes its sum.
        max_len: the longest sequence. It bounds time and memory; learned positions are as many.
        positions: "sinusoidal" (section 3.5) or "learned" vectors in the embeddings, or "rotary"
            ones in self-attention (:mod:`core.model.rotary`).
    """

    d_model: int = 256
    nhead: int = 8
    num_encoder_layers: int = 3
    dim_feedforward: int = 1024
    dropout: float = 0.1
    activation: str = "relu"
    norm_first: bool = True
    max_len: int = 512
    positions: str = "sinusoidal"

    def __post_init__(self) -> None:
        for name in ("d_model", "nhead", "dim_feedforward"):
            check_range(f"model.{name}", getattr(self, name), 1, MAX_WIDTH)
        check_range("model.num_encoder_layers", self.num_encoder_layers, 1, MAX_LAYERS)
        check_range("model.max_len", self.max_len, 2, MAX_POSITIONS)
        divisor = f"a divisor of model.d_model ({self.d_model})"
        check(self.d_model % self.nhead == 0, "model.nhead", self.nhead, divisor)
        check(0.0 <= self.dropout < 1.0, "model.dropout", self.dropout, "at least 0 and below 1")
        check_choice("model.activation", self.activation, ACTIVATIONS)
        check_choice("model.positions", self.positions, POSITIONS)
        if self.positions == "rotary":
            even = f"such that model.d_model / model.nhead ({self.d_model} / {self.nhead}) is even"
            check(self.d_model // self.nhead % 2 == 0, "model.nhead", self.nhead, even)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(EncoderConfig):
    """The sizes of a whole Transformer.

    Args:
        num_decoder_layers: the number of decoder layers.
    """

    num_decoder_layers: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("model.num_decoder_layers", self.num_decoder_layers, 1, MAX_LAYERS)
