"""Token embeddings from co-occurrence counts, to begin training with.

Pointwise mutual information compares how often two tokens occur near each other with how often
independent tokens would. Its positive part (PPMI) is a large sparse matrix; the leading
singular vectors are embeddings in which similar words are near each other, as good as word2vec's
(Levy and Goldberg 2014; Levy, Goldberg and Dagan 2015, whose sections are named below). They need
no labels and one minute; an encoder that starts from them needs fewer epochs.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from data.examples import IdLists

_SMOOTHING = 0.75  # of the counts of contexts; section 3.2, "cds"
_MIN_COUNT = 2
_SVD_ITERATIONS = 3
_TINY = 1e-6


def ppmi_embeddings(
    texts: IdLists, *, vocab_size: int, width: int, window: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Returns embeddings ``[V, width]`` of length 1, and which tokens have one, ``[V]``.

    A token without any positive mutual information has no embedding, and zeros.

    Args:
        texts: the training texts as ids.
        window: the largest distance between two tokens that occur together.
        seed: for the approximate factorization (Halko et al. 2011).
    """
    from sklearn.utils.extmath import randomized_svd

    matrix = positive_mutual_information(cooccurrences(texts, vocab_size, window))
    vectors = np.zeros((vocab_size, width))
    if matrix.nnz:
        rank = min(width, vocab_size)
        left, values, _ = randomized_svd(matrix, rank, n_iter=_SVD_ITERATIONS, random_state=seed)
        vectors[:, :rank] = left * np.sqrt(values)  # section 3.3, "eig" = 0.5
    lengths = np.linalg.norm(vectors, axis=1)
    has_vector = lengths > _TINY
    vectors[has_vector] /= lengths[has_vector, None]
    vectors[~has_vector] = 0.0
    return torch.from_numpy(vectors).float(), torch.from_numpy(has_vector)


def cooccurrences(texts: IdLists, vocab_size: int, window: int) -> csr_array:
    """Returns ``[V, V]``: how often two tokens are at most ``window`` tokens apart in a text."""
    gap = [-1] * window
    stream = np.fromiter((i for ids in texts for i in (*ids, *gap)), np.int32)
    counts = csr_array((vocab_size, vocab_size), dtype=np.float32)
    for distance in range(1, window + 1):
        first, second = stream[:-distance], stream[distance:]
        is_pair = (first >= 0) & (second >= 0)
        pairs = (first[is_pair], second[is_pair])
        ones = np.ones(len(pairs[0]), np.float32)
        counts = counts + coo_array((ones, pairs), shape=counts.shape).tocsr()
    return (counts + counts.T).tocsr()


def positive_mutual_information(counts: csr_array) -> csr_array:
    """Returns max(0, log(P(a, b) / (P(a) P(b)))) of symmetric ``counts``; rare pairs give 0."""
    if not counts.nnz:
        return counts
    totals = counts.sum(axis=1)
    contexts = totals**_SMOOTHING
    contexts /= contexts.sum()
    pairs = counts.tocoo()
    row, column = pairs.row, pairs.col
    information = np.log(pairs.data / (totals[row] * contexts[column]))
    is_kept = (information > 0.0) & (pairs.data >= _MIN_COUNT)
    kept = (information[is_kept], (row[is_kept], column[is_kept]))
    return coo_array(kept, shape=counts.shape).tocsr()
