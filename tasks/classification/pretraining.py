"""Self-pretraining: the encoder learns from the training texts without their labels.

Each text is divided into two parts at a random place, and some of their tokens are masked. The
encoder learns two tasks at once:

- to predict the masked tokens, as BERT does (Devlin et al. 2019, section 3.1);
- to tell which two parts belong to one text: the vector of a part is to be more similar to that of
  the other part of its text than to those of other texts in the batch (SimCLR, Chen et al. 2020,
  section 2.1; Contriever, Izacard et al. 2022, section 3.2, for two parts of one document).

The masked token is ``<unk>``, which also stands for the tokens that ``data.token_dropout`` leaves
out later.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.progress import Progress, log
from core.training.config import TrainConfig
from core.training.optimizer import make_optimizer
from core.training.schedule import cosine
from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.examples import IdLists
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.model import ClassificationModel

_MASKED = 0.3  # of the tokens
_NOISE = 512  # random tokens among the candidates of a prediction
_SIMILARITY_TEMPERATURE = 0.07
_SIMILARITY_WEIGHT = 0.5  # in the loss; that of the masked tokens has the weight 1
_SHORTEST = 2  # tokens of a text that can be divided


class PretrainingHeads(nn.Module):
    """The layers that only pretraining needs. The output layer is the embedding matrix.

    Args:
        width: D.
        frequencies: how often each token occurs in the texts ``[V]``.
    """

    frequencies: Tensor

    def __init__(self, width: int, frequencies: Tensor) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(len(frequencies)))
        self.projection = nn.Linear(width, width)
        self.register_buffer("frequencies", (frequencies + 1.0) / (frequencies + 1.0).sum())

    def masked_token_loss(
        self, states: Tensor, targets: Tensor, embeddings: Tensor, noise: Tensor
    ) -> Tensor:
        """Returns the mean cross-entropy of the masked tokens, in a sampled softmax.

        The candidates of every prediction are the ``targets`` and the ``noise``. The logarithm of
        the probability that a token is a candidate is subtracted from its score, so that the loss
        estimates that of a softmax over all tokens (Jean et al. 2015, section 3.1).

        Args:
            states: of the masked positions ``[N, D]``.
            targets: their tokens ``[N]``.
            embeddings: of all tokens ``[V, D]``.
            noise: tokens drawn uniformly ``[M]``.
        """
        candidates, places = torch.cat([targets, noise]).unique(return_inverse=True)
        is_absent = torch.exp(-self.frequencies[candidates] * len(targets))
        is_absent = is_absent * (1.0 - 1.0 / len(embeddings)) ** len(noise)
        scores = F.gelu(self.hidden(states)) @ embeddings[candidates].t() + self.bias[candidates]
        scores = scores - torch.log1p(-is_absent)
        return F.cross_entropy(scores, places[: len(targets)])

    def similarity_loss(self, pooled: Tensor) -> Tensor:
        """Returns the mean cross-entropy of finding the other part of each text.

        Args:
            pooled: ``[2B, D]``; rows i and B + i are the two parts of one text.
        """
        first, second = F.normalize(self.projection(pooled), dim=1).chunk(2)
        scores = first @ second.t() / _SIMILARITY_TEMPERATURE
        own = torch.arange(len(scores), device=scores.device)
        return 0.5 * (F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own))


def divided(texts: Sequence[Sequence[int]], rng: random.Random) -> list[Sequence[int]]:
    """Returns the first parts of all texts and then their second parts.

    Each part has at least a third of the tokens, rounded down, and at least one.
    """
    places = [
        rng.randint(max(1, len(text) // 3), max(1, len(text) - len(text) // 3 - 1))
        for text in texts
    ]
    pairs = list(zip(texts, places, strict=True))
    return [text[:place] for text, place in pairs] + [text[place:] for text, place in pairs]


def pretrain(
    model: ClassificationModel, texts: IdLists, config: TrainConfig, *, epochs: int
) -> None:
    """Trains the embeddings and the encoder of ``model`` in place; other layers do not change.

    Args:
        texts: the training texts as ids. Those of one token are left out.
        config: the optimizer, the peak of the learning rate, the batches and the seed.
        epochs: the number of passes over the texts.
    """
    texts = texts.select((texts.lengths >= _SHORTEST).nonzero()[0]).cut(model.config.max_len)
    embeddings = model.embedding.weight
    device = embeddings.device
    counts = torch.zeros(len(embeddings))
    for text in texts:
        counts += torch.bincount(torch.tensor(text), minlength=len(embeddings))
    heads = PretrainingHeads(model.config.d_model, counts).to(device)
    layers = (model.embedding, model.positional_encoding, model.encoder, heads)
    trained = [weight for layer in layers for weight in layer.parameters()]
    plans = [
        bucket_by_length(
            [(int(length),) for length in texts.lengths],
            batch_tokens=config.batch_tokens,
            seed=epoch_seed(config.seed, epoch),
        )
        for epoch in range(1, epochs + 1)
    ]
    steps = sum(map(len, plans))
    optimizer = make_optimizer(config, trained)
    rate = cosine(config.learning_rate, config.warmup_steps, max(steps, config.warmup_steps + 1))
    rng = random.Random(config.seed)
    step = 0
    model.train()
    with Progress(steps, "pretraining", unit="batch") as progress:
        for epoch, plan in enumerate(plans, start=1):
            total = torch.zeros(2, device=device)
            for batch in plan:
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = rate(step)
                src = pad_sequence(divided([texts[i] for i in batch], rng)).to(device)
                losses = pretraining_losses(model, heads, src)
                optimizer.zero_grad()
                (losses[0] + _SIMILARITY_WEIGHT * losses[1]).backward()
                nn.utils.clip_grad_norm_(trained, config.clip_norm or float("inf"))
                optimizer.step()
                total += losses.detach()
                progress.advance()
            tokens, parts = (total / max(1, len(plan))).tolist()
            log(f"pretraining {epoch}/{epochs}: loss {tokens:.3f} of tokens, {parts:.3f} of parts")


def pretraining_losses(model: ClassificationModel, heads: PretrainingHeads, src: Tensor) -> Tensor:
    """Returns the losses of the masked tokens and of the parts ``[2]``.

    ``src`` ``[S, 2B]`` has the first parts of B texts and then their second parts.
    """
    is_masked = (torch.rand(src.shape, device=src.device) < _MASKED) & (src != PAD_ID)
    states, is_pad = model.states(src.masked_fill(is_masked, UNK_ID))
    parts = heads.similarity_loss(model.pool(states, is_pad))
    if not is_masked.any():
        return torch.stack([parts.new_zeros(()), parts])
    embeddings = model.embedding.weight
    noise = torch.randint(len(embeddings), (_NOISE,), device=src.device)
    tokens = heads.masked_token_loss(states[is_masked], src[is_masked], embeddings, noise)
    return torch.stack([tokens, parts])
