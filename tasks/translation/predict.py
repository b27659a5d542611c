"""Translating with a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from core.config import check
from core.decoding.search import Hypothesis
from core.errors import ConfigError
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, load_model
from data.codec import TextCodec
from data.vocabulary import UNK_ID, Vocabulary
from tasks.familiarity import Familiarity, familiarity_record
from tasks.runs.checkpoint_folder import LANGUAGE_FILE, read_config
from tasks.seq2seq.generation import EncodedTexts, SearchResult, generate_texts
from tasks.seq2seq.n_best import Output, Ranked
from tasks.seq2seq.predictor import Predictor
from tasks.seq2seq.request import (
    DEFAULT_REQUEST,
    GenerationRequest,
    ignore_batch,
)
from tasks.texts import as_texts, check_unicode
from tasks.translation.capitals import usual_case
from tasks.translation.confidence import Confidence
from tasks.translation.config import TranslationConfig
from tasks.translation.dataset import load_codecs
from tasks.translation.language import LanguageDetector
from tasks.translation.model import TranslationModel
from tasks.translation.placeholders import (
    has_placeholders,
    known_letters,
    parts,
    restored,
    with_placeholders,
)
from tasks.translation.segments import line_segments, lines, segments_of
from tasks.translation.typography import readable

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


@dataclass(frozen=True, kw_only=True)
class EncodedDocuments(EncodedTexts):
    """Texts as ids, and how the translations of their segments become a text again.

    * ``parts``: for each text what is kept, and the number of segments between it and the next
      kept part.
    * ``literals``: for each segment of a text what its placeholders stand for.
    """

    parts: Sequence[Sequence[tuple[str, int]]]
    literals: Sequence[Sequence[tuple[str, ...]]]


class Translator(Predictor[Translation]):
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
        letters: the characters that the model reads; None: all.
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
        self.letters = known_letters(source)
        self.confidence: Confidence | None = None
        self.familiarity: Familiarity | None = None
        self.language: LanguageDetector | None = None

    def generate(
        self, texts: str | Iterable[str], request: GenerationRequest = DEFAULT_REQUEST
    ) -> list[Translation]:
        """Returns the translation of each text; arguments and errors as in :meth:`translate`.

        Where a model has not copied a placeholder, the text is translated again without them.
        """
        texts = as_texts(texts)
        arguments = self._search_arguments(texts, request)
        encoded, found = arguments.texts, generate_texts(*arguments)
        assert isinstance(encoded, EncodedDocuments)
        results = self._results(texts, encoded, found)
        rows = zip(encoded.literals, found.outputs, strict=True)
        lost = [number for number, row in enumerate(rows) if not self._are_copied(*row)]
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
        translations = self.generate(texts, GenerationRequest.of(**options))
        outputs = [translation.text for translation in translations]
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
        translations = self.generate(texts, GenerationRequest.of(**options))
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

    def _encode(self, texts: Sequence[str], request: GenerationRequest) -> EncodedTexts:
        if request.candidates is not None:
            raise ConfigError("candidates is an option for couplets alone")
        is_kept = self._is_kept(request)
        documents = [[*self._encoded_parts(text, is_kept, request)] for text in texts]
        segments = [
            [ids for _, of_part in document for ids, _ in of_part] for document in documents
        ]
        literals = [
            [of_one for _, of_part in document for _, of_one in of_part] for document in documents
        ]
        return EncodedDocuments(
            segments=segments,
            prefix=() if request.prefix is None else known_ids(request.prefix, self.target),
            has_memory_means=self.familiarity is not None,
            parts=[[(kept, len(of_part)) for kept, of_part in one] for one in documents],
            literals=literals,
        )

    def _is_kept(self, request: GenerationRequest) -> Callable[[str], bool]:
        """Returns the function that tells which lines stay as they are."""
        is_asked = request.pass_through
        is_free = request.prefix is None and request.constraint is None
        if is_asked and not is_free:
            raise ConfigError("a text that stays as it is has no prefix and no constraint")
        if is_asked and self.language is None:
            raise ConfigError(
                f"the model cannot tell its languages apart: it has no {LANGUAGE_FILE}; "
                "`models calibrate` makes it"
            )
        if is_asked is False or not is_free or self.language is None:
            return lambda line: False
        return self.language.is_target

    def _encoded_parts(
        self, text: str, is_kept: Callable[[str], bool], request: GenerationRequest
    ) -> Iterator[tuple[str, list[tuple[list[int], tuple[str, ...]]]]]:
        """Yields what is kept of ``text``, each with the segments after it and their literals."""
        is_free = request.prefix is None and request.constraint is None
        has_placeholders = is_free and request.placeholders is not False
        for start, line in lines(text):
            if is_kept(line):
                yield start + line, []
                continue
            read = usual_case(readable(line, self.letters), self.source)
            if not has_placeholders:
                ids_of_line = line_segments(read, self.source.encode, self.max_source_tokens)
                yield start, [(ids, ()) for ids in ids_of_line]
                continue
            for kept, of_part in parts(read, self.letters):
                yield start + kept, [pair for one in of_part for pair in self._encoded(one)]
                start = ""

    def _encoded(self, sentence: str) -> list[tuple[list[int], tuple[str, ...]]]:
        """Returns the ids and literals of each segment; a split sentence has no placeholders."""
        encode, size = self.source.encode, self.max_source_tokens
        text, literals = with_placeholders(sentence, self.letters)
        if literals and len(ids := encode(text)) <= size:
            return [(ids, literals)]
        return [(ids, ()) for ids in segments_of(sentence, encode, size)]

    def _are_copied(self, literals: Sequence[tuple[str, ...]], outputs: Sequence[Output]) -> bool:
        """Returns whether every output of a text has the placeholders of all segments."""
        return all(
            has_placeholders(self.target.decode(hypothesis.tokens), len(of_one))
            for output in outputs
            for of_one, hypothesis in zip(literals, output.hypotheses, strict=True)
            if of_one
        )

    def _results(
        self, texts: Sequence[str], encoded: EncodedTexts, found: SearchResult
    ) -> list[Translation]:
        assert isinstance(encoded, EncodedDocuments)
        familiarities = self._familiarities(encoded, found.memory_means)
        results = []
        pairs = zip(encoded.segments, found.outputs, strict=True)
        for number, (segments, of_text) in enumerate(pairs):
            text_of = partial(self._text_of, encoded.parts[number], encoded.literals[number])
            results.append(self._result(segments, text_of, of_text, familiarities[number]))
        return results

    def _result(
        self,
        segments: Sequence[Sequence[int]],
        text_of: Callable[[Sequence[Sequence[int]], Output], str],
        outputs: Sequence[Output],
        familiarity: float | None,
    ) -> Translation:
        best, *others = (
            Translation(
                text_of(segments, output),
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

    def _familiarities(self, encoded: EncodedTexts, means: Tensor | None) -> list[float | None]:
        """Returns the familiarity of each text: the mean of its segments, weighted by tokens."""
        if self.familiarity is None or means is None:
            return [None] * len(encoded.segments)
        lengths = torch.tensor([len(ids) + 1.0 for text in encoded.segments for ids in text])
        weighted = iter((self.familiarity.of(means, lengths) * lengths).tolist())
        return [
            round(sum(islice(weighted, len(text))) / sum(len(ids) + 1 for ids in text), _DIGITS)
            if text
            else None
            for text in encoded.segments
        ]

    def _text_of(
        self,
        parts: Sequence[tuple[str, int]],
        literals: Sequence[tuple[str, ...]],
        segments: Sequence[Sequence[int]],
        output: Output,
    ) -> str:
        """Returns one text, with what is kept of the source."""
        translated = zip(segments, literals, output.hypotheses, strict=True)
        return "".join(kept + self._part_of(islice(translated, count)) for kept, count in parts)

    def _part_of(
        self, translated: Iterable[tuple[Sequence[int], tuple[str, ...], Hypothesis]]
    ) -> str:
        """Returns some segments. No separator comes where a long word of the source was cut."""
        text = ""
        for ids, literals, hypothesis in translated:
            segment = restored(self.target.decode(hypothesis.tokens), literals)
            if text and segment and not self.source.is_inside_word(ids):
                text += self.target.tokenizer.separator
            text += segment
        return text


def known_ids(prefix: str, codec: TextCodec) -> list[int]:
    """Returns the ids of the text that a translation begins with.

    Raises:
        ConfigError: it has no word, or a word that is not in the vocabulary.
        TextError: it is not valid Unicode.
    """
    check_unicode(prefix, "the prefix")
    words = codec.tokenizer.tokenize(prefix)
    check(bool(words), "the prefix", prefix, "a text of at least one word")
    ids = codec.vocabulary.encode(words)
    for word, index in zip(words, ids, strict=True):
        if index == UNK_ID:
            unknown = codec.tokenizer.detokenize([word])
            raise ConfigError(f"the model does not know {unknown!r} in the prefix {prefix!r}")
    return ids
