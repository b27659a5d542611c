"""Answering first lines with a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from core.checkpoint import WEIGHTS_FILE, load_weights
from core.device import choose_device
from data.codec import TextCodec
from tasks.couplet.config import CoupletConfig
from tasks.couplet.dataset import TOKENIZER
from tasks.couplet.model import CoupletModel
from tasks.couplet.rules import CharacterTable, CoupletConstraint, check, is_punctuation
from tasks.folders import model_folder, read_config
from tasks.generation import DEFAULT_BATCH_TOKENS, generate


@dataclass(frozen=True)
class Couplet:
    """A second line, its log-probability over the length normaliser, and the rules it keeps."""

    second: str
    score: float
    rules: dict[str, bool]

    def record(self) -> dict[str, Any]:
        """What JSON says of it."""
        return asdict(self)


class CoupletWriter:
    """A trained model, ready to answer: ``CoupletWriter.load().answer(["晚风摇树树还挺"])``."""

    def __init__(
        self, model: CoupletModel, codec: TextCodec, config: CoupletConfig, device: torch.device
    ) -> None:
        self.model = model
        self.codec = codec
        self.config = config
        self.device = device

    @classmethod
    def load(cls, folder: str | Path | None = None, *, device: str = "auto") -> CoupletWriter:
        """The model in ``folder``, or the one that ships.

        Raises:
            CheckpointError: the folder is missing, incomplete, damaged or another task's.
        """
        path = model_folder("couplet", folder)
        chosen = choose_device(device)
        config = read_config(path, "couplet", CoupletConfig)
        codec = TextCodec.load(path, tokenizer=TOKENIZER)
        model = CoupletModel(len(codec.vocabulary), config.model)
        load_weights(path / WEIGHTS_FILE, model)
        return cls(model.to(chosen).eval(), codec, config, chosen)

    def answer(self, lines: Sequence[str], **options: Any) -> list[str]:
        """The second lines for ``lines``, in their order; an empty line stays empty.

        ``options`` are those of :meth:`answer_scored`.
        """
        return [couplet.second for couplet in self.answer_scored(lines, **options)]

    def answer_scored(
        self,
        lines: Sequence[str],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        on_batch: Callable[[int], None] = lambda pieces: None,
        **options: Any,
    ) -> list[Couplet]:
        """As :meth:`answer`, with scores and what became of the rules.

        White space is dropped. A line longer than the model can take is answered in pieces, each
        of which keeps the rules for itself.

        Args:
            batch_tokens: the most characters that are answered at a time.
            on_batch: told how many pieces have just been finished.
            options: replace those of the model's :class:`GenerationConfig`: ``beam_size=1`` for
                greedy search.
        """
        generation = dataclasses.replace(self.config.generation, **options)
        firsts = [[c for c in line if not c.isspace()] for line in lines]
        pieces: list[list[str]] = []
        pieces_of: list[range] = []
        for first in firsts:
            start = len(pieces)
            pieces.extend(_cut(first, self.config.model.max_len - 1))
            pieces_of.append(range(start, len(pieces)))
        found = generate(
            self.model,
            [self.codec.vocabulary.encode(piece) for piece in pieces],
            generation,
            device=self.device,
            batch_tokens=batch_tokens,
            max_lengths=[len(piece) for piece in pieces],
            make_constraint=lambda numbers: CoupletConstraint(
                [pieces[i] for i in numbers], self._table
            ),
            on_batch=on_batch,
        )
        couplets = []
        for first, numbers in zip(firsts, pieces_of, strict=True):
            ids = [index for i in numbers for index in found[i][0].tokens]
            second = [self.codec.vocabulary.itos[index] for index in ids]
            second = [f if is_punctuation(f) else s for f, s in zip(first, second, strict=True)]
            score = sum((found[i][0].score for i in numbers), start=0.0)
            couplets.append(Couplet("".join(second), score, check(first, second)))
        return couplets

    @cached_property
    def _table(self) -> CharacterTable:
        return CharacterTable(self.codec.vocabulary, self.device)


def _cut(line: Sequence[str], size: int) -> list[list[str]]:
    """``line`` in pieces of at most ``size`` characters, cut behind a mark where there is one."""
    pieces = []
    rest = list(line)
    while len(rest) > size:
        marks = [i for i in range(size) if is_punctuation(rest[i])]
        at = marks[-1] + 1 if marks else size
        pieces.append(rest[:at])
        rest = rest[at:]
    return [*pieces, rest] if rest else pieces
