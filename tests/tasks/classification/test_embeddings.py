"""Embeddings from co-occurrence counts: equal to plain Python."""

import math
from collections import Counter

import numpy as np
import pytest

from data.examples import IdLists
from tasks.classification.embeddings import (
    cooccurrences,
    positive_mutual_information,
    ppmi_embeddings,
)

TEXTS = [[4, 5, 6, 4], [5], [], [6, 5, 4, 7, 8], [4, 5, 7, 8], [5, 4, 9]]


@pytest.mark.parametrize("window", [1, 2, 9])
def test_tokens_of_one_text_within_the_window_occur_together(window: int) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    for text in TEXTS:
        for i, one in enumerate(text):
            for j, other in enumerate(text):
                if i != j and abs(i - j) <= window:
                    expected[one, other] += 1
    found = cooccurrences(IdLists.of(TEXTS), 10, window).toarray()
    assert {(i, j): found[i, j] for i, j in zip(*found.nonzero(), strict=True)} == expected


def test_mutual_information_equals_its_definition() -> None:
    counts = cooccurrences(IdLists.of(TEXTS), 10, 2)
    table = counts.toarray()
    totals = table.sum(axis=1)
    contexts = totals**0.75
    expected = np.zeros_like(table)
    for i, j in zip(*table.nonzero(), strict=True):
        ratio = table[i, j] / totals[i] / (contexts[j] / contexts.sum())
        if ratio > 1.0 and table[i, j] >= 2:
            expected[i, j] = math.log(ratio)
    assert expected.any()
    np.testing.assert_allclose(positive_mutual_information(counts).toarray(), expected, rtol=1e-5)


def test_words_with_the_same_neighbors_are_similar_and_unseen_ones_have_no_vector() -> None:
    rng = np.random.default_rng(1)
    texts = [
        [4 + group, int(rng.integers(6, 9)) + 3 * group, 12 + int(rng.integers(2)) + 2 * group]
        for group in (0, 1)
        for _ in range(50)
    ]
    vectors, has_vector = ppmi_embeddings(
        IdLists.of(texts), vocab_size=20, width=4, window=2, seed=1
    )
    assert has_vector.tolist() == [4 <= i < 16 for i in range(20)]
    assert (vectors[~has_vector] == 0).all()
    np.testing.assert_allclose(vectors[has_vector].norm(dim=1), 1.0, rtol=1e-5)
    similar, different = vectors[12] @ vectors[13], vectors[12] @ vectors[14]
    assert similar > 0.5 > 0.2 > abs(different)
    again, _ = ppmi_embeddings(IdLists.of(texts), vocab_size=20, width=4, window=2, seed=1)
    assert (again == vectors).all()


def test_a_corpus_without_pairs_has_no_vectors() -> None:
    vectors, has_vector = ppmi_embeddings(
        IdLists.of([[4], [5]]), vocab_size=6, width=8, window=5, seed=1
    )
    assert not has_vector.any()
    assert vectors.shape == (6, 8)
