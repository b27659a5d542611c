"""Answering first lines with a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from transformer_suite.core.config import check
from transformer_suite.core.decoding.search import Constraint
from transformer_suite.core.device import choose_device
from transformer_suite.core.errors import ConfigError
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.core.storage.checkpoint import WEIGHTS_FILE, load_weights
from transformer_suite.data.codec import TextCodec
from transformer_suite.tasks.couplet.config import CoupletConfig
from transformer_suite.tasks.couplet.dataset import TOKENIZER
from transformer_suite.tasks.couplet.model import CoupletModel
from transformer_suite.tasks.couplet.rules import (
    CharacterTable,
    CoupletConstraint,
    broken_rule,
    cut_line,
    is_punctuation,
)
from transformer_suite.tasks.couplet.rules import check as check_rules
from transformer_suite.tasks.runs.checkpoint_folder import Folders, model_folders, read_config
from transformer_suite.tasks.seq2seq.attention_maps import Attention, attention
from transformer_suite.tasks.seq2seq.ensembles import TrainedModels, check_alike
from transformer_suite.tasks.seq2seq.generation import generate_texts
from transformer_suite.tasks.seq2seq.n_best import Output
from transformer_suite.tasks.seq2seq.scoring import PairScore, score_texts

# The form alone decides how long an answer is, and what in it repeats.
_FORM_OPTIONS = {
    "max_length",
    "max_length_ratio",
    "max_length_extra",
    "min_length_ratio",
    "no_repeat_ngram",
}


@dataclass(frozen=True)
class Couplet:
    """A second line, its score, and the rules it keeps.

    ``score`` is the search's score: log-probability, in a beam over the length normaliser.
    ``others`` are the next best second lines, where more than one was asked for (``n_best``).
    """

    second: str
    score: float
    rules: dict[str, bool]
    others: tuple[Couplet, ...] = ()

    @property
    def hypotheses(self) -> tuple[Couplet, ...]:
        """This one and the others, the best first."""
        return (self, *self.others)

    def record(self) -> dict[str, Any]:
        """What JSON says of it."""
        return {"second": self.second, "score": self.score, "rules": self.rules}


class CoupletWriter:
    """A trained model, ready to answer: ``CoupletWriter.load().answer(["晚风摇树树还挺"])``."""

    def __init__(
        self,
        models: Sequence[SequenceToSequence],
        codec: TextCodec,
        config: CoupletConfig,
        device: torch.device,
    ) -> None:
        self.models = TrainedModels(models)
        self.codec = codec
        self.config = config
        self.device = device

    @classmethod
    def load(cls, folder: Folders = None, *, device: str = "auto") -> CoupletWriter:
        """The model in ``folder``, or the one that ships; an ensemble, if there are several.

        An ensemble searches with the first model's configuration.

        Raises:
            CheckpointError: a folder is missing, incomplete, damaged or another task's; or the
                models' vocabularies differ.
        """
        chosen = choose_device(device)
        paths = model_folders("couplet", folder)
        each = [_load(path, chosen) for path in paths]
        check_alike(paths, [{"vocabulary": codec.vocabulary} for _, codec, _ in each])
        _, codec, config = each[0]
        return cls([model for model, _, _ in each], codec, config, chosen)

    def answer(self, lines: Sequence[str], **options: Any) -> list[str]:
        """The second lines for ``lines``, in their order; an empty line stays empty.

        ``options`` are those of :meth:`answer_scored`.
        """
        return [couplet.second for couplet in self.answer_scored(lines, **options)]

    def answer_scored(
        self, lines: Sequence[str], *, prefix: str | None = None, **options: Any
    ) -> list[Couplet]:
        """As :meth:`answer`, with scores, what became of the rules and, if asked for, alternatives.

        White space is dropped. A line longer than the model can take is answered in pieces, each
        of which keeps the rules for itself; its alternatives are made of theirs, see
        :mod:`tasks.seq2seq.n_best`.

        Args:
            prefix: what every second line begins with, in characters that the model knows.
            options: replace those of the model's :class:`GenerationConfig` (``beam_size=1`` for
                greedy search, ``n_best=5``, ``sample=True``...), but for lengths and repetition,
                which the form decides; or are ``constraint``, ``numbers``, ``batch_tokens`` and
                ``on_batch`` of :func:`tasks.seq2seq.generation.generate_texts`.

        Raises:
            ConfigError: an option out of range, options that contradict each other; a prefix that
                no couplet can have; a constraint that leaves nothing to write.
        """
        firsts = [_characters(line) for line in lines]
        found = self._generate([self._pieces(first) for first in firsts], prefix, options)
        return [self._couplet(*one) for one in zip(firsts, found, strict=True)]

    def attention(self, line: str, *, prefix: str | None = None, **options: Any) -> list[Attention]:
        """Who attends to whom in ``line`` and its answer, a record for each piece of it.

        Args:
            prefix, options: those of :meth:`answer_scored`, for the answer.

        Raises:
            ConfigError: as there; or the model is an ensemble.
        """
        pieces = self._pieces(_characters(line))
        ((output, *_),) = self._generate([pieces], prefix, options)
        vocabularies = self.codec.vocabulary, self.codec.vocabulary
        return [
            attention(self.models, self._ids(piece), found.tokens, vocabularies, self.device)
            for piece, found in zip(pieces, output.hypotheses, strict=True)
        ]

    def _pieces(self, first: Sequence[str]) -> list[list[str]]:
        return cut_line(first, self.models.max_len - 1)

    def _ids(self, characters: Sequence[str]) -> list[int]:
        return self.codec.vocabulary.encode(characters)

    def _generate(
        self, lines: Sequence[list[list[str]]], prefix: str | None, options: Mapping[str, Any]
    ) -> list[list[Output]]:
        if unused := sorted(_FORM_OPTIONS & options.keys()):
            raise ConfigError(
                f"the form of a couplet decides its length and what repeats: "
                f"leave out {', '.join(f'generation.{name}' for name in unused)}"
            )
        pieces = [piece for line in lines for piece in line]
        beginning = (
            [] if prefix is None else self._beginning(prefix, [line[0] for line in lines if line])
        )
        beginnings = [
            beginning if place == 0 else [] for line in lines for place in range(len(line))
        ]

        def form(indices: Sequence[int]) -> Constraint:
            return CoupletConstraint(
                [pieces[i] for i in indices], self._table, [beginnings[i] for i in indices]
            )

        int8 = bool(options.get("int8", self.config.generation.int8))
        return generate_texts(
            self.models.step_model(int8=int8),
            [[self._ids(piece) for piece in line] for line in lines],
            self.config.generation,
            device=self.device,
            max_lengths=[len(piece) for piece in pieces],
            form=form,
            **options,
        )

    def _couplet(self, first: Sequence[str], outputs: Sequence[Output]) -> Couplet:
        best, *others = (self._second(first, output) for output in outputs)
        return replace(best, others=tuple(others))

    def _second(self, first: Sequence[str], output: Output) -> Couplet:
        ids = output.tokens
        if len(ids) < len(first):
            raise ConfigError(
                f"the constraint leaves no character for the answer to {''.join(first)!r}"
            )
        second = [self.codec.vocabulary.itos[index] for index in ids]
        second = [f if is_punctuation(f) else s for f, s in zip(first, second, strict=True)]
        return Couplet("".join(second), output.score, check_rules(first, second))

    def _beginning(self, prefix: str, firsts: Sequence[Sequence[str]]) -> list[int]:
        """The ids of what the answers to ``firsts`` begin with."""
        characters = _characters(prefix)
        check(bool(characters), "the prefix", prefix, "a text of at least one character")
        ids = []
        for character in characters:
            known = self._table.id_of(character)
            index = self._table.mark_id(character) if is_punctuation(character) else known
            if index is None:
                raise ConfigError(f"the model does not know {character!r} in the prefix {prefix!r}")
            ids.append(index)
        for first in firsts:
            if rule := broken_rule(first, characters):
                raise ConfigError(
                    f"no answer to {''.join(first)!r} begins with {prefix!r}: "
                    f"it breaks the rule of {rule}"
                )
        return ids

    def score(
        self, firsts: Sequence[str], seconds: Sequence[str], **options: Any
    ) -> list[PairScore]:
        """How probable each of ``seconds`` is as the answer to the first line at its place.

        White space is dropped. The rules, which :meth:`answer` keeps by force, are left aside.
        ``options`` are those of :func:`tasks.seq2seq.scoring.score_texts`.
        """
        return score_texts(
            self.models, self.codec, self.codec, firsts, seconds, device=self.device, **options
        )

    @cached_property
    def _table(self) -> CharacterTable:
        return CharacterTable(self.codec.vocabulary, self.device)


def _load(path: Path, device: torch.device) -> tuple[CoupletModel, TextCodec, CoupletConfig]:
    config = read_config(path, "couplet", CoupletConfig)
    codec = TextCodec.load(path, tokenizer=TOKENIZER)
    model = CoupletModel(len(codec.vocabulary), config.model)
    load_weights(path / WEIGHTS_FILE, model)
    return model.to(device).eval().requires_grad_(False), codec, config


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]
