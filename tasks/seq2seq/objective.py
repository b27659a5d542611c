"""What a model of pairs is trained and validated on: loss and token accuracy."""

from collections.abc import Sequence

import torch
from torch import Tensor

from core.distributed.process_group import ALONE, ProcessGroup
from core.inference.ensemble import mean_log_probs
from core.model.sequence_to_sequence import SequenceToSequence
from core.training.gradient import LossFunction
from core.training.loss import label_smoothed_cross_entropy, linear_cross_entropy
from data.batching import bucket_by_length
from data.examples import Pair
from data.vocabulary import PAD_ID
from tasks.seq2seq.batches import as_tensors

_ROWS = 4096
"""Targets whose logits are computed at once in a validation."""


def pair_loss(model: SequenceToSequence, label_smoothing: float) -> LossFunction:
    """Returns the training loss: label-smoothed cross-entropy of the next target token, summed."""

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        src, tgt = batch
        hidden = model.decode(tgt[:-1], model.encode(src))
        # The places of tokens, not a mask: with one, a GPU's program waits three times for them.
        places = (tgt[1:] != PAD_ID).flatten().nonzero().squeeze(1)
        targets = tgt[1:].flatten().index_select(0, places)
        total = linear_cross_entropy(
            hidden.flatten(0, 1).index_select(0, places),
            model.generator.weight,
            model.generator.bias,
            targets,
            label_smoothing=label_smoothing,
        )
        return total, len(targets)

    return loss


def measure_pairs(
    models: Sequence[SequenceToSequence],
    pairs: Sequence[Pair],
    *,
    batch_tokens: int,
    device: torch.device,
    group: ProcessGroup = ALONE,
) -> dict[str, float]:
    """Returns the mean ``loss`` (nats per token) and the token ``accuracy``, teacher-forced.

    The loss has no label smoothing. ``<eos>`` counts as a token.

    Args:
        models: one, or those of an ensemble; in evaluation mode. No pair is too long for them.
        group: the processes that call this together; each measures every ``size``-th batch.
    """
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    loss = correct = count = 0.0
    with torch.inference_mode():
        batches = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None)
        for indices in group.shard(batches):
            src, tgt = (x.to(device) for x in as_tensors([pairs[i] for i in indices]))
            hidden = [model.decode(tgt[:-1], model.encode(src)).flatten(0, 1) for model in models]
            places = (tgt[1:] != PAD_ID).flatten().nonzero().squeeze(1)
            targets = tgt[1:].flatten()[places]
            # All logits at once would be gigabytes with a GPU's batches.
            for rows, wanted in zip(places.split(_ROWS), targets.split(_ROWS), strict=True):
                found = [m.generator(own[rows]) for m, own in zip(models, hidden, strict=True)]
                logits = found[0] if len(found) == 1 else mean_log_probs(found)
                loss += label_smoothed_cross_entropy(logits, wanted).item()
                correct += int((logits.argmax(dim=-1) == wanted).sum())
            count += len(targets)
    loss, correct, count = group.sum([loss, correct, count])
    return {"loss": loss / count, "accuracy": correct / count}
