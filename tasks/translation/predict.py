"""Translating with a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from core.config import check
from core.decoding.config import GenerationConfig
from core.errors import ConfigError
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, load_model
from data.codec import TextCodec
from data.vocabulary import UNK_ID, Vocabulary
from tasks.familiarity import Familiarity, familiarity_record
from tasks.runs.checkpoint_folder import LANGUAGE_FILE, read_config
from tasks.seq2seq.generation import SearchResult
from tasks.seq2seq.n_best import Output, Ranked
from tasks.seq2seq.predictor import PairPredictor
from tasks.seq2seq.request import (
    DEFAULT_REQUEST,
    GenerationRequest,
    ignore_batch,
)
from tasks.texts import as_texts, check_unicode
from tasks.translation.codecs import load_codecs
from tasks.translation.confidence import Confidence
from tasks.translation.config import TranslationConfig
from tasks.translation.documents import Document, DocumentCodec, EncodedDocuments
from tasks.translation.language import LanguageDetector
from tasks.translation.model import TranslationModel

# The decimal places of the familiarity.
_DIGITS = 4


@dataclass(frozen=True)
class Translation(Ranked):
    """A translated text.

    ``score`` is the score of the search: the log-probability, in beam search divided by the length
    normalizer, summed over the ``segments``. That is the number of sentences, or parts of long
    sentences, that were translated one by one. ``others`` are the next best translations if more
    than one was asked for (``n_best``). A text without segments is empty, or its ``text`` is the
    source, which was in the target language already or has no letter that the model knows.

    ``confidence`` is the probability that the translation is good (:mod:`.confidence`),
    ``familiarity`` says how like the training data the source is, from 0 to 1
    (:mod:`tasks.familiarity`). They are None if there are no segments or the model is not
    calibrated; an ensemble has no confidence.
    """

    text: str
    score: float
    segments: int
    others: tuple[Translation, ...] = ()
    confidence: float | None = None
    familiarity: float | None = None

    def record(self) -> dict[str, Any]:
        """Returns the fields of the JSON output, where the segments are called ``pieces``."""
        record: dict[str, Any] = {"translation": self.text, "score": self.score}
        record |= {"pieces": self.segments, "confidence": self.confidence}
        return record | familiarity_record(self.familiarity)


class Translator(PairPredictor[Translation, EncodedDocuments]):
    """A trained translation model: ``Translator.load().translate("Ein Hund rennt.")``.

    A text is translated line by line and sentence by sentence. Its line breaks, indentation and the
    marks of lists, quotes and dialogue at the beginning of lines stay as they are. A sentence that
    is too long for the model is split (:mod:`tasks.translation.segments`). The alternatives to a
    text of several segments combine those to its segments (:mod:`tasks.seq2seq.n_best`).
    Lines that are in the target language already stay as they are, if the model can tell, and so
    do addresses, long numbers, emoji and words in letters that it does not know
    (:mod:`tasks.translation.placeholders`).

    Args:
        models: the model, or the models of an ensemble, in evaluation mode.

    Attributes:
        confidence, familiarity, language: what the model has learned in its calibration
            (:mod:`tasks.translation.calibration`); None for a model without it.
    """

    task = "translation"

    def __init__(
        self,
        models: Sequence[SequenceToSequence],
        source: TextCodec,
        target: TextCodec,
        config: TranslationConfig,
        device: torch.device,
    ) -> None:
        super().__init__(models, source, target, config.generation, device)
        self.config = config
        self._documents = DocumentCodec(source, target)
        self.confidence: Confidence | None = None
        self.familiarity: Familiarity | None = None
        self.language: LanguageDetector | None = None

    def check(self, request: GenerationRequest) -> GenerationConfig:
        config = super().check(request)
        if request.candidates is not None:
            raise ConfigError("is an option for couplets alone", option="candidates")
        if request.pass_through:
            if request.prefix is not None or request.constraint is not None:
                reason = "cannot stand beside a prefix or a constraint"
                raise ConfigError(reason, option="pass_through")
            if self.language is None:
                raise ConfigError(
                    "needs a model that can tell its languages apart: this one has no "
                    f"{LANGUAGE_FILE}; `models calibrate` makes it",
                    option="pass_through",
                )
        if request.prefix is not None:
            known_ids(request.prefix, self.target)
        return config

    def generate(
        self, texts: str | Iterable[str], request: GenerationRequest = DEFAULT_REQUEST
    ) -> list[Translation]:
        """Returns the translation of each text; arguments and errors as in :meth:`translate`.

        Where a model has not copied a placeholder, the text is translated again without them.
        """
        texts = as_texts(texts)
        found = self.search(texts, request)
        results = self._results(texts, found)
        rows = zip(found.texts.documents, found.outputs, strict=True)
        lost = [
            number
            for number, (document, outputs) in enumerate(rows)
            if not all(
                self._documents.are_copied(document, output.hypotheses) for output in outputs
            )
        ]
        if lost:
            numbers = request.numbers or range(len(texts))
            plain = replace(
                request,
                placeholders=False,
                numbers=[numbers[number] for number in lost],
                on_batch=ignore_batch,
            )
            again = super().generate([texts[number] for number in lost], plain)
            for number, result in zip(lost, again, strict=True):
                results[number] = result
        return results

    @overload
    def translate(self, texts: str, **options: Any) -> str: ...

    @overload
    def translate(self, texts: Iterable[str], **options: Any) -> list[str]: ...

    def translate(self, texts: str | Iterable[str], **options: Any) -> str | list[str]:
        """Returns the translation of each text, in order; an empty text stays empty.

        A single string is one text and gives one string. ``options`` are those of
        :class:`GenerationRequest`: ``beam_size=1`` for greedy search, ``n_best=5``,
        ``sample=True``, ``prefix="A dog"``...

        Raises:
            ConfigError: an unknown option, an option out of range, options that contradict each
                other, a prefix that the model cannot write.
            TypeError: anything but a string or an iterable of strings.
            TextError: a text that is not valid Unicode.
        """
        outputs = [translation.text for translation in self.predict(texts, **options)]
        return outputs[0] if isinstance(texts, str) else outputs

    @overload
    def translate_scored(self, texts: str, **options: Any) -> Translation: ...

    @overload
    def translate_scored(self, texts: Iterable[str], **options: Any) -> list[Translation]: ...

    def translate_scored(
        self, texts: str | Iterable[str], **options: Any
    ) -> Translation | list[Translation]:
        """Returns translations with their scores and, with ``n_best``, their alternatives.

        Arguments and errors are those of :meth:`translate`.
        """
        translations = self.predict(texts, **options)
        return translations[0] if isinstance(texts, str) else translations

    @property
    def max_source_tokens(self) -> int:
        """The most source tokens in one segment."""
        return min(self.config.data.max_tokens, self.max_len - 1)

    @property
    def width(self) -> int:
        """D, the width of the first model."""
        return self.models[0].config.d_model

    @classmethod
    def _load_one(cls, path: Path, device: torch.device) -> Translator:
        config = read_config(path, cls.task, TranslationConfig)
        source, target = load_codecs(path, config.data)
        model = load_model(
            path / WEIGHTS_FILE,
            lambda: TranslationModel(
                len(source.vocabulary),
                len(target.vocabulary),
                config.model,
                share_embeddings=config.data.share_vocabulary,
            ),
        )
        model = model.to(device).eval().requires_grad_(False)
        translator = cls([model], source, target, config, device)
        translator.load_calibration(path)
        return translator

    def properties(self) -> dict[str, Any]:
        data = self.config.data
        return super().properties() | {"source": data.src, "target": data.tgt}

    def load_calibration(self, folder: Path) -> None:
        """Takes what is calibrated from a checkpoint folder with the same weights.

        Raises:
            CheckpointError: a file is damaged, or of another model.
        """
        self.confidence = Confidence.load(folder)
        self.familiarity = Familiarity.load(folder, width=self.width)
        self.language = LanguageDetector.load(folder)

    @classmethod
    def _join(cls, members: Sequence[Translator]) -> Translator:
        first = members[0]
        max_tokens = min(member.config.data.max_tokens for member in members)
        config = replace(first.config, data=replace(first.config.data, max_tokens=max_tokens))
        models = [model for member in members for model in member.models]
        ensemble = cls(models, first.source, first.target, config, first.device)
        # These depend on the first encoder and on the texts. Confidence depends on all models.
        ensemble.familiarity, ensemble.language = first.familiarity, first.language
        return ensemble

    def _compatibility(self) -> Mapping[str, str | Vocabulary]:
        return {
            "source language": self.config.data.src,
            "target language": self.config.data.tgt,
            "tokenizer": self.config.data.tokenizer,
            "source vocabulary": self.source.vocabulary,
            "target vocabulary": self.target.vocabulary,
        }

    def _encode(self, texts: Sequence[str], request: GenerationRequest) -> EncodedDocuments:
        is_kept = self._is_kept(request)
        is_free = request.prefix is None and request.constraint is None
        documents = [
            self._documents.encode(
                text,
                size=self.max_source_tokens,
                is_kept=is_kept,
                with_literals=is_free and request.placeholders is not False,
            )
            for text in texts
        ]
        return EncodedDocuments(
            segments=[[segment.ids for segment in document.segments] for document in documents],
            prefix=() if request.prefix is None else known_ids(request.prefix, self.target),
            has_memory_means=self.familiarity is not None,
            documents=documents,
        )

    def _is_kept(self, request: GenerationRequest) -> Callable[[str], bool]:
        """Returns the function that tells which lines stay as they are."""
        is_free = request.prefix is None and request.constraint is None
        if request.pass_through is False or not is_free or self.language is None:
            return lambda line: False
        return self.language.is_target

    def _results(
        self, texts: Sequence[str], found: SearchResult[EncodedDocuments]
    ) -> list[Translation]:
        familiarities = self._familiarities(found)
        rows = zip(found.texts.documents, found.outputs, familiarities, strict=True)
        return [self._result(*row) for row in rows]

    def _result(
        self, document: Document, outputs: Sequence[Output], familiarity: float | None
    ) -> Translation:
        segments = [segment.ids for segment in document.segments]
        best, *others = (
            Translation(
                self._documents.decode(document, output.hypotheses),
                output.score,
                len(segments),
                confidence=self._confidence(segments, output),
                familiarity=familiarity,
            )
            for output in outputs
        )
        return replace(best, others=tuple(others))

    def _confidence(self, segments: Sequence[Sequence[int]], output: Output) -> float | None:
        if self.confidence is None or not segments:
            return None
        return self.confidence.of(segments, output.hypotheses)

    def _familiarities(self, found: SearchResult[EncodedDocuments]) -> list[float | None]:
        """Returns the familiarity of each text: the mean of its segments, weighted by tokens."""
        texts = found.texts.segments
        if self.familiarity is None or found.memory_means is None:
            return [None] * len(texts)
        lengths = torch.tensor([len(ids) + 1.0 for text in texts for ids in text])
        weighted = iter((self.familiarity.of(found.memory_means, lengths) * lengths).tolist())
        return [
            round(sum(islice(weighted, len(text))) / sum(len(ids) + 1 for ids in text), _DIGITS)
            if text
            else None
            for text in texts
        ]


def known_ids(prefix: str, codec: TextCodec) -> list[int]:
    """Returns the ids of the text that a translation begins with.

    Raises:
        ConfigError: it has no word, or a word that is not in the vocabulary.
        TextError: it is not valid Unicode.
    """
    check_unicode(prefix, "the prefix")
    words = codec.tokenizer.tokenize(prefix)
    check(bool(words), "prefix", prefix, "a text of at least one word")
    ids = codec.vocabulary.encode(words)
    for word, index in zip(words, ids, strict=True):
        if index == UNK_ID:
            unknown = codec.tokenizer.detokenize([word])
            reason = f"{prefix!r}: the model does not know {unknown!r}"
            raise ConfigError(reason, option="prefix")
    return ids
