"""The weights of a model for another vocabulary."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from data.codec import TextCodec
from data.tokenizers import WORD_START
from data.vocabulary import UNK_ID

TokenWeights = Mapping[str, tuple[TextCodec, TextCodec]]
"""For each weight with one row per token: the codec of the initial model, and the new one."""


def with_new_vocabulary(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], tokens: TokenWeights
) -> dict[str, Tensor]:
    """Returns the ``weights`` of an initial model, changed for other vocabularies.

    A token that both vocabularies have keeps its row. Another one gets the mean of the rows of the
    old tokens that form it. If there are none, the row stays as in ``fresh``, the weights of a new
    model. Of tied weights, ``weights`` has only one; other names in ``tokens`` are ignored.
    """
    changed = dict(weights)
    for name in weights.keys() & tokens.keys():
        old, new = tokens[name]
        rows = fresh[name].clone()
        for row, token in enumerate(new.vocabulary.itos):
            if ids := _old_tokens(token, old):
                rows[row] = weights[name][ids].to(rows).mean(0)
        changed[name] = rows
    return changed


def _old_tokens(token: str, old: TextCodec) -> list[int]:
    """Returns the ids of the old tokens that form ``token``, or none."""
    known = old.vocabulary.stoi
    if token in known:
        return [known[token]]
    text = old.tokenizer.detokenize([token])
    tokens = old.tokenizer.tokenize(text) if text else []
    if tokens and tokens[0].startswith(WORD_START) and not token.startswith(WORD_START):
        # Tokenized by itself, the token begins a word; as a token it continues one.
        inside = tokens[0].removeprefix(WORD_START)
        if not inside:
            del tokens[0]
        elif inside in known:
            tokens[0] = inside
    ids = old.vocabulary.encode(tokens)
    return [] if UNK_ID in ids else ids
