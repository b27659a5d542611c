"""CTranslate2 as the engine of a translator: its search, inside of everything else that is ours.

The model is exported once (:mod:`.export`), into the data folder; its digest names the export.
"""

import hashlib
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from core.decoding.beam_search import length_normalizer
from core.decoding.config import GenerationConfig
from core.decoding.search import Hypothesis, check_log_probs
from core.errors import ConfigError, UserError
from core.storage.checkpoint import WEIGHTS_FILE
from core.storage.files import exists
from data.batching import bucket_by_length
from data.corpora import data_folder
from data.vocabulary import BOS, PAD
from tasks.seq2seq.generation import EncodedTexts, SegmentResult, SourceSegment, source_segments
from tasks.seq2seq.request import GenerationRequest, batch_tokens_on
from tasks.translation.export import import_ctranslate2, to_ctranslate2

if TYPE_CHECKING:
    from tasks.translation.predict import Translator

# What is begun cannot be stopped, and a turn in the service lasts a second: then, a call begins no
# more than this many tokens for each worker, those of a source once for each row of the beam.
_TURN_TOKENS = 1500


class CTranslate2Engine:
    """CTranslate2's greedy and beam search with the model of ``translator``.

    Args:
        folder: the checkpoint folder of the model.
        int8: compute with 8-bit integers: faster, less exact, and outputs may depend on batches.

    Raises:
        ConfigError: the translator is an ensemble.
        UserError: the package ctranslate2 is not installed, the model cannot be exported
            (:func:`.to_ctranslate2`), or the export belongs to another user.
    """

    def __init__(self, translator: "Translator", folder: Path, *, int8: bool) -> None:
        if len(translator.models) > 1:
            raise ConfigError("cannot be ctranslate2 for an ensemble", option="engine")
        ctranslate2 = import_ctranslate2()
        self._source_words = translator.source.vocabulary.itos
        self._target_words = translator.target.vocabulary.itos
        self._ids = {word: number for number, word in enumerate(self._target_words)}
        self._max_len = translator.max_len
        self.name = "ctranslate2 int8" if int8 else "ctranslate2"
        self._device = device = translator.device
        threads = torch.get_num_threads()
        self._workers = threads if device.type == "cpu" else 1
        self._engine: Any = ctranslate2.Translator(
            str(cached_export(translator, folder)),
            device=device.type,
            device_index=device.index or 0,
            compute_type="int8" if int8 else "float32",
            # A thread of its own for each batch is faster than several for each operation.
            inter_threads=self._workers,
            intra_threads=1,
        )
        torch.set_num_threads(threads)  # the two share OpenMP, and CTranslate2 has set it to one

    def check(self, config: GenerationConfig, request: GenerationRequest) -> None:
        """Raises a ConfigError for what CTranslate2 cannot do."""
        for name, is_asked_for in (
            ("constraint", request.constraint is not None),
            ("record", request.record is not None),
            ("diversity", config.diversity > 0),
            ("sample", config.sample),
            ("min_length_ratio", config.min_length_ratio > 0),
        ):
            if is_asked_for:
                raise ConfigError("is not for the engine ctranslate2", option=name)

    def search(
        self, texts: EncodedTexts, config: GenerationConfig, request: GenerationRequest
    ) -> list[SegmentResult]:
        """As :func:`tasks.seq2seq.generation.search_segments`."""
        segments = source_segments(texts, config, request, self._max_len)
        longest = max((segment.max_length for segment in segments), default=0)
        found = [list[Hypothesis]()] * len(segments)
        lengths = [(len(each.ids),) for each in segments]
        begun = max(1, _TURN_TOKENS * self._workers // config.beam_size)
        most = sys.maxsize if request.on_step is None else begun
        for part in bucket_by_length(lengths, batch_tokens=most, seed=None):
            results = self._search([segments[i] for i in part], longest, config, request)
            for i, hypotheses in zip(part, results, strict=True):
                found[i] = hypotheses
        for i, segment in enumerate(segments):  # CTranslate2 has one limit for all of a call
            if any(len(each.tokens) > segment.max_length for each in found[i]):
                (found[i],) = self._search([segment], segment.max_length, config, request)
        return list(map(SegmentResult, found))

    def _search(
        self,
        segments: Sequence[SourceSegment],
        max_length: int,
        config: GenerationConfig,
        request: GenerationRequest,
    ) -> list[list[Hypothesis]]:
        sources = [[self._source_words[i] for i in segment.ids] for segment in segments]
        prefixes = [[self._target_words[i] for i in segment.prefix] for segment in segments]
        share = sum(len(source) + 1 for source in sources) // self._workers
        size = batch_tokens_on(self._device, request.batch_tokens, self.name)
        penalty = config.length_penalty if config.beam_size > 1 else 0.0
        futures = self._engine.translate_batch(
            sources,
            target_prefix=prefixes if any(prefixes) else None,
            max_batch_size=max(1, min(size // config.beam_size, share)),  # of rows of the beam
            batch_type="tokens",
            asynchronous=True,
            beam_size=config.beam_size,
            num_hypotheses=config.n_best,
            length_penalty=penalty,
            no_repeat_ngram_size=config.no_repeat_ngram,
            max_input_length=0,
            max_decoding_length=max_length,
            min_decoding_length=0,
            disable_unk=True,
            suppress_sequences=[[PAD], [BOS]],
            return_scores=request.is_scored or config.beam_size > 1,
        )
        found = []
        for future in futures:
            if request.on_step is not None:
                request.on_step()
            result = future.result()
            check_log_probs(result.scores)
            scores = result.scores or [math.nan]
            pairs = zip(result.hypotheses, scores, strict=True)
            found.append([self._hypothesis(*pair, max_length, penalty) for pair in pairs])
            request.on_batch(1)
        return found

    def _hypothesis(
        self, words: Sequence[str], score: float, max_length: int, penalty: float
    ) -> Hypothesis:
        """Returns an output with its score as our beam search computes it.

        CTranslate2 divides by length^alpha, where the length includes ``<eos>`` if there is one.
        """
        length = len(words) + (len(words) < max_length)
        log_prob = score * length**penalty
        tokens = [self._ids[word] for word in words]
        return Hypothesis(tokens, log_prob, log_prob / length_normalizer(length, penalty))


def cached_export(translator: "Translator", folder: Path) -> Path:
    """Returns the folder with the export of the model in ``folder``, which is made if it is new."""
    digest = hashlib.sha256((folder / WEIGHTS_FILE).read_bytes())
    digest.update(repr(translator.config.model).encode())
    export = data_folder() / "ctranslate2" / digest.hexdigest()
    if not exists(export):
        try:
            to_ctranslate2(translator, folder, export)
        except UserError:
            if not exists(export):  # else another process has made it in the meantime
                raise
    if export.stat().st_uid not in (0, os.getuid()):
        raise UserError(f"{export}: belongs to another user; remove it")
    return export
