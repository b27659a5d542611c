"""Corpora as ids: encoded once, cached on disk, compact in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from core.progress import Progress
from data.cache import cached
from data.codec import TextCodec
from data.examples import Examples, IdLists, Pair
from data.readers import iter_parallel, iter_table


def encode_rows(codecs: Sequence[TextCodec], rows: Iterable[Sequence[str]]) -> list[IdLists]:
    """Returns the ids of every column of ``rows``, each encoded by its own codec.

    Rows are read one at a time. Ids take two bytes each where the vocabulary allows it.
    """
    ids = [array("H" if len(codec.vocabulary) <= 1 << 16 else "i") for codec in codecs]
    lengths = [array("q") for _ in codecs]
    with Progress(None, "encoding", unit="lines") as progress:
        for row in rows:
            for codec, text, column, its_lengths in zip(codecs, row, ids, lengths, strict=True):
                encoded = codec.encode(text)
                column.extend(encoded)
                its_lengths.append(len(encoded))
            progress.advance()
    return [
        IdLists.of_lengths(np.array(column), np.array(its_lengths))
        for column, its_lengths in zip(ids, lengths, strict=True)
    ]


def encode_parallel(
    source: Path, target: Path, codecs: tuple[TextCodec, TextCodec]
) -> Examples[Pair]:
    """Returns two files aligned by line as pairs of lists of ids, from the cache if possible.

    Raises:
        CorpusError: as :func:`data.readers.read_parallel`.
    """
    return _encoded("parallel", iter_parallel(source, target), (source, target), codecs)


def encode_table(path: Path, codecs: tuple[TextCodec, TextCodec]) -> Examples[Pair]:
    """Returns a file of pairs as pairs of lists of ids, from the cache if possible.

    Raises:
        CorpusError: as :func:`data.readers.iter_table`.
    """
    return _encoded("table", iter_table(path), (path,), codecs)


def _encoded(
    kind: str,
    pairs: Iterable[tuple[str, str]],
    files: tuple[Path, ...],
    codecs: tuple[TextCodec, TextCodec],
) -> Examples[Pair]:
    def encode() -> dict[str, Tensor]:
        sources, targets = encode_rows(codecs, pairs)
        return sources.to_tensors("source") | targets.to_tensors("target")

    tensors = cached(
        kind,
        encode,
        files=files,
        settings={"codecs": [codec.describe() for codec in codecs]},
    )
    return Examples(*(IdLists.from_tensors(tensors, side) for side in ("source", "target")))
