"""Corpora as ids: streamed through all cores, done once, and compact."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer_suite.core.progress import Progress
from transformer_suite.data.cache import remembered
from transformer_suite.data.codec import TextCodec
from transformer_suite.data.examples import Examples, IdLists, Pair
from transformer_suite.data.readers import iter_parallel
from transformer_suite.data.workers import Chunk, EncodedTexts, encode_chunk, encode_in_workers

_CHUNK_ROWS = 500

# What is done by then is done sooner here: a worker takes a core 0.1 s to start, which two of them
# begin to win back at 8,000 sentence pairs, 0.3 s of work.
_SECONDS_ALONE = 0.25


def encode_rows(
    codecs: Sequence[TextCodec], rows: Iterable[Sequence[str]], *, processes: int | None = None
) -> list[IdLists]:
    """The ids of every column of ``rows``, each by its own codec, in the order of the rows.

    Rows are read as they are needed. What takes more than a moment goes to other processes; the
    result is the same.

    Args:
        processes: how many to use; None: as many as torch uses threads. With 1 it is this one.
    """
    # An id is less than the number of tokens.
    types = [np.uint16 if len(codec.vocabulary) <= 1 << 16 else np.int32 for codec in codecs]
    ids = [[np.zeros(0, dtype)] for dtype in types]
    lengths = [[np.zeros(0, np.int64)] for _ in codecs]
    for part in _encoded_chunks(codecs, rows, processes or torch.get_num_threads()):
        for column, (part_lengths, part_ids) in enumerate(part):
            lengths[column].append(np.array(part_lengths, np.int64))
            ids[column].append(np.array(part_ids, types[column]))
    return [
        IdLists.of_lengths(np.concatenate(column), np.concatenate(its_lengths))
        for column, its_lengths in zip(ids, lengths, strict=True)
    ]


def encode_parallel(
    source: Path, target: Path, codecs: tuple[TextCodec, TextCodec]
) -> Examples[Pair]:
    """Two files aligned by line as pairs of lists of ids, from the cache if they are there.

    Raises:
        CorpusError: as :func:`data.readers.read_parallel`.
    """

    def encode() -> dict[str, Tensor]:
        sources, targets = encode_rows(codecs, iter_parallel(source, target))
        return sources.to_tensors("source") | targets.to_tensors("target")

    tensors = remembered(
        "parallel",
        encode,
        files=(source, target),
        settings={"codecs": [codec.describe() for codec in codecs]},
    )
    return Examples(*(IdLists.from_tensors(tensors, side) for side in ("source", "target")))


def _encoded_chunks(
    codecs: Sequence[TextCodec], rows: Iterable[Sequence[str]], processes: int
) -> Iterator[list[EncodedTexts]]:
    chunks = _chunks(iter(rows))
    started = time.monotonic()
    for chunk in chunks:
        yield encode_chunk(codecs, chunk)
        if processes > 1 and time.monotonic() - started > _SECONDS_ALONE:
            yield from encode_in_workers(codecs, chunks, processes)


def _chunks(rows: Iterator[Sequence[str]]) -> Iterator[Chunk]:
    """``rows`` column by column, some at a time."""
    with Progress(None, "encoding", unit="lines") as progress:
        while some := list(islice(rows, _CHUNK_ROWS)):
            yield list(zip(*some, strict=True))
            progress.advance(len(some))
