"""Searches for many source sequences at a time, as tests call them."""

from collections.abc import Sequence
from typing import Any

from core.decoding.config import GenerationConfig
from core.decoding.search import Hypothesis
from core.inference.ensemble import Ensemble, StepModel
from core.inference.incremental_model import IncrementalModel
from core.model.sequence_to_sequence import SequenceToSequence
from tasks.seq2seq.generation import EncodedTexts, SearchResult, search_segments
from tasks.seq2seq.n_best import Output
from tasks.seq2seq.request import GenerationRequest
from tests.tasks.tiny_models import CPU


def step_model(*models: SequenceToSequence) -> StepModel:
    """Returns a snapshot of one model, or of an ensemble."""
    packed = [IncrementalModel(model) for model in models]
    return packed[0] if len(packed) == 1 else Ensemble(packed)


def search_texts(
    model: SequenceToSequence | StepModel,
    texts: Sequence[Sequence[Sequence[int]]],
    config: GenerationConfig,
    *,
    prefix: Sequence[int] = (),
    max_lengths: Sequence[int] | None = None,
    form: Any = None,
    **options: Any,
) -> list[list[Output]]:
    """Returns the outputs of texts, each a list of segments; ``options`` make the request."""
    model = step_model(model) if isinstance(model, SequenceToSequence) else model
    request = GenerationRequest.of(**options)
    encoded = EncodedTexts(segments=texts, prefix=prefix, max_lengths=max_lengths, form=form)
    resolved = request.resolve(config)
    found = search_segments(model, encoded, resolved, request, CPU)
    return SearchResult.of(encoded, found, resolved).outputs


def search(
    model: SequenceToSequence | StepModel,
    sources: Sequence[Sequence[int]],
    config: GenerationConfig,
    **options: Any,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each source; ``options`` are those of :func:`search_texts`."""
    texts = [[source] for source in sources]
    return [
        [output.hypotheses[0] for output in outputs]
        for outputs in search_texts(model, texts, config, **options)
    ]
