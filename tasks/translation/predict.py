"""Translating with a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import torch
from torch import Tensor

from core.config import check, check_choice
from core.decoding.config import GenerationConfig
from core.errors import ConfigError
from core.model.sequence_to_sequence import SequenceToSequence
from core.parallel import map_on_cores
from core.storage.checkpoint import WEIGHTS_FILE, load_model
from data.batching import bucket_by_length
from data.codec import TextCodec
from data.vocabulary import UNK_ID, Vocabulary
from tasks.familiarity import Familiarity, familiarity_record
from tasks.runs.checkpoint_folder import LANGUAGE_FILE, Folders, model_folders, read_config
from tasks.seq2seq.batches import source_tensor
from tasks.seq2seq.generation import EncodedTexts, SearchResult, SegmentResult, search_segments
from tasks.seq2seq.n_best import Ranked, joined
from tasks.seq2seq.predictor import PairPredictor
from tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest, batch_tokens_on, ignore_batch
from tasks.texts import as_texts, check_unicode, keeps_index
from tasks.translation.confidence import DOUBTFUL, Confidence, capped
from tasks.translation.config import TranslationConfig
from tasks.translation.documents import DocumentCodec, EncodedDocuments, Segment
from tasks.translation.language import LanguageDetector
from tasks.translation.model import load_codecs, model_for
from tasks.translation.placeholders import Glossary

if TYPE_CHECKING:
    from tasks.translation.engine import CTranslate2Engine

Engine = Literal["torch", "ctranslate2"]
"""What searches: this program, or CTranslate2."""

# The mean number of characters in a part of the texts; see `Translator.generate`.
_PART = 20_000
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
    (:mod:`tasks.familiarity`). They are None if there are no segments, the model is not calibrated
    or they are not asked for; an ensemble has no confidence.
    """

    text: str
    score: float
    segments: int
    others: tuple[Translation, ...] = ()
    confidence: float | None = None
    familiarity: float | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether it is probably wrong."""
        return self.confidence is not None and self.confidence < DOUBTFUL

    def record(self) -> dict[str, Any]:
        """Returns the fields of the JSON output."""
        record: dict[str, Any] = {"translation": self.text, "score": self.score}
        record |= {"segments": self.segments, "confidence": self.confidence}
        if self.confidence is not None:
            record["doubtful"] = self.is_doubtful
        return record | familiarity_record(self.familiarity)


SearchSegments = Callable[[EncodedTexts, GenerationConfig, GenerationRequest], list[SegmentResult]]


class Translator(PairPredictor[Translation, EncodedDocuments]):
    """A trained translation model: ``Translator.load().translate("Ein Hund rennt.")``.

    A text is translated line by line and sentence by sentence (:mod:`.segments`). Line breaks,
    indentation, the marks of lists and lines that are in the target language already stay as they
    are, and so do addresses, long numbers, emoji and words in letters that the model does not know
    (:mod:`.placeholders`).

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
        self._documents = DocumentCodec(source, target, self.max_source_tokens)
        self.confidence: Confidence | None = None
        self.familiarity: Familiarity | None = None
        self.language: LanguageDetector | None = None
        self._engine: CTranslate2Engine | None = None

    @classmethod
    def load(
        cls,
        folder: Folders = None,
        *,
        device: str = "auto",
        engine: Engine | None = None,
        int8: bool = False,
    ) -> Translator:
        """Loads the model in ``folder``, the shipped one by default, or several as an ensemble.

        Args:
            engine: "torch", the default, is this program's own search; "ctranslate2" is faster, but
                can do less (:mod:`.engine`).
            int8: compute with 8-bit integers, which CTranslate2 alone can, and is used for.

        Raises:
            CheckpointError, ConfigError, UserError: as for other predictors, or as
                :class:`.CTranslate2Engine`.
        """
        engine = engine or ("ctranslate2" if int8 else "torch")
        check_choice("engine", engine, get_args(Engine))
        if int8 and engine == "torch":
            raise ConfigError("is for the engine ctranslate2", option="int8")
        translator = super().load(folder, device=device)
        if engine == "ctranslate2":
            from tasks.translation.engine import CTranslate2Engine

            (path, *_) = model_folders(cls.task, folder)
            translator._engine = CTranslate2Engine(translator, path, int8=int8)
            translator.try_out()  # later it may compute without scores, which would tell of NaN
        return translator

    def check(self, request: GenerationRequest) -> GenerationConfig:
        config = super().check(request)
        if request.candidates is not None:
            raise ConfigError("is an option for couplets alone", option="candidates")
        is_free = request.prefix is None and request.constraint is None
        for name in ("pass_through", "glossary"):
            if getattr(request, name) and not is_free:
                raise ConfigError("cannot stand beside a prefix or a constraint", option=name)
        if request.glossary is not None:
            Glossary(request.glossary)
            if request.placeholders is False or self._documents.letters is None:
                raise ConfigError("needs placeholders, and a model of subwords", option="glossary")
        if request.pass_through and self.language is None:
            raise ConfigError(
                "needs a model that can tell its languages apart: this one has no "
                f"{LANGUAGE_FILE}; `models calibrate` makes it",
                option="pass_through",
            )
        if request.prefix is not None:
            known_ids(request.prefix, self.target)
        if self._engine is not None:
            self._engine.check(config, request)
        return config

    @overload
    def translate(self, texts: str, *, n_best: None = None, **options: Any) -> str: ...

    @overload
    def translate(
        self, texts: Iterable[str], *, n_best: int | None = None, **options: Any
    ) -> list[Any]: ...

    @keeps_index
    def translate(
        self, texts: str | Iterable[str], *, n_best: int | None = None, **options: Any
    ) -> str | list[Any]:
        """Returns the translation of each text, in order; an empty text stays empty.

        A single string is one text and gives one string. With ``n_best`` there is a list of
        strings, the best first, in the place of each string. ``options`` are those of
        :class:`GenerationRequest`: ``beam_size=1`` for greedy search, ``sample=True``,
        ``prefix="A dog"``...

        Raises:
            ConfigError: an unknown option, an option out of range, options that contradict each
                other, a prefix that the model cannot write.
            TypeError: anything but a string or an iterable of strings.
            TextError: a text that is not valid Unicode.
        """
        found = self.predict(texts, n_best=n_best, is_scored=False, **options)
        outputs: list[Any] = [translation.text for translation in found]
        if n_best is not None:
            outputs = [[each.text for each in translation.hypotheses] for translation in found]
        return outputs[0] if isinstance(texts, str) else outputs

    translate_scored = PairPredictor[Translation, EncodedDocuments].scored
    """As :meth:`translate`, with scores and, with ``n_best``, alternatives."""

    def kind(self) -> str:
        return f"{self.config.data.src} -> {self.config.data.tgt}"

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
        model = load_model(path / WEIGHTS_FILE, lambda: model_for(source, target, config))
        model = model.to(device).eval().requires_grad_(False)
        translator = cls([model], source, target, config, device)
        translator.load_calibration(path)
        return translator

    @property
    def engine(self) -> str:
        """What searches, as :meth:`load` calls it, and "int8" after that."""
        return "torch" if self._engine is None else self._engine.name

    def properties(self) -> dict[str, Any]:
        languages = {"source": self.config.data.src, "target": self.config.data.tgt}
        return super().properties() | languages | {"engine": self.engine}

    def load_calibration(self, folder: Path) -> None:
        """Loads what was calibrated for the weights in ``folder``, or raises a CheckpointError."""
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
        is_free = request.prefix is None and request.constraint is None
        keeps_lines = is_free and request.pass_through is not False
        detector = self.language if keeps_lines else None
        glossary = None if request.glossary is None else Glossary(request.glossary)
        documents = [
            self._documents.encode(
                text,
                is_kept=(lambda line: False) if detector is None else detector.is_target,
                with_literals=is_free and request.placeholders is not False,
                glossary=glossary,
            )
            for text in texts
        ]
        is_judged = self._engine is None if request.confidence is None else request.confidence
        return EncodedDocuments(
            segments=[[segment.ids for segment in document.segments] for document in documents],
            prefix=() if request.prefix is None else known_ids(request.prefix, self.target),
            documents=documents,
            is_judged=is_judged,
        )

    def search(
        self, texts: Sequence[str], request: GenerationRequest
    ) -> SearchResult[EncodedDocuments]:
        """Returns what is found for ``texts``, with all of their placeholders.

        Where the best hypothesis has lost one, the segment is searched for again without that one.
        Others that have lost one are left out.
        """
        config = self.check(request)
        encoded = self._encode(texts, request)
        search: SearchSegments
        if self._engine is None:
            search = partial(search_segments, self.step_model(), device=self.device)
        else:
            search = self._engine.search
        found = search(encoded, config, request)
        counts = [len(text) for text in encoded.segments]
        numbers = range(len(counts)) if request.numbers is None else request.numbers
        texts_of = zip(numbers, counts, strict=True)
        number_of = [number for number, count in texts_of for _ in range(count)]
        segments = [segment for document in encoded.documents for segment in document.segments]
        pending = {index: s for index, s in enumerate(segments) if s.literals}
        while pending:
            again: dict[int, Segment] = {}
            for index, segment in pending.items():
                best, *others = found[index].hypotheses
                if lost := self._documents.lost(segment, best):
                    again[index] = self._documents.without(segment, lost)
                else:
                    kept = [each for each in others if not self._documents.lost(segment, each)]
                    found[index] = found[index]._replace(hypotheses=[best, *kept])
            numbers = [number_of[index] for index in again]
            own = request.replaced(numbers=numbers, on_batch=ignore_batch)
            # A sentence with its literals can be too long for a single segment.
            whole = EncodedTexts(
                segments=[self._documents.segments_of(each.text) for each in again.values()]
            )
            outputs = SearchResult.of(whole, search(whole, config, own), config).outputs
            for (index, segment), combined in zip(again.items(), outputs, strict=True):
                segments[index] = segment
                found[index] = found[index]._replace(hypotheses=[each.joined for each in combined])
            pending = again
        rest = iter(segments)
        documents = [document.replaced(rest) for document in encoded.documents]
        return SearchResult.of(replace(encoded, documents=documents), found, config)

    def generate(
        self, texts: str | Iterable[str], request: GenerationRequest = DEFAULT_REQUEST
    ) -> list[Translation]:
        texts = as_texts(texts)
        parts = sum(map(len, texts)) // _PART
        if self._engine is None or self.device.type != "cpu" or parts < 2:
            return self._results(texts, self.search(texts, request))
        # While CTranslate2 searches for some texts, others are encoded and decoded.
        size = -(-len(texts) // parts)
        cut = [texts[start : start + size] for start in range(0, len(texts), size)]
        # The numbers are for sampling and constraints, which this engine does not have.
        own = request.replaced(on_batch=ignore_batch, numbers=None)
        found = map_on_cores(lambda p: self._results(p, self.search(p, own)), cut, workers=2)
        results: list[Translation] = []
        for part, translations in zip(cut, found, strict=True):
            results += translations
            request.on_batch(len(part))
        return results

    def memory_means(self, segments: Sequence[Sequence[int]]) -> Tensor:
        """Returns the mean ``[N, D]`` of the encoder's output over the tokens of each segment."""
        model = self.step_model()
        means = torch.zeros(len(segments), self.width)
        lengths = [(len(ids) + 1,) for ids in segments]
        size = batch_tokens_on(self.device)
        for batch in bucket_by_length(lengths, batch_tokens=size, seed=None):
            src = source_tensor([segments[i] for i in batch]).to(self.device)
            means[batch] = model.start(src).memory_mean.float().cpu()
        return means

    def _results(
        self, texts: Sequence[str], found: SearchResult[EncodedDocuments]
    ) -> list[Translation]:
        judge, results = self.confidence if found.texts.is_judged else None, []
        rows = zip(texts, found.texts.documents, self._familiarities(found), strict=True)
        for (text, document, familiarity), outputs in zip(rows, found.outputs, strict=True):
            segments = [segment.ids for segment in document.segments]
            about: dict[str, Any] = {"segments": len(segments), "familiarity": familiarity}
            translations = []
            for output in outputs:
                translated = self._documents.decode(document, output.hypotheses)
                if judge is not None and segments:
                    confidence = judge.of(segments, output.hypotheses)
                    about["confidence"] = capped(confidence, text, translated, familiarity)
                translations.append(Translation(translated, output.score, **about))
            results.append(joined(translations))
        return results

    def _familiarities(self, found: SearchResult[EncodedDocuments]) -> list[float | None]:
        """Returns the familiarity of each text: the mean of its segments, weighted by tokens."""
        texts = [document.segments for document in found.texts.documents]
        if self.familiarity is None or not found.texts.is_judged:
            return [None] * len(texts)
        segments = [segment for text in texts for segment in text]
        around = [self._documents.around_literals(segment) for segment in segments]
        lengths = torch.tensor([len(ids) + 1.0 for ids in around])
        if (means := found.memory_means) is None:  # of an engine that does not return them
            means = self.memory_means(around)
        elif changed := [i for i, segment in enumerate(segments) if segment.literals]:
            own = self.memory_means([around[i] for i in changed])
            means = means.index_copy(0, torch.tensor(changed), own)
        weighted = iter((self.familiarity.of(means, lengths) * lengths).tolist())
        counts = iter(lengths.tolist())
        sums = [(sum(islice(weighted, len(t))), sum(islice(counts, len(t)))) for t in texts]
        return [round(total / count, _DIGITS) if count else None for total, count in sums]


def known_ids(prefix: str, codec: TextCodec) -> list[int]:
    """Returns the ids of a beginning of translations. Raises a ConfigError for unknown words."""
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
