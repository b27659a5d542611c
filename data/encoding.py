"""Texts as compact ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from torch import get_num_threads

from data.codec import TextCodec
from data.examples import Examples, IdLists, Pair
from data.readers import TextPair

_CHUNK_TEXTS = 10_000  # as Python integers, ids take many times the memory


def encode_texts(
    codec: TextCodec, texts: Iterable[str], *, prefix: Sequence[int] = (), empty: Sequence[int] = ()
) -> IdLists:
    """Returns the ids of every text, after ``prefix``; ``empty`` for a text without tokens."""
    rest = iter(texts)
    chunks = iter(lambda: list(islice(rest, _CHUNK_TEXTS)), [])
    return IdLists.of(
        [*prefix, *(ids or empty)]
        for chunk in chunks
        for ids in codec.encode_all(chunk, threads=get_num_threads())
    )


def encode_pairs(
    pairs: Sequence[TextPair], codecs: tuple[TextCodec, TextCodec], *, prefix: Sequence[int] = ()
) -> Examples[Pair]:
    """Returns pairs as ids; every source begins with ``prefix``."""
    source, target = codecs
    return Examples(
        encode_texts(source, (pair.source for pair in pairs), prefix=prefix),
        encode_texts(target, (pair.target for pair in pairs)),
    )
