"""The parts of configurations that several tasks share."""

from core.config import check
from core.decoding.config import GenerationConfig
from core.model.config import TransformerConfig
from core.training.config import TrainConfig

TINY_TRANSFORMER = TransformerConfig(
    d_model=32, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=64
)
"""Trains in seconds on any machine: for tests and first steps."""

TINY_TRAINING = TrainConfig(
    epochs=2, batch_tokens=500, warmup_steps=50, average=0, precision="fp32"
)

SMALL_TRANSFORMER = TransformerConfig(
    d_model=128,
    nhead=4,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dim_feedforward=512,
    dropout=0.05,
    max_len=256,
    positions="rotary",
)
"""Trains in about five minutes on two CPU cores, with :data:`SMALL_TRAINING`.

Rotary positions learn faster than the paper's: see the study in ``tasks/translation/README.md``.
"""

SMALL_TRAINING = TrainConfig(
    epochs=4,
    batch_tokens=1000,
    learning_rate=3e-3,
    schedule="cosine",
    warmup=0.137,  # 300 of 2,188 steps with Multi30k
    average=0,
)
"""Small batches make many steps of a short run."""

PAPER_TRANSFORMER = TransformerConfig(
    d_model=512,
    nhead=8,
    num_encoder_layers=6,
    num_decoder_layers=6,
    dim_feedforward=2048,
    dropout=0.1,
    norm_first=False,
)
"""The base model of Vaswani et al. (2017), table 3."""

PAPER_TRAINING = TrainConfig(
    batch_tokens=25000, schedule="noam", warmup_steps=4000, clip_norm=0.0, average_of="last"
)
"""Sections 5.1 to 5.4 of the paper, and the average of 6.1, for a GPU."""

PAPER_GENERATION = GenerationConfig(
    beam_size=4, length_penalty=0.6, max_length_ratio=1.0, max_length_extra=50
)
"""Section 6.1 of the paper."""


def check_weight(name: str, weight: float) -> None:
    """Raises a ConfigError unless a pair can be drawn ``weight`` times in an epoch."""
    check(0.0 < weight <= 1000.0, name, weight, "above 0 and at most 1,000")
