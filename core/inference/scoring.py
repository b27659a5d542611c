"""The probability of a given output, teacher-forced, without a search."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from core.errors import UserError
from core.inference.ensemble import mean_log_probs
from core.model.sequence_to_sequence import SequenceToSequence
from core.special_ids import BOS_ID, PAD_ID, UNK_ID

# Logits are computed for this many tokens at a time. All at once, they would take too much memory;
# for a few tokens, the matrix product is several times slower per token.
_ROWS = 256


def score(models: Sequence[SequenceToSequence], src: Tensor, tgt: Tensor) -> Tensor:
    """Returns log p(``tgt`` | ``src``) of each token, ``[T, B]``, 0 at padding; ``src`` ``[S, B]``.

    Several models are an ensemble, whose probabilities are the mean of theirs. As in a search, only
    tokens that can be chosen have a probability. An output that a search has found, with its
    ``<eos>`` if it has one, gets the ``log_prob`` of the search (without further constraints). No
    search chooses ``<unk>``. An ``<unk>`` in ``tgt`` is scored over the words and itself, so an
    unknown word does not make the whole output impossible.

    Args:
        models: at least one, in evaluation mode.
        tgt: the outputs without ``<bos>``. ``<eos>`` is scored where it is present.

    Raises:
        UserError: the models return NaN.
        ValueError: ``<bos>`` in ``tgt``; batches of different sizes; sequences longer than a
            model's positions.
    """
    if (tgt == BOS_ID).any():
        raise ValueError("tgt begins after <bos>: it contains the tokens to score, but no <bos>")
    with torch.inference_mode():
        given = torch.cat([torch.full_like(tgt[:1], BOS_ID), tgt[:-1]])
        positions = max(1, _ROWS // max(1, tgt.shape[1]))
        hidden = (model.decode(given, model.encode(src)).split(positions) for model in models)
        found = []
        for chosen, *states in zip(tgt.split(positions), *hidden, strict=True):
            pairs = zip(models, states, strict=True)
            logits = mean_log_probs([model.generator(own) for model, own in pairs])
            logits[..., [PAD_ID, BOS_ID]] = -math.inf
            logits[..., UNK_ID].masked_fill_(chosen != UNK_ID, -math.inf)
            found.append(logits.log_softmax(dim=2).gather(2, chosen.unsqueeze(2)).squeeze(2))
        tokens = torch.cat(found).masked_fill(tgt == PAD_ID, 0.0)
        if tokens.isnan().any():
            raise UserError("the model returned NaN; its weights are damaged")
    return tokens
