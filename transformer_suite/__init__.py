"""The public Python API: ``from transformer_suite import Translator, Classifier, CoupletWriter``.

Names are imported when they are first used, so that ``import transformer_suite`` is fast: it does
not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from core import __name__ as _core

if TYPE_CHECKING:
    from core.decoding.config import GenerationConfig
    from core.errors import (
        CheckpointError,
        ConfigError,
        CorpusError,
        TextError,
        UserError,
    )
    from core.inference.ensemble import Ensemble
    from core.inference.greedy_decode import greedy_decode
    from core.inference.incremental_model import IncrementalModel
    from core.model.attention import MyMultiheadAttention
    from core.model.config import TransformerConfig
    from core.model.embedding import PositionalEncoding, TokenEmbedding
    from core.model.masks import (
        create_mask,
        generate_square_subsequent_mask,
        padding_mask,
    )
    from core.model.sequence_to_sequence import SequenceToSequence
    from core.model.transformer import (
        MyTransformer,
        MyTransformerDecoder,
        MyTransformerDecoderLayer,
        MyTransformerEncoder,
        MyTransformerEncoderLayer,
    )
    from core.training.schedule import CustomSchedule
    from tasks.classification.model import ClassificationModel
    from tasks.classification.predict import Classification, Classifier
    from tasks.couplet.answer import Couplet
    from tasks.couplet.model import CoupletModel
    from tasks.couplet.predict import CoupletWriter
    from tasks.seq2seq.attention_maps import Attention
    from tasks.seq2seq.request import GenerationRequest
    from tasks.seq2seq.scoring import PairScore
    from tasks.translation.model import TranslationModel
    from tasks.translation.predict import Translation, Translator

__version__ = "1.0.0"

# "" in the repository; "transformer_suite." in an installation, where core is inside this package.
_PREFIX = _core.removesuffix("core")

_MODULES = {
    "Attention": "tasks.seq2seq.attention_maps",
    "CheckpointError": "core.errors",
    "Classification": "tasks.classification.predict",
    "ClassificationModel": "tasks.classification.model",
    "Classifier": "tasks.classification.predict",
    "ConfigError": "core.errors",
    "CorpusError": "core.errors",
    "Couplet": "tasks.couplet.answer",
    "CoupletModel": "tasks.couplet.model",
    "CoupletWriter": "tasks.couplet.predict",
    "CustomSchedule": "core.training.schedule",
    "Ensemble": "core.inference.ensemble",
    "GenerationConfig": "core.decoding.config",
    "GenerationRequest": "tasks.seq2seq.request",
    "IncrementalModel": "core.inference.incremental_model",
    "MyMultiheadAttention": "core.model.attention",
    "MyTransformer": "core.model.transformer",
    "MyTransformerDecoder": "core.model.transformer",
    "MyTransformerDecoderLayer": "core.model.transformer",
    "MyTransformerEncoder": "core.model.transformer",
    "MyTransformerEncoderLayer": "core.model.transformer",
    "PairScore": "tasks.seq2seq.scoring",
    "PositionalEncoding": "core.model.embedding",
    "SequenceToSequence": "core.model.sequence_to_sequence",
    "TextError": "core.errors",
    "TokenEmbedding": "core.model.embedding",
    "TransformerConfig": "core.model.config",
    "Translation": "tasks.translation.predict",
    "TranslationModel": "tasks.translation.model",
    "Translator": "tasks.translation.predict",
    "UserError": "core.errors",
    "create_mask": "core.model.masks",
    "generate_square_subsequent_mask": "core.model.masks",
    "greedy_decode": "core.inference.greedy_decode",
    "padding_mask": "core.model.masks",
}
"""Where each public name is defined."""

__all__ = [
    "Attention",
    "CheckpointError",
    "Classification",
    "ClassificationModel",
    "Classifier",
    "ConfigError",
    "CorpusError",
    "Couplet",
    "CoupletModel",
    "CoupletWriter",
    "CustomSchedule",
    "Ensemble",
    "GenerationConfig",
    "GenerationRequest",
    "IncrementalModel",
    "MyMultiheadAttention",
    "MyTransformer",
    "MyTransformerDecoder",
    "MyTransformerDecoderLayer",
    "MyTransformerEncoder",
    "MyTransformerEncoderLayer",
    "PairScore",
    "PositionalEncoding",
    "SequenceToSequence",
    "TextError",
    "TokenEmbedding",
    "TransformerConfig",
    "Translation",
    "TranslationModel",
    "Translator",
    "UserError",
    "create_mask",
    "generate_square_subsequent_mask",
    "greedy_decode",
    "padding_mask",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PREFIX + _MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
