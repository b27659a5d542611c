"""Answering the first lines of couplets with a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, overload
from zlib import crc32

import torch

from transformer_suite.core.config import check, check_range
from transformer_suite.core.decoding.search import Constraint
from transformer_suite.core.errors import ConfigError, TextError
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.core.storage.checkpoint import WEIGHTS_FILE, load_model
from transformer_suite.core.storage.files import is_folder
from transformer_suite.data.codec import TextCodec
from transformer_suite.data.vocabulary import Vocabulary
from transformer_suite.tasks.couplet.config import MAX_POOL, CoupletConfig
from transformer_suite.tasks.couplet.dataset import TOKENIZER
from transformer_suite.tasks.couplet.model import CoupletModel
from transformer_suite.tasks.couplet.reranking import Reranker
from transformer_suite.tasks.couplet.rules import (
    CharacterTable,
    CoupletConstraint,
    broken_rule,
    is_chinese,
    is_punctuation,
    split_line,
)
from transformer_suite.tasks.couplet.rules import check as check_rules
from transformer_suite.tasks.runs.checkpoint_folder import read_config
from transformer_suite.tasks.seq2seq.generation import EncodedTexts
from transformer_suite.tasks.seq2seq.n_best import Output, Ranked
from transformer_suite.tasks.seq2seq.predictor import Predictor
from transformer_suite.tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest
from transformer_suite.tasks.texts import as_texts, check_unicode

# The form of a couplet decides how long an answer is and what repeats in it.
_FORM_OPTIONS = {
    "max_length",
    "max_length_ratio",
    "max_length_extra",
    "min_length_ratio",
    "no_repeat_ngram",
}


BACKWARD_FOLDER = "backward"


@dataclass(frozen=True)
class Couplet(Ranked):
    """A second line, its score, and whether it keeps each rule.

    ``score`` is the score of the search: the log-probability, in beam search divided by the length
    normalizer; or that of the candidates' ranking. ``others`` are the next best second lines if
    more than one was asked for (``n_best`` or ``candidates``).
    """

    second: str
    score: float
    rules: dict[str, bool]
    others: tuple[Couplet, ...] = ()

    def record(self) -> dict[str, Any]:
        """Returns the fields of the JSON output."""
        return {"second": self.second, "score": self.score, "rules": self.rules}


class CoupletWriter(Predictor[Couplet]):
    """A trained couplet model: ``CoupletWriter.load().answer("晚风摇树树还挺")``.

    White space is dropped. A line that is too long for the model is answered in segments, each of
    which keeps the rules by itself. The alternatives combine those to the segments
    (:mod:`tasks.seq2seq.n_best`). Scores are those of the model alone: :meth:`score` does not ask
    whether a pair keeps the rules.

    A model of first lines for second ones (``data.swapped``) in the subfolder ``backward`` of a
    checkpoint folder takes part in the ranking of candidates; without it, the model itself does.

    Args:
        models: the model, or the models of an ensemble, in evaluation mode.
    """

    task = "couplet"

    def __init__(
        self,
        models: Sequence[SequenceToSequence],
        codec: TextCodec,
        config: CoupletConfig,
        device: torch.device,
    ) -> None:
        super().__init__(models, codec, codec, config.generation, device)
        self.codec = codec
        self.config = config
        self.backward: CoupletWriter | None = None

    @overload
    def answer(self, lines: str, **options: Any) -> str: ...

    @overload
    def answer(self, lines: Iterable[str], **options: Any) -> list[str]: ...

    def answer(self, lines: str | Iterable[str], **options: Any) -> str | list[str]:
        """Returns the second line for each first line, in order; an empty line stays empty.

        A single string is one line and gives one string. ``options`` are those of
        :class:`GenerationRequest`: ``beam_size=1`` for greedy search, ``n_best=5``,
        ``sample=True``, ``prefix="秋"``... The form decides the lengths and what repeats: their
        options are refused.

        Raises:
            ConfigError: an unknown option, an option out of range, options that contradict each
                other, a prefix that no couplet can have, a constraint that leaves no character.
            TypeError: anything but a string or an iterable of strings.
            TextError: a line without any Chinese character, or not valid Unicode.
        """
        answers = [
            couplet.second for couplet in self.generate(lines, GenerationRequest.of(**options))
        ]
        return answers[0] if isinstance(lines, str) else answers

    @overload
    def answer_scored(self, lines: str, **options: Any) -> Couplet: ...

    @overload
    def answer_scored(self, lines: Iterable[str], **options: Any) -> list[Couplet]: ...

    def answer_scored(self, lines: str | Iterable[str], **options: Any) -> Couplet | list[Couplet]:
        """Returns second lines with scores, kept rules and, with ``n_best``, alternatives.

        Arguments and errors are those of :meth:`answer`.
        """
        couplets = self.generate(lines, GenerationRequest.of(**options))
        return couplets[0] if isinstance(lines, str) else couplets

    @classmethod
    def _load_one(cls, path: Path, device: torch.device) -> CoupletWriter:
        config = read_config(path, cls.task, CoupletConfig)
        codec = TextCodec.load(path, tokenizer=TOKENIZER)
        model = load_model(
            path / WEIGHTS_FILE, lambda: CoupletModel(len(codec.vocabulary), config.model)
        )
        model = model.to(device).eval().requires_grad_(False)
        writer = cls([model], codec, config, device)
        if is_folder(path / BACKWARD_FOLDER):
            writer.backward = cls._load_one(path / BACKWARD_FOLDER, device)
        return writer

    @classmethod
    def _join(cls, members: Sequence[CoupletWriter]) -> CoupletWriter:
        first = members[0]
        models = [model for member in members for model in member.models]
        writer = cls(models, first.codec, first.config, first.device)
        writer.backward = first.backward
        return writer

    def _compatibility(self) -> Mapping[str, str | Vocabulary]:
        return {"vocabulary": self.codec.vocabulary}

    def generate(
        self, texts: str | Iterable[str], request: GenerationRequest = DEFAULT_REQUEST
    ) -> list[Couplet]:
        """Returns the answer to each of ``texts``; see :meth:`Predictor.generate`.

        Where ``request.candidates`` are asked for, or the configuration ranks candidates by default
        and no other search is asked for, they are drawn at random and ranked
        (:mod:`tasks.couplet.reranking`). A line has the same candidates wherever it stands.
        """
        wanted, searched = request.candidates, sorted(request.search_options())
        if wanted is None and (searched or not self.config.rerank.is_default):
            return super().generate(texts, request)
        if searched:
            raise ConfigError(
                f"candidates have a search of their own: leave out {', '.join(searched)}"
            )
        if wanted is not None:
            check_range("candidates", wanted, 1, MAX_POOL)
        texts = as_texts(texts)
        own = None if request.constraint else [crc32(text.encode()) for text in texts]
        drawn = super().generate(
            texts,
            replace(
                request,
                sample=True,
                n_best=max(self.config.rerank.pool, wanted or 1),
                temperature=self.config.rerank.temperature,
                numbers=own or request.numbers,
                candidates=None,
            ),
        )
        return [
            self._ranked(text, couplet, wanted or 1)
            for text, couplet in zip(texts, drawn, strict=True)
        ]

    def _ranked(self, text: str, drawn: Couplet, count: int) -> Couplet:
        """Returns the best ``count`` of the candidates ``drawn``, with their scores."""
        first = "".join(_characters(text))
        longest = min(writer.max_len for writer in (self, self.backward) if writer is not None)
        if not 0 < len(first) < longest:  # in segments, which the models cannot score together
            by_score = sorted(drawn.hypotheses, key=lambda couplet: -couplet.score)[:count]
            return replace(by_score[0], others=tuple(replace(c, others=()) for c in by_score[1:]))
        different = {couplet.second: couplet for couplet in drawn.hypotheses}
        ranked = self._reranker.rank(first, [*different], count)
        candidates = [*different.values()]
        best, *others = (replace(candidates[i], score=score, others=()) for i, score in ranked)
        return replace(best, others=tuple(others))

    @cached_property
    def _reranker(self) -> Reranker:
        backward = self.backward or self
        return Reranker(self, backward, self.codec.vocabulary, self.config.rerank)

    def _encode(self, texts: Sequence[str], request: GenerationRequest) -> EncodedTexts:
        if refused := sorted(_FORM_OPTIONS & request.search_options().keys()):
            raise ConfigError(
                f"the form of a couplet decides its length and what repeats: "
                f"leave out {', '.join(f'generation.{name}' for name in refused)}"
            )
        firsts = [_characters(text) for text in texts]
        for text, first in zip(texts, firsts, strict=True):
            if first and not any(map(is_chinese, first)):
                raise TextError(f"{text!r} has no Chinese character: it cannot begin a couplet")
        lines = [split_line(first, self.max_len - 1) for first in firsts]
        segments = [*chain.from_iterable(lines)]
        prefix = [] if request.prefix is None else self._prefix_ids(request.prefix, lines)
        prefixes = [[] if position else prefix for line in lines for position in range(len(line))]

        def form(indices: Sequence[int]) -> Constraint:
            return CoupletConstraint(
                [segments[i] for i in indices], self._table, [prefixes[i] for i in indices]
            )

        encode = self.codec.vocabulary.encode
        return EncodedTexts(
            segments=[[encode(segment) for segment in line] for line in lines],
            max_lengths=[len(segment) for segment in segments],
            # The prefix is forced by the form, which knows that a mark may stand for another.
            form=form,
        )

    def _result(
        self, text: str, segments: Sequence[Sequence[int]], outputs: Sequence[Output]
    ) -> Couplet:
        first = _characters(text)
        best, *others = (self._couplet(first, output) for output in outputs)
        return replace(best, others=tuple(others))

    def _couplet(self, first: Sequence[str], output: Output) -> Couplet:
        ids = output.tokens
        if len(ids) < len(first):
            raise ConfigError(
                f"the constraint leaves no character for the answer to {''.join(first)!r}"
            )
        second = [self.codec.vocabulary.itos[index] for index in ids]
        second = [f if is_punctuation(f) else s for f, s in zip(first, second, strict=True)]
        return Couplet("".join(second), output.score, check_rules(first, second))

    def _prefix_ids(self, prefix: str, lines: Sequence[Sequence[list[str]]]) -> list[int]:
        """Returns the ids that the answers to ``lines``, which are in segments, begin with."""
        check_unicode(prefix, "the prefix")
        characters = _characters(prefix)
        check(bool(characters), "the prefix", prefix, "a text of at least one character")
        ids = []
        for character in characters:
            known = self._table.id_of(character)
            index = self._table.mark_id(character) if is_punctuation(character) else known
            if index is None:
                raise ConfigError(f"the model does not know {character!r} in the prefix {prefix!r}")
            ids.append(index)
        for first in (line[0] for line in lines if line):
            if rule := broken_rule(first, characters):
                raise ConfigError(
                    f"no answer to {''.join(first)!r} begins with {prefix!r}: "
                    f"it breaks the rule of {rule}"
                )
        return ids

    @cached_property
    def _table(self) -> CharacterTable:
        return CharacterTable(self.codec.vocabulary, self.device)


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]
