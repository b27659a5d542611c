"""Documents: texts as parts and segments, which a model translates one by one, and back.

A text has line breaks, indentation, marks of lists, emoji and lines in the target language that
stay as they are. Between them are segments: sentences, or parts of long ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from core.decoding.search import Hypothesis
from data.codec import TextCodec
from tasks.seq2seq.generation import EncodedTexts
from tasks.translation.capitals import usual_case
from tasks.translation.placeholders import (
    has_placeholders,
    known_letters,
    line_parts,
    restored,
    with_placeholders,
)
from tasks.translation.segments import line_segments, lines, segments_of
from tasks.translation.typography import readable


@dataclass(frozen=True)
class Segment:
    """A sentence or a part of one as ids, and the literals that its placeholders stand for."""

    ids: list[int]
    literals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Text that is kept as it is, and the segments between it and the next part."""

    kept: str
    segments: list[Segment] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A text as the parts that it consists of."""

    parts: list[Part]

    @property
    def segments(self) -> list[Segment]:
        """The segments of all parts."""
        return [segment for part in self.parts for segment in part.segments]


@dataclass(frozen=True, kw_only=True)
class EncodedDocuments(EncodedTexts):
    """Documents as a search takes them."""

    documents: Sequence[Document]


class DocumentCodec:
    """Makes documents of texts, and texts of their translations.

    Args:
        source, target: the codecs of both languages.
    """

    def __init__(self, source: TextCodec, target: TextCodec) -> None:
        self._source, self._target = source, target
        self._letters = known_letters(source)  # None: the model reads all characters

    def encode(
        self, text: str, *, size: int, is_kept: Callable[[str], bool], with_literals: bool
    ) -> Document:
        """Returns ``text`` as a document.

        Args:
            size: the most ids in a segment.
            is_kept: tells which lines stay as they are.
            with_literals: keep literals behind placeholders (:mod:`.placeholders`).
        """
        parts = []
        for start, line in lines(text):
            if is_kept(line):
                parts.append(Part(start + line))
                continue
            read = usual_case(readable(line, self._letters), self._source)
            if not with_literals:
                ids_of_line = line_segments(read, self._source.encode, size)
                parts.append(Part(start, [Segment(ids) for ids in ids_of_line]))
                continue
            for kept, sentences in line_parts(read, self._letters):
                segments = [s for sentence in sentences for s in self._segments(sentence, size)]
                parts.append(Part(start + kept, segments))
                start = ""
        return Document(parts)

    def decode(self, document: Document, hypotheses: Sequence[Hypothesis]) -> str:
        """Returns the translation of a document, given that of each segment."""
        rest = iter(hypotheses)
        return "".join(
            part.kept + self._joined([(segment, next(rest)) for segment in part.segments])
            for part in document.parts
        )

    def are_copied(self, document: Document, hypotheses: Sequence[Hypothesis]) -> bool:
        """Returns whether the placeholders of each segment are in its translation."""
        return all(
            has_placeholders(self._target.decode(hypothesis.tokens), len(segment.literals))
            for segment, hypothesis in zip(document.segments, hypotheses, strict=True)
            if segment.literals
        )

    def _segments(self, sentence: str, size: int) -> list[Segment]:
        """Returns the segments of a sentence; one that is split has no placeholders."""
        text, literals = with_placeholders(sentence, self._letters)
        if literals and len(ids := self._source.encode(text)) <= size:
            return [Segment(ids, literals)]
        return [Segment(ids) for ids in segments_of(sentence, self._source.encode, size)]

    def _joined(self, translated: Sequence[tuple[Segment, Hypothesis]]) -> str:
        """Returns some segments. No separator comes where a long word of the source was cut."""
        text = ""
        for segment, hypothesis in translated:
            translation = restored(self._target.decode(hypothesis.tokens), segment.literals)
            if text and translation and not self._source.is_inside_word(segment.ids):
                text += self._target.tokenizer.separator
            text += translation
        return text
