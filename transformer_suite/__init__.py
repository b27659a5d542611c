"""The public Python API: ``from transformer_suite import Translator, Classifier, CoupletWriter``.

Names are imported when they are first used, so that ``import transformer_suite`` is fast: it does
not import torch.
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
    from transformer_suite.core.errors import (
        CheckpointError,
        ConfigError,
        CorpusError,
        TextError,
        UserError,
    )
    from transformer_suite.core.inference.ensemble import Ensemble
    from transformer_suite.core.inference.greedy_decode import greedy_decode
    from transformer_suite.core.inference.incremental_model import IncrementalModel
    from transformer_suite.core.model.attention import MyMultiheadAttention
    from transformer_suite.core.model.config import TransformerConfig
    from transformer_suite.core.model.embedding import PositionalEncoding, TokenEmbedding
    from transformer_suite.core.model.masks import (
        create_mask,
        generate_square_subsequent_mask,
        padding_mask,
    )
    from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
    from transformer_suite.core.model.transformer import (
        MyTransformer,
        MyTransformerDecoder,
        MyTransformerDecoderLayer,
        MyTransformerEncoder,
        MyTransformerEncoderLayer,
    )
    from transformer_suite.core.training.schedule import CustomSchedule
    from transformer_suite.tasks.classification.model import ClassificationModel
    from transformer_suite.tasks.classification.predict import Classification, Classifier
    from transformer_suite.tasks.couplet.answer import Couplet
    from transformer_suite.tasks.couplet.model import CoupletModel
    from transformer_suite.tasks.couplet.predict import CoupletWriter
    from transformer_suite.tasks.seq2seq.attention_maps import Attention
    from transformer_suite.tasks.seq2seq.request import GenerationRequest
    from transformer_suite.tasks.seq2seq.scoring import PairScore
    from transformer_suite.tasks.translation.model import TranslationModel
    from transformer_suite.tasks.translation.predict import Translation, Translator

__version__ = "1.0.0"

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
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
