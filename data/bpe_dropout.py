"""BPE-dropout (Provilkov et al. 2020): the same sentence, cut another way each time.

SentencePiece has it, and faster; but its chances are other ones in every process, whatever the
seed, and a run that goes on in a new process has to see what it would have seen.
"""

import random
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import groupby


def merge_characters(
    text: str, scores: Mapping[str, float], dropout: float, chance: random.Random
) -> list[str]:
    """The pieces that the characters of `text` are merged to, as SentencePiece merges them.

    Of all neighbours that are a piece together, those of the highest score are merged first, the
    leftmost of equals; each merge is left out with the probability `dropout`. Neighbouring
    characters that are no pieces become one unknown piece.

    Args:
        text: normalised, as SentencePiece does it.
        scores: of all pieces.
    """
    pieces = list(text)
    count = len(pieces)
    following, before = list(range(1, count + 1)), list(range(-1, count - 1))
    pairs = ((i, pieces[i] + pieces[i + 1]) for i in range(count - 1))
    merges = [(-scores[both], i, i + 1, both) for i, both in pairs if both in scores]
    heapify(merges)
    while merges:
        _, left, right, both = heappop(merges)
        # One of the two may be a part of something longer by now, and empty here.
        if not pieces[left] or not pieces[right] or pieces[left] + pieces[right] != both:
            continue
        if chance.random() < dropout:
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
    for is_known, neighbours in groupby(pieces, key=scores.__contains__):
        run = list(neighbours)
        joined += run if is_known else ["".join(run)]
    return joined
