"""The configuration of a model: its sizes (Vaswani et al. 2017, table 3)."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import check, check_choice


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The sizes of a Transformer encoder (Vaswani et al. 2017, table 3)."""

    d_model: int = 256
    nhead: int = 8
    num_encoder_layers: int = 3
    dim_feedforward: int = 1024
    dropout: float = 0.1
    activation: str = "relu"
    norm_first: bool = True
    max_len: int = 512

    def __post_init__(self) -> None:
        for name in ("d_model", "nhead", "num_encoder_layers", "dim_feedforward"):
            check(getattr(self, name) >= 1, f"model.{name}", getattr(self, name), "at least 1")
        check(self.max_len >= 2, "model.max_len", self.max_len, "at least 2")
        divisor = f"a divisor of model.d_model ({self.d_model})"
        check(self.d_model % self.nhead == 0, "model.nhead", self.nhead, divisor)
        check(0.0 <= self.dropout < 1.0, "model.dropout", self.dropout, "at least 0 and below 1")
        check_choice("model.activation", self.activation, ("relu", "gelu"))


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(EncoderConfig):
    """The sizes of a whole Transformer."""

    num_decoder_layers: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        layers = self.num_decoder_layers
        check(layers >= 1, "model.num_decoder_layers", layers, "at least 1")
