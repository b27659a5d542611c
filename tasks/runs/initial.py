"""Fine-tuning: a run that starts from the weights of an existing model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from core.config import from_mapping, to_mapping
from core.errors import ConfigError
from core.progress import log
from core.storage.checkpoint import WEIGHTS_FILE, copy_into, load_tensors, model_tensors
from data.codec import TextCodec
from data.tokenizers import WORD_START
from data.vocabulary import UNK_ID
from tasks.runs.checkpoint_folder import read_config

C = TypeVar("C")

TokenWeights = Mapping[str, tuple[TextCodec, TextCodec]]
"""For each weight with one row per token: the codec of the initial model, and the new one."""

# Options that may differ from those of the initial model, because they change none of its weights.
# (An alignment adds some, which begin as those of a new model.)
_FREE_MODEL_OPTIONS = ("dropout", "ngram_dropout", "max_len", "aligned")
# The languages and the kind of the vocabulary, which a new vocabulary must have too.
_LANGUAGE_OPTIONS = ("src", "tgt", "share_vocabulary", "tokenizer", "lowercase")
# What decides a vocabulary besides the texts.
_VOCABULARY_OPTIONS = ("vocab_size", "min_freq", "byte_fallback")


def load_initial_weights(
    folder: Path, model: nn.Module, *, except_for: Sequence[str], tokens: TokenWeights
) -> None:
    """Gives a new ``model`` the weights in ``folder``; it keeps its own named in ``except_for``.

    ``tokens`` are the weights that are changed for another vocabulary. Raises a CheckpointError if
    the weights are missing, damaged, or do not fit.
    """
    source = folder / WEIGHTS_FILE
    own = model_tensors(model)
    theirs = _with_new_vocabulary(load_tensors(source), own, tokens)
    copy_into(model, theirs | {name: own[name] for name in except_for}, source)
    log(f"starting from the model in {folder}")


def with_model_of(folder: Path, task: str, config: C, *, new_vocabulary: bool = False) -> C:
    """Returns ``config`` with the model and the vocabulary options of the model in ``folder``.

    With ``new_vocabulary``, the vocabulary's size, and what else can differ, stays as it is.
    """
    ours, theirs = _sections(folder, task, config)
    for section, names in _shared_options(ours, new_vocabulary).items():
        ours[section] |= {name: theirs[section][name] for name in names}
    ours["model"] = theirs["model"]
    return from_mapping(type(config), ours)


def check_alike(folder: Path, task: str, config: Any, *, new_vocabulary: bool = False) -> None:
    """Raises a ConfigError with what differs if a run cannot start from the model in ``folder``."""
    ours, theirs = _sections(folder, task, config)
    different = [
        f"{section}.{name} = {theirs[section][name]}, not {ours[section][name]}"
        for section, names in _shared_options(ours, new_vocabulary).items()
        for name in names
        if ours[section][name] != theirs[section][name]
    ]
    if different:
        raise ConfigError(f"{folder}: cannot start from this model: it has {'; '.join(different)}")


def _sections(
    folder: Path, task: str, config: Any
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Returns the sections of ``config`` and those of the model in ``folder``."""
    return to_mapping(config), to_mapping(read_config(folder, task, type(config)))


def _shared_options(
    sections: Mapping[str, Mapping[str, Any]], new_vocabulary: bool
) -> dict[str, Sequence[str]]:
    """Returns, for each section, the options that the run and its initial model must share."""
    data_options = _LANGUAGE_OPTIONS + (() if new_vocabulary else _VOCABULARY_OPTIONS)
    return {
        "data": [name for name in data_options if name in sections["data"]],
        "model": [name for name in sections["model"] if name not in _FREE_MODEL_OPTIONS],
    }


def _with_new_vocabulary(
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
