"""Self-pretraining: its two losses equal their definitions, and it changes only the encoder."""

import random

import pytest
import torch
import torch.nn.functional as F

from core.training.config import TrainConfig
from data.examples import IdLists
from tasks.classification.model import ClassificationModel
from tasks.classification.pretraining import (
    PretrainingHeads,
    divided,
    pretrain,
    pretraining_losses,
)

V, D, C = 30, 8, 3


def new_model(seed: int = 1, **sizes: object) -> ClassificationModel:
    torch.manual_seed(seed)
    defaults = {"d_model": D, "nhead": 2, "num_encoder_layers": 1, "dim_feedforward": 12}
    return ClassificationModel(V, C, **(defaults | {"ngrams": 2, "ngram_weights": 60} | sizes))


def texts_of_two_topics(count: int = 120) -> IdLists:
    """Texts with tokens of one of two groups, so that one part tells much about the other."""
    rng = random.Random(3)
    groups = (range(4, 16), range(16, V))
    texts = [[rng.choice(groups[i % 2]) for _ in range(rng.randint(4, 9))] for i in range(count)]
    return IdLists.of([*texts, [5], []])


def test_two_parts_of_every_text_are_the_text() -> None:
    texts = [list(range(n)) for n in range(2, 12)] * 20
    parts = divided(texts, random.Random(1))
    first, second = parts[: len(texts)], parts[len(texts) :]
    assert [[*a, *b] for a, b in zip(first, second, strict=True)] == texts
    for text, *both in zip(texts, first, second, strict=True):
        assert min(map(len, both)) >= max(1, len(text) // 3)
    assert len({len(part) for part, text in zip(first, texts, strict=True) if len(text) == 11}) > 2


def test_with_all_tokens_as_candidates_the_loss_is_that_of_a_softmax_over_the_vocabulary() -> None:
    """So much noise that every token is a candidate almost surely: the correction vanishes."""
    torch.manual_seed(2)
    heads = PretrainingHeads(D, torch.rand(V))
    embeddings, states = torch.randn(V, D), torch.randn(5, D)
    torch.nn.init.normal_(heads.bias)
    targets = torch.tensor([7, 4, 7, 29, 11])
    noise = torch.arange(V).repeat(100)
    found = heads.masked_token_loss(states, targets, embeddings, noise)
    scores = F.gelu(heads.hidden(states)) @ embeddings.t() + heads.bias
    torch.testing.assert_close(found, F.cross_entropy(scores, targets))


def test_a_candidate_that_is_rarely_drawn_counts_for_many() -> None:
    """With uniform scores, a rare candidate stands for 1 / P(it is a candidate) tokens."""
    heads = PretrainingHeads(D, torch.zeros(V))
    noise, targets = torch.tensor([9]), torch.tensor([5])
    found = heads.masked_token_loss(torch.zeros(1, D), targets, torch.zeros(V, D), noise)
    # exp(-1 / V) (1 - 1 / V): neither the one target nor the one noise token. It is the same for
    # both candidates here, so each has the probability 1/2.
    assert found.item() == pytest.approx(0.6931472)
    heads.frequencies[5], heads.frequencies[9] = 0.5, 0.01
    is_candidate = [1 - torch.e ** (-f) * (1 - 1 / V) for f in (0.5, 0.01)]
    share = (1 / is_candidate[0]) / sum(1 / p for p in is_candidate)
    found = heads.masked_token_loss(torch.zeros(1, D), targets, torch.zeros(V, D), noise)
    assert found.item() == pytest.approx(-torch.tensor(share).log().item(), rel=1e-4)


def test_the_parts_of_one_text_are_the_right_pairs() -> None:
    heads = PretrainingHeads(D, torch.ones(V))
    with torch.no_grad():
        heads.projection.weight.copy_(torch.eye(D))
        heads.projection.bias.zero_()
    right = heads.similarity_loss(torch.eye(D)[[0, 1, 2, 0, 1, 2]])
    wrong = heads.similarity_loss(torch.eye(D)[[0, 1, 2, 1, 2, 0]])
    assert right.item() < 1e-5
    assert wrong.item() == pytest.approx(1 / 0.07, rel=1e-3)


def test_both_losses_fall_and_only_the_encoder_changes() -> None:
    config = TrainConfig(batch_tokens=120, learning_rate=1e-2, warmup_steps=5, seed=1)
    model, untrained = (new_model(dropout=0.0) for _ in range(2))
    texts = texts_of_two_topics()
    pretrain(model, texts, config, epochs=15)
    changed = {
        name
        for name, weight in model.named_parameters()
        if not weight.equal(untrained.get_parameter(name))
    }
    assert {"embedding.embedding.weight", "encoder.layers.0.linear1.weight"} <= changed
    assert not any(name.startswith(("classifier.", "ngrams.")) for name in changed)
    with torch.no_grad():
        of_topic = torch.tensor([[4, 17], [8, 20], [11, 25], [15, 29]])
        pooled = F.normalize(model.eval().pooled(of_topic), dim=1)
        same = F.normalize(model.pooled(torch.tensor([[5, 18], [9, 21], [12, 26]])), dim=1)
        similarity = pooled @ same.t()
    assert similarity.diagonal().min() > similarity.fliplr().diagonal().max()


def test_losses_of_a_batch_without_masked_tokens_are_finite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.classification.pretraining._MASKED", 0.0)
    losses = pretraining_losses(
        new_model(), PretrainingHeads(D, torch.ones(V)), torch.tensor([[4, 5]])
    )
    assert losses.tolist() == [0.0, 0.0]  # one text: there is nothing to choose from
    losses.sum().backward()
