"""The public Python API: ``from transformer_suite import Translator, Classifier, CoupletWriter``.

Names are imported when they are first used, so that ``import transformer_suite`` needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from core import __name__ as _core

if TYPE_CHECKING:
    from core.decoding.config import GenerationConfig as GenerationConfig
    from core.errors import CheckpointError as CheckpointError
    from core.errors import ConfigError as ConfigError
    from core.errors import CorpusError as CorpusError
    from core.errors import TextError as TextError
    from core.errors import UserError as UserError
    from core.inference.ensemble import Ensemble as Ensemble
    from core.inference.incremental_model import IncrementalModel as IncrementalModel
    from core.inference.incremental_model import greedy_decode as greedy_decode
    from core.model.attention import MyMultiheadAttention as MyMultiheadAttention
    from core.model.config import TransformerConfig as TransformerConfig
    from core.model.embedding import PositionalEncoding as PositionalEncoding
    from core.model.embedding import TokenEmbedding as TokenEmbedding
    from core.model.masks import create_mask as create_mask
    from core.model.masks import generate_square_subsequent_mask as generate_square_subsequent_mask
    from core.model.masks import padding_mask as padding_mask
    from core.model.sequence_to_sequence import SequenceToSequence as SequenceToSequence
    from core.model.transformer import MyTransformer as MyTransformer
    from core.model.transformer import MyTransformerDecoder as MyTransformerDecoder
    from core.model.transformer import MyTransformerDecoderLayer as MyTransformerDecoderLayer
    from core.model.transformer import MyTransformerEncoder as MyTransformerEncoder
    from core.model.transformer import MyTransformerEncoderLayer as MyTransformerEncoderLayer
    from core.training.schedule import CustomSchedule as CustomSchedule
    from tasks.classification.model import ClassificationModel as ClassificationModel
    from tasks.classification.predict import Classification as Classification
    from tasks.classification.predict import Classifier as Classifier
    from tasks.couplet.answer import Couplet as Couplet
    from tasks.couplet.model import CoupletModel as CoupletModel
    from tasks.couplet.predict import CoupletWriter as CoupletWriter
    from tasks.inside import Trace as Trace
    from tasks.seq2seq.labeled_attention import Attention as Attention
    from tasks.seq2seq.pair_scores import PairScore as PairScore
    from tasks.seq2seq.request import GenerationRequest as GenerationRequest
    from tasks.translation.model import TranslationModel as TranslationModel
    from tasks.translation.predict import Translation as Translation
    from tasks.translation.predict import Translator as Translator

__version__ = "1.0.0"

# "" in the repository; "transformer_suite." in an installation, where core is inside this package.
_PREFIX = _core.removesuffix("core")

_MODULES = {
    name: module
    for module, names in {
        "core.decoding.config": "GenerationConfig",
        "core.errors": "CheckpointError ConfigError CorpusError TextError UserError",
        "core.inference.ensemble": "Ensemble",
        "core.inference.incremental_model": "IncrementalModel greedy_decode",
        "core.model.attention": "MyMultiheadAttention",
        "core.model.config": "TransformerConfig",
        "core.model.embedding": "PositionalEncoding TokenEmbedding",
        "core.model.masks": "create_mask generate_square_subsequent_mask padding_mask",
        "core.model.sequence_to_sequence": "SequenceToSequence",
        "core.model.transformer": "MyTransformer MyTransformerDecoder MyTransformerDecoderLayer"
        " MyTransformerEncoder MyTransformerEncoderLayer",
        "core.training.schedule": "CustomSchedule",
        "tasks.classification.model": "ClassificationModel",
        "tasks.classification.predict": "Classification Classifier",
        "tasks.couplet.answer": "Couplet",
        "tasks.couplet.model": "CoupletModel",
        "tasks.couplet.predict": "CoupletWriter",
        "tasks.inside": "Trace",
        "tasks.seq2seq.labeled_attention": "Attention",
        "tasks.seq2seq.request": "GenerationRequest",
        "tasks.seq2seq.pair_scores": "PairScore",
        "tasks.translation.model": "TranslationModel",
        "tasks.translation.predict": "Translation Translator",
    }.items()
    for name in names.split()
}
"""Where each public name is defined."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PREFIX + _MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
