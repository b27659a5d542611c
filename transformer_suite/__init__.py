"""The public Python API: ``from transformer_suite import Translator, Classifier, CoupletWriter``.

Names are imported when they are first used, so that ``import transformer_suite`` is fast.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

_HERE = Path(__file__).resolve().parent
# In the repository, core/, data/ and tasks/ are beside this package. Installed, they are inside it.
if not (_HERE / "core").is_dir():
    __path__.append(str(_HERE.parent))

if TYPE_CHECKING:
    from transformer_suite.core.decoding.config import GenerationConfig
    from transformer_suite.core.inference.greedy_decode import greedy_decode
    from transformer_suite.core.model.attention import MyMultiheadAttention
    from transformer_suite.core.model.config import TransformerConfig
    from transformer_suite.core.model.embedding import PositionalEncoding, TokenEmbedding
    from transformer_suite.core.model.masks import create_mask, generate_square_subsequent_mask
    from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
    from transformer_suite.core.model.transformer import (
        MyTransformer,
        MyTransformerDecoder,
        MyTransformerDecoderLayer,
        MyTransformerEncoder,
        MyTransformerEncoderLayer,
    )
    from transformer_suite.core.training.schedule import CustomSchedule
    from transformer_suite.tasks.classification.predict import Classifier
    from transformer_suite.tasks.couplet.predict import CoupletWriter
    from transformer_suite.tasks.translation.predict import Translator

__version__ = "1.0.0"

_MODULES = {
    "Classifier": "tasks.classification.predict",
    "CoupletWriter": "tasks.couplet.predict",
    "CustomSchedule": "core.training.schedule",
    "GenerationConfig": "core.decoding.config",
    "MyMultiheadAttention": "core.model.attention",
    "MyTransformer": "core.model.transformer",
    "MyTransformerDecoder": "core.model.transformer",
    "MyTransformerDecoderLayer": "core.model.transformer",
    "MyTransformerEncoder": "core.model.transformer",
    "MyTransformerEncoderLayer": "core.model.transformer",
    "PositionalEncoding": "core.model.embedding",
    "SequenceToSequence": "core.model.sequence_to_sequence",
    "TokenEmbedding": "core.model.embedding",
    "TransformerConfig": "core.model.config",
    "Translator": "tasks.translation.predict",
    "create_mask": "core.model.masks",
    "generate_square_subsequent_mask": "core.model.masks",
    "greedy_decode": "core.inference.greedy_decode",
}
"""Where each public name is defined."""

__all__ = [
    "Classifier",
    "CoupletWriter",
    "CustomSchedule",
    "GenerationConfig",
    "MyMultiheadAttention",
    "MyTransformer",
    "MyTransformerDecoder",
    "MyTransformerDecoderLayer",
    "MyTransformerEncoder",
    "MyTransformerEncoderLayer",
    "PositionalEncoding",
    "SequenceToSequence",
    "TokenEmbedding",
    "TransformerConfig",
    "Translator",
    "create_mask",
    "generate_square_subsequent_mask",
    "greedy_decode",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
