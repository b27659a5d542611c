"""Logistic regression: the baseline of every run, and the n-grams of a model for few texts.

Gradient descent needs many texts to find good weights for n-grams. For few texts, the weights with
the least regularized loss are found in a second, and they suit texts that were never seen better
than those of any network that is trained on the same texts alone.
"""

import random
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack
from torch import Tensor

from data.batching import pad_sequence
from data.examples import IdLists
from tasks.classification.ngrams import SCALE, HashedNgrams
from tasks.classification.sources import Row

BASELINE_ROWS = 50_000
"""The most training rows that the baseline reads; more would take minutes."""

_INVERSE_REGULARIZATION = 10.0
_MAX_ITERATIONS = 300
_BATCH = 64  # texts


def baseline_is_right(train: Sequence[Row], test: Sequence[Row]) -> NDArray[np.bool_]:
    """Returns which test rows are right in a logistic regression over TF-IDF of the training rows.

    It counts words and pairs of words; in texts without spaces, characters and pairs of them.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from threadpoolctl import threadpool_limits

    if len(train) > BASELINE_ROWS:
        train = random.Random(1).sample(train, BASELINE_ROWS)
    has_spaces = sum(" " in row.text for row in train) > len(train) / 2
    model = make_pipeline(
        TfidfVectorizer(
            sublinear_tf=True, ngram_range=(1, 2), analyzer="word" if has_spaces else "char"
        ),
        LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=1000),
    )
    with threadpool_limits(torch.get_num_threads()):
        model.fit([row.text for row in train], [row.label for row in train])
        found: NDArray[np.int64] = model.predict([row.text for row in test])
    return found == np.array([row.label for row in test])


def fitted_weights(
    ngrams: HashedNgrams, texts: IdLists, labels: Sequence[int], weights: Tensor | None = None
) -> Tensor:
    """Returns the weights for ``ngrams`` that are those of a logistic regression on texts as ids.

    Its features are the counts of n-grams, divided by the square root of their number and weighed
    by inverse document frequency, as in TF-IDF. It has no intercept, as ``ngrams`` has none.
    ``labels`` are the classes of the texts, two or more; ``weights`` ``[C]`` those of the classes.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    counts = ngram_counts(ngrams, texts)
    used = np.unique(counts.indices)
    counts = counts[:, used]
    documents = np.bincount(counts.indices, minlength=len(used))
    rarity = np.log((1 + len(texts)) / (1 + documents)) + 1
    total = np.maximum(counts.sum(axis=1), 1)
    features = diags_array(total**-0.5) @ counts @ diags_array(rarity)
    strength = {"C": _INVERSE_REGULARIZATION, "max_iter": _MAX_ITERATIONS}
    model = LogisticRegression(fit_intercept=False, **strength)
    with threadpool_limits(torch.get_num_threads()):
        model.fit(features, labels, None if weights is None else weights.numpy()[list(labels)])
    found = model.coef_ if len(model.classes_) > 2 else model.coef_ * [[-0.5], [0.5]]
    # A class that no text has is never the most probable.
    rows = np.tile(found.min(axis=0), (ngrams.weight.shape[1], 1))
    rows[model.classes_] = found
    table = torch.zeros_like(ngrams.weight, requires_grad=False)
    table[used] = torch.from_numpy((rows * rarity).T / SCALE).to(table)
    return table


def ngram_counts(ngrams: HashedNgrams, texts: IdLists) -> csr_array:
    """Returns how often each n-gram of the table occurs in each text ``[N, rows]``."""
    parts = []
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        src = pad_sequence(list(batch)).to(ngrams.weight.device)
        rows, numbers = (column.cpu().numpy() for column in ngrams.rows(src))
        shape = len(batch), len(ngrams.weight)
        parts.append(csr_array((np.ones(len(rows)), (numbers, rows)), shape=shape))
    return csr_array(vstack(parts))
