"""BPE-dropout (Provilkov et al. 2020): a sentence is segmented differently each time.

SentencePiece has a faster implementation, but its random numbers cannot be seeded anew for every
epoch. A resumed run must see the same segmentation as an uninterrupted one.
"""

import random
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import groupby


def merge_characters(
    text: str, scores: Mapping[str, float], dropout: float, rng: random.Random
) -> list[str]:
    """Returns the pieces of ``text``, merged from its characters as SentencePiece does it.

    Two neighbors that form a piece together are merged, the pair with the highest score first, then
    the leftmost. Each merge is left out with probability ``dropout``. Neighboring characters that
    are not pieces become one unknown piece.

    Args:
        text: normalized by SentencePiece.
        scores: the score of every piece.
    """
    pieces = list(text)
    count = len(pieces)
    following, before = list(range(1, count + 1)), list(range(-1, count - 1))
    pairs = ((i, pieces[i] + pieces[i + 1]) for i in range(count - 1))
    merges = [(-scores[both], i, i + 1, both) for i, both in pairs if both in scores]
    heapify(merges)
    while merges:
        _, left, right, both = heappop(merges)
        # One of the two may have been merged since; its place is empty then.
        if not pieces[left] or not pieces[right] or pieces[left] + pieces[right] != both:
            continue
        if rng.random() < dropout:
            continue
        pieces[left], pieces[right] = both, ""
        after = following[left] = following[right]
        if after < count:
            before[after] = left
        for i, j in ((before[left], left), (left, after)):
            if i >= 0 and j < count and (both := pieces[i] + pieces[j]) in scores:
                heappush(merges, (-scores[both], i, j, both))
    return _join_unknown([piece for piece in pieces if piece], scores)


def _join_unknown(pieces: list[str], scores: Mapping[str, float]) -> list[str]:
    joined: list[str] = []
    for is_known, neighbors in groupby(pieces, key=scores.__contains__):
        run = list(neighbors)
        joined += run if is_known else ["".join(run)]
    return joined
