"""Documents: texts as parts and segments, which a model translates one by one, and back.

A text has line breaks, indentation, marks of lists, emoji and lines in the target language that
stay as they are. Between them are segments: sentences, or parts of long ones.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from core.decoding.search import Hypothesis
from data.codec import TextCodec
from tasks.seq2seq.generation import EncodedTexts
from tasks.translation.placeholders import (
    FALLBACK,
    Glossary,
    LinePart,
    Literal,
    known_letters,
    line_parts,
    restored,
    with_placeholders,
)
from tasks.translation.segments import lines, segments_of, sentences
from tasks.translation.spelling import readable, usual_case


class Segment(NamedTuple):
    """A sentence or a part of one: its ids, and its ``text`` if ``literals`` have placeholders."""

    ids: list[int]
    text: str = ""
    literals: Mapping[str, Literal] = MappingProxyType({})


class Part(NamedTuple):
    """Text that is kept as it is, and the segments between it and the next part."""

    kept: str
    segments: Sequence[Segment] = ()


class Document(NamedTuple):
    """A text as the parts that it consists of."""

    parts: list[Part]

    @property
    def segments(self) -> list[Segment]:
        """The segments of all parts."""
        return [segment for part in self.parts for segment in part.segments]

    def replaced(self, segments: Iterator[Segment]) -> "Document":
        """Returns the document with the next ``segments`` in the place of its own."""
        return Document([Part(kept, [next(segments) for _ in own]) for kept, own in self.parts])


@dataclass(frozen=True, kw_only=True)
class EncodedDocuments(EncodedTexts):
    """Documents as a search takes them."""

    documents: Sequence[Document]
    is_judged: bool
    """Whether the translations get a confidence and a familiarity."""


class DocumentCodec:
    """Makes documents of texts, and texts of translations; segments have at most ``size`` ids.

    ``letters`` are the characters that the model knows; None: all of them.
    """

    def __init__(self, source: TextCodec, target: TextCodec, size: int) -> None:
        self._source, self._target, self._size = source, target, size
        self.letters = known_letters(source)

    def encode(
        self,
        text: str,
        *,
        is_kept: Callable[[str], bool],
        with_literals: bool,
        glossary: Glossary | None = None,
    ) -> Document:
        """Returns ``text`` as a document.

        Args:
            is_kept: tells which lines stay as they are.
            with_literals: put :mod:`.placeholders` in place of literals and terms of ``glossary``.
        """
        parts = []
        for start, line in lines(text):
            if is_kept(line):
                parts.append(Part(start + line))
                continue
            read = usual_case(readable(line, self.letters), self._source, self.letters)
            if with_literals:
                parts_of_line = line_parts(read, self.letters)
            else:
                parts_of_line = [LinePart("", sentences(read))]
            for kept, own_sentences in parts_of_line:
                segments = [
                    segment
                    for sentence in own_sentences
                    for segment in self._segments(sentence, with_literals, glossary)
                ]
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

    def lost(self, segment: Segment, hypothesis: Hypothesis) -> list[str]:
        """Returns the placeholders of ``segment`` that are not exactly once in its translation."""
        text = self._target.decode(hypothesis.tokens) if segment.literals else ""
        found = ((each, re.findall(rf"{re.escape(each)}(?!\w)", text)) for each in segment.literals)
        return [each for each, places in found if len(places) != 1]

    def without(self, segment: Segment, placeholders: Sequence[str]) -> Segment:
        """Returns ``segment`` without these placeholders; the fallback replaces the first."""
        text, others = segment.text, dict(segment.literals)
        for name in placeholders:
            own = others.pop(name)
            is_free = FALLBACK not in text and name != FALLBACK
            if is_free:
                others[FALLBACK] = own
            text = text.replace(name, FALLBACK if is_free else own.source)
        return Segment(self._source.encode(text), text, others)

    def around_literals(self, segment: Segment) -> list[int]:
        """Returns the ids of what is not a placeholder, or of the whole if that has no letter."""
        text = segment.text  # no training text has so many placeholders
        for name in segment.literals:
            text = text.replace(name, "")
        return self._source.encode(text) if any(map(str.isalpha, text)) else segment.ids

    def segments_of(self, text: str) -> list[list[int]]:
        """Returns the ids of a sentence, in several segments if it is too long for the model."""
        return segments_of(text, self._source.encode, self._size)

    def _segments(
        self, sentence: str, with_literals: bool, glossary: Glossary | None
    ) -> list[Segment]:
        """Returns the segments of a sentence; one that is split has no placeholders."""
        if with_literals:
            text, literals = with_placeholders(sentence, self.letters, glossary)
            if literals and len(ids := self._source.encode(text)) <= self._size:
                return [Segment(ids, text, literals)]
        return [Segment(ids) for ids in self.segments_of(sentence)]

    def _joined(self, translated: Sequence[tuple[Segment, Hypothesis]]) -> str:
        """Returns some segments. No separator comes where a long word of the source was cut."""
        text = ""
        for segment, hypothesis in translated:
            targets = {name: own.target for name, own in segment.literals.items()}
            translation = restored(self._target.decode(hypothesis.tokens), targets)
            if text and translation and not self._source.is_inside_word(segment.ids):
                text += self._target.tokenizer.separator
            text += translation
        return text
