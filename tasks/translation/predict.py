"""Translating with a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from transformer_suite.core.config import check
from transformer_suite.core.decoding.search import Hypothesis
from transformer_suite.core.errors import ConfigError
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.core.storage.checkpoint import WEIGHTS_FILE, load_model
from transformer_suite.data.codec import TextCodec
from transformer_suite.data.vocabulary import UNK_ID, Vocabulary
from transformer_suite.tasks.runs.checkpoint_folder import read_config
from transformer_suite.tasks.seq2seq.generation import EncodedTexts
from transformer_suite.tasks.seq2seq.n_best import Output, Ranked
from transformer_suite.tasks.seq2seq.predictor import Predictor
from transformer_suite.tasks.seq2seq.request import GenerationRequest
from transformer_suite.tasks.texts import check_unicode
from transformer_suite.tasks.translation.config import TranslationConfig
from transformer_suite.tasks.translation.dataset import load_codecs
from transformer_suite.tasks.translation.model import TranslationModel
from transformer_suite.tasks.translation.segments import encoded_segments, line_segments, lines


@dataclass(frozen=True)
class Translation(Ranked):
    """A translated text.

    ``score`` is the score of the search: the log-probability, in beam search divided by the length
    normalizer, summed over the ``segments``. That is the number of sentences, or parts of long
    sentences, that were translated one by one. ``others`` are the next best translations if more
    than one was asked for (``n_best``).
    """

    text: str
    score: float
    segments: int
    others: tuple[Translation, ...] = ()

    def record(self) -> dict[str, Any]:
        """Returns the fields of the JSON output, where the segments are called ``pieces``."""
        return {"translation": self.text, "score": self.score, "pieces": self.segments}


class Translator(Predictor[Translation]):
    """A trained translation model: ``Translator.load().translate("Ein Hund rennt.")``.

    A text is translated line by line and sentence by sentence. Its line breaks, indentation and the
    marks of lists, quotes and dialogue at the beginning of lines stay as they are. A sentence that
    is too long for the model is split (:mod:`tasks.translation.segments`). The alternatives to a
    text of several segments combine those to its segments (:mod:`tasks.seq2seq.n_best`).

    Args:
        models: the model, or the models of an ensemble, in evaluation mode.
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
        return cls([model], source, target, config, device)

    @classmethod
    def _join(cls, members: Sequence[Translator]) -> Translator:
        first = members[0]
        max_tokens = min(member.config.data.max_tokens for member in members)
        config = replace(first.config, data=replace(first.config.data, max_tokens=max_tokens))
        models = [model for member in members for model in member.models]
        return cls(models, first.source, first.target, config, first.device)

    def _compatibility(self) -> Mapping[str, str | Vocabulary]:
        return {
            "source language": self.config.data.src,
            "target language": self.config.data.tgt,
            "tokenizer": self.config.data.tokenizer,
            "source vocabulary": self.source.vocabulary,
            "target vocabulary": self.target.vocabulary,
        }

    def _encode(self, texts: Sequence[str], request: GenerationRequest) -> EncodedTexts:
        check(
            request.candidates is None, "candidates", request.candidates, "left out: for couplets"
        )
        size = self.max_source_tokens
        return EncodedTexts(
            segments=[encoded_segments(text, self.source.encode, size) for text in texts],
            prefix=() if request.prefix is None else known_ids(request.prefix, self.target),
        )

    def _result(
        self, text: str, segments: Sequence[Sequence[int]], outputs: Sequence[Output]
    ) -> Translation:
        counts = self._segment_counts(text, len(segments))
        best, *others = (
            Translation(self._text_of(counts, segments, output), output.score, len(segments))
            for output in outputs
        )
        return replace(best, others=tuple(others))

    def _segment_counts(self, text: str, total: int) -> list[tuple[str, int]]:
        """Returns the beginning of each line of ``text``, and its number of segments of ``total``.

        The beginning is what comes before the first word.
        """
        of_lines = lines(text)
        if len(of_lines) == 1:
            return [(of_lines[0][0], total)]
        encode, size = self.source.encode, self.max_source_tokens
        return [(start, len(line_segments(line, encode, size))) for start, line in of_lines]

    def _text_of(
        self,
        counts: Iterable[tuple[str, int]],
        segments: Sequence[Sequence[int]],
        output: Output,
    ) -> str:
        """Returns one text, given the :meth:`_segment_counts` of its source."""
        translated = zip(segments, output.hypotheses, strict=True)
        return "".join(start + self._line_of(islice(translated, n)) for start, n in counts)

    def _line_of(self, translated: Iterable[tuple[Sequence[int], Hypothesis]]) -> str:
        """Returns one line. No separator comes where a long word of the source was cut."""
        line = ""
        for ids, hypothesis in translated:
            part = self.target.decode(hypothesis.tokens)
            if line and part and not self.source.is_inside_word(ids):
                line += self.target.tokenizer.separator
            line += part
        return line


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
