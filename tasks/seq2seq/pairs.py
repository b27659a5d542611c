"""Pairs of sequences, source and target: what translation and couplets train and validate on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from transformer_suite.core.errors import CorpusError
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.core.progress import log
from transformer_suite.core.training.loss import label_smoothed_cross_entropy, linear_cross_entropy
from transformer_suite.core.training.microbatches import LossFunction
from transformer_suite.data.batching import bucket_by_length, epoch_seed, pad_sequence
from transformer_suite.data.examples import Examples, Pair
from transformer_suite.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from transformer_suite.tasks.seq2seq.ensembles import mean_logits


class PairData:
    """Length-bucketed batches of encoded pairs, another mixture every epoch.

    Args:
        encode: the encoded pairs of an epoch, which may differ from epoch to epoch (BPE-dropout)
            but not from one call to the next for the same epoch.
        batch_tokens: the most positions that either side of a batch holds.
        seed: decides the order.
    """

    def __init__(
        self, encode: Callable[[int], Iterable[Pair]], *, batch_tokens: int, seed: int
    ) -> None:
        self._encode = encode
        self._batch_tokens = batch_tokens
        self._seed = seed

    def plan(self, epoch: int) -> list[Examples[Pair]]:
        """The batches of ``epoch``, each some of its pairs."""
        pairs = Examples.of_pairs(self._encode(epoch))
        # One more on each side: the source ends in <eos>, the target begins with <bos>.
        lengths = (pairs.lengths + 1).tolist()
        batches = bucket_by_length(
            lengths, batch_tokens=self._batch_tokens, seed=epoch_seed(self._seed, epoch)
        )
        return [pairs.select(batch) for batch in batches]

    def batch(self, item: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """``src`` ``[S, B]``, ``tgt`` ``[T+1, B]``."""
        return as_tensors(item)


def is_short(pair: Pair, max_tokens: int) -> bool:
    """Whether neither side of ``pair`` has more than ``max_tokens`` ids."""
    return max(map(len, pair)) <= max_tokens


def short_pairs(pairs: Iterable[Pair], max_tokens: int, path: Path) -> list[int]:
    """The numbers of the pairs with no side of more than ``max_tokens`` ids; others are counted.

    Args:
        path: where the pairs come from, for messages.

    Raises:
        CorpusError: there is no such pair.
    """
    longest = Examples.of_pairs(pairs).lengths.max(axis=1).tolist()
    short = [i for i, length in enumerate(longest) if length <= max_tokens]
    if not short:
        raise CorpusError(path, f"no pair here has at most {max_tokens} tokens on either side")
    if len(short) < len(longest):
        log(
            f"{path}: {len(longest) - len(short)} of {len(longest)} pairs have more than "
            f"{max_tokens} tokens on a side and are left out"
        )
    return short


def source_tensor(sources: Sequence[Sequence[int]]) -> Tensor:
    """``[S, B]``: every source, ended by ``<eos>``."""
    return pad_sequence([[*source, EOS_ID] for source in sources])


def as_tensors(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """``src`` ``[S, B]`` and ``tgt`` ``[T+1, B]``, the latter from ``<bos>`` to ``<eos>``."""
    targets = pad_sequence([[BOS_ID, *target, EOS_ID] for _, target in pairs])
    return source_tensor([source for source, _ in pairs]), targets


def pair_loss(
    model: SequenceToSequence, label_smoothing: float, r_drop: float = 0.0
) -> LossFunction:
    """The training loss of ``model``: label-smoothed cross-entropy of the next target token.

    With ``r_drop``, that of every pair read twice, and how far the two readings are apart
    (:mod:`core.training.loss`).
    """

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        src, tgt = batch
        if r_drop > 0.0:
            src, tgt = (ids.repeat_interleave(2, dim=1) for ids in (src, tgt))
        hidden = model.decode(tgt[:-1], model.encode(src))
        following = tgt[1:]
        is_word = following != PAD_ID
        words = following[is_word]
        total = linear_cross_entropy(
            hidden[is_word],
            model.generator.weight,
            model.generator.bias,
            words,
            label_smoothing=label_smoothing,
            r_drop=r_drop,
        )
        return total, len(words)

    return loss


def measure_pairs(
    models: Sequence[SequenceToSequence],
    pairs: Sequence[Pair],
    *,
    batch_tokens: int,
    device: torch.device,
) -> dict[str, float]:
    """The mean loss (nats a token, no smoothing) and the token accuracy, the true past given.

    ``<eos>`` counts as a token. The models are in evaluation mode, and can take every pair.
    """
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    loss, right, count = 0.0, 0, 0
    with torch.inference_mode():
        for indices in bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None):
            src, tgt = (x.to(device) for x in as_tensors([pairs[i] for i in indices]))
            logits, following = mean_logits(models, src, tgt[:-1]), tgt[1:]
            loss += label_smoothed_cross_entropy(logits, following, pad_id=PAD_ID).item()
            is_word = following != PAD_ID
            right += int(((logits.argmax(dim=-1) == following) & is_word).sum())
            count += int(is_word.sum())
    return {"loss": loss / count, "accuracy": right / count}
