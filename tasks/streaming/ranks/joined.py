"""The processes that a command has for its work: several under torchrun, else this one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from transformer_suite.core.distributed.world import process_group, world_from_environment
from transformer_suite.tasks.streaming.lines import Predict, answer, full_chunks, ignore


class Ranks(Protocol):
    """What a command sees of the processes that share its work."""

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that prints and writes."""

    def chunk_lines(self, total: int | None) -> int:
        """How many lines go into a chunk of an input of ``total`` lines (None: not known)."""

    def device(self, name: str) -> str:
        """The device that this process takes where the user asks for ``name``."""

    def answer(
        self,
        chunks: Iterable[Sequence[str]],
        predict: Predict,
        show: Callable[[str, Any], Iterable[str]],
        write: Callable[[str], object],
        *,
        on_lines: Callable[[int], None] = ignore,
    ) -> None:
        """As :func:`tasks.streaming.lines.answer`, but only the first rank writes and counts."""


class SingleProcess:
    """One process, which does everything."""

    is_main = True
    answer = staticmethod(answer)
    chunk_lines = staticmethod(full_chunks)

    def device(self, name: str) -> str:
        return name


@contextmanager
def joined() -> Iterator[Ranks]:
    """The processes that torchrun has started for this work, or this one alone.

    A rank that fails is reported once, by rank 0, and all end with the same exit code.

    Raises:
        UserError: in rank 0: another has failed (its message) or is lost (names it); in another:
            rank 0 is lost.
        ConfigError: torchrun's variables are incomplete.
    """
    world = world_from_environment()
    if world is None or world.size == 1:
        yield SingleProcess()
        return
    # Here and not above: a process on its own needs neither, and starts the quicker.
    import torch

    from transformer_suite.tasks.streaming.ranks.several import rank_of

    with process_group(world, torch.device("cpu")), rank_of(world) as rank:
        yield rank
