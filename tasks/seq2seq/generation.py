"""From source ids to output ids, many sentences at a time: what both seq2seq predictors share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor

from transformer_suite.core.decoding.beam_search import beam_search
from transformer_suite.core.decoding.config import GenerationConfig
from transformer_suite.core.decoding.constraints import (
    ForcedPrefix,
    MinimumLength,
    NoRepeatNgram,
    all_of,
)
from transformer_suite.core.decoding.diverse_beam_search import diverse_beam_search
from transformer_suite.core.decoding.greedy_search import greedy_search
from transformer_suite.core.decoding.sampling import sample_search
from transformer_suite.core.decoding.search import Constraint, Hypothesis
from transformer_suite.core.errors import ConfigError
from transformer_suite.core.inference.incremental_model import StepModel
from transformer_suite.core.inference.out_of_memory import out_of_memory_is_user_error
from transformer_suite.core.parallel import at_most, map_on_cores
from transformer_suite.data.batching import bucket_by_length
from transformer_suite.tasks.seq2seq.n_best import Output, best_combinations, combinations_by_rank
from transformer_suite.tasks.seq2seq.pairs import source_tensor

# Enough rows to keep matrix products busy, few enough to stay in the processor's cache.
DEFAULT_BATCH_TOKENS = 3000

GREEDY: dict[str, Any] = {"beam_size": 1, "n_best": 1, "diversity": 0.0, "sample": False}
"""Options that make a greedy search of any configuration."""

# For so few, splitting an operation takes longer than the operation, but for the reading of
# weights, which two cores do faster than one.
_FEW_ROWS = 16
_FEW_THREADS = 2

# One number for a draw of chance: that of the text, of its piece, and of the draw, side by side.
_PIECE_BIT, _DRAW_BIT = 32, 48


@dataclass(frozen=True)
class _Piece:
    """A part of a text: its ids, the text's number, how its output begins, what it draws by."""

    ids: Sequence[int]
    number: int
    prefix: tuple[int, ...]
    chance: int


def generate_texts(
    model: StepModel,
    texts: Sequence[Sequence[Sequence[int]]],
    config: GenerationConfig,
    *,
    device: torch.device,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    max_lengths: Sequence[int] | None = None,
    form: Callable[[Sequence[int]], Constraint] | None = None,
    prefix: Sequence[int] = (),
    constraint: Constraint | None = None,
    numbers: Sequence[int] | None = None,
    on_batch: Callable[[int], None] = lambda pieces: None,
    **options: Any,
) -> list[list[Output]]:
    """The outputs of every text, the best first (or as they were drawn), in the texts' order.

    There are ``n_best`` of each, fewer where no more were found, and one for a text without pieces.
    The outputs of a text of several pieces are the best combinations of its pieces' outputs; where
    these were drawn, or found to be diverse, they are combined by rank.

    Args:
        model: made with 8-bit weights if ``int8`` is among the options.
        texts: each a list of pieces, which are source ids.
        batch_tokens: the most source tokens that are worked on at a time.
        max_lengths: the most tokens of each piece's output, all texts' pieces in a row; without
            it ``config`` decides.
        form: from the numbers of a batch's pieces to the form that their outputs must keep.
        prefix: what the output of every text begins with.
        constraint: the user's own rules, see :mod:`core.decoding.search`: from the tokens so
            far ``[t, R]``, without ``<bos>``, and the number of the text that each row belongs to
            ``[R]`` to a boolean ``[R, V]``, True where the next token is forbidden. All pieces of a
            text have its number, and each begins anew at t = 0.
        numbers: what the texts are called, for ``constraint`` and for chance: equal numbers draw
            equal chances. Without it they are counted from 0.
        on_batch: told how many pieces have just been finished.
        options: replace those of ``config``.

    Raises:
        ConfigError: options that cannot be used; a ``constraint`` that returns something else than
            a boolean ``[R, V]``; a ``prefix`` that is too long, or that other rules forbid.
    """
    search_options = config.replaced(**options)
    numbers = range(len(texts)) if numbers is None else numbers
    pieces = [
        _Piece(ids, number, () if place else tuple(prefix), number + (place << _PIECE_BIT))
        for number, text in zip(numbers, texts, strict=True)
        for place, ids in enumerate(text)
    ]
    if max_lengths is None:
        _check_length(prefix, search_options, model)
        max_lengths = [
            max(search_options.longest_output(len(p.ids)), len(p.prefix)) for p in pieces
        ]

    def make_rules(indices: Sequence[int]) -> list[Constraint]:
        of_pieces = _rules([pieces[i] for i in indices], constraint, model, device)
        return of_pieces if form is None else [form(indices), *of_pieces]

    found = generate(
        model,
        [piece.ids for piece in pieces],
        search_options,
        device=device,
        batch_tokens=batch_tokens,
        max_lengths=max_lengths,
        make_rules=make_rules,
        chances=[piece.chance for piece in pieces],
        # A user's own function need not bear being called by several threads.
        max_workers=None if constraint is None else 1,
        on_batch=on_batch,
    )
    for piece, hypotheses in zip(pieces, found, strict=True):
        if tuple(hypotheses[0].tokens[: len(piece.prefix)]) != piece.prefix:
            raise ConfigError("the prefix is forbidden by the other rules that outputs must keep")
    is_ranked = search_options.sample or search_options.diversity > 0.0
    combine = combinations_by_rank if is_ranked else best_combinations
    rest = iter(found)
    return [combine(list(islice(rest, len(text))), search_options.n_best) for text in texts]


def generate(
    model: StepModel,
    sources: Sequence[Sequence[int]],
    options: GenerationConfig,
    *,
    device: torch.device,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    max_lengths: Sequence[int] | None = None,
    make_rules: Callable[[Sequence[int]], list[Constraint]] = lambda numbers: [],
    chances: Sequence[int] | None = None,
    max_workers: int | None = None,
    on_batch: Callable[[int], None] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every source, in the order of the sources.

    There are ``options.n_best`` of each or fewer (as many as the beam is wide, where it is to be
    diverse), the best first, or as they were drawn: then the first of them do not depend on how
    many there are.

    Args:
        max_lengths: the most tokens of each output; without it ``options`` decides.
        make_rules: from the numbers of a batch's sources to the rules that their outputs must
            keep, besides those in ``options``.
        chances: a number of each source for drawing; without it they are counted from 0.
        max_workers: the most batches that are searched side by side on a CPU; as many as torch may
            use threads if nothing is said.
        on_batch: told how many sentences have just been finished.
    """
    if max_lengths is None:
        max_lengths = [options.longest_output(len(source)) for source in sources]
    chances = range(len(sources)) if chances is None else chances
    copies = options.n_best if options.sample else 1
    # The last position that the model knows is taken by the token that predicts <eos>.
    limit = model.max_len - 1
    lengths = [(len(source) + 1,) for source in sources]

    def search_batch(batch: Sequence[int]) -> list[list[Hypothesis]]:
        indices = [i for i in batch for _ in range(copies)]
        drawn = [chances[i] + (draw << _DRAW_BIT) for i in batch for draw in range(copies)]
        source_lengths = [len(sources[i]) for i in indices]
        rules = [*make_rules(indices), *_rules_of_options(options, source_lengths, model, device)]
        found = search(
            model,
            source_tensor([sources[i] for i in indices]).to(device),
            options,
            torch.tensor([min(max_lengths[i], limit) for i in indices], device=device),
            all_of(*rules) if rules else None,
            torch.tensor(drawn, device=device),
        )
        return [list(chain(*found[k : k + copies])) for k in range(0, len(found), copies)]

    # The longest first, so that the last ones to be worked on are soon done.
    buckets = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None)[::-1]
    most = options.most_sentences()
    batches = [b[i : i + most] for b in buckets for i in range(0, len(b), most)]
    workers = max_workers if device.type == "cpu" else 1
    results: list[list[Hypothesis]] = [[] for _ in sources]
    is_small = len(sources) * copies * options.beam_size <= _FEW_ROWS
    with at_most(_FEW_THREADS) if is_small else nullcontext():
        found = map_on_cores(search_batch, batches, workers=workers)
        for batch, of_batch in zip(batches, found, strict=True):
            for index, hypotheses in zip(batch, of_batch, strict=True):
                results[index] = hypotheses
            on_batch(len(batch))
    return results


def search(
    model: StepModel,
    src: Tensor,
    options: GenerationConfig,
    max_lengths: Tensor,
    constraint: Constraint | None,
    chances: Tensor,
) -> list[list[Hypothesis]]:
    """The search that ``options`` names, for one batch ``src`` ``[S, B]``.

    ``max_lengths`` and ``chances``, what sentences draw by, are ``[B]``.
    """
    rules: dict[str, Any] = {
        "max_lengths": max_lengths,
        "special": model.special,
        "constraint": constraint,
    }
    advice = "use a smaller generation.beam_size, generation.n_best or batch"
    with torch.inference_mode(), out_of_memory_is_user_error(advice):
        state = model.start(src)
        if options.sample:
            drawn = sample_search(
                model.step,
                state,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                seed=options.seed,
                sentence_numbers=chances,
                **rules,
            )
            return [[hypothesis] for hypothesis in drawn]
        if options.beam_size == 1:
            return [[found] for found in greedy_search(model.step, state, **rules)]
        rules |= {"beam_size": options.beam_size, "length_penalty": options.length_penalty}
        if options.diversity:
            groups, diversity = options.beam_size, options.diversity
            return diverse_beam_search(
                model.step, state, groups=groups, diversity=diversity, **rules
            )
        return beam_search(model.step, state, n_best=options.n_best, **rules)


def _check_length(prefix: Sequence[int], options: GenerationConfig, model: StepModel) -> None:
    limits = [model.max_len - 1, options.max_length or model.max_len]
    if len(prefix) > min(limits):
        raise ConfigError(
            f"the prefix has {len(prefix)} tokens, and an output may have {min(limits)}"
        )


def _rules(
    pieces: Sequence[_Piece], constraint: Constraint | None, model: StepModel, device: torch.device
) -> list[Constraint]:
    """What the outputs of a batch of ``pieces`` must keep, their form aside."""
    words = model.vocab_size
    rules: list[Constraint] = []
    prefixes = [piece.prefix for piece in pieces]
    if any(prefixes):
        rules.append(ForcedPrefix(prefixes, vocab_size=words, special=model.special, device=device))
    if constraint is not None:
        numbers = torch.tensor([piece.number for piece in pieces], device=device)
        rules.append(_checked(constraint, numbers, words))
    return rules


def _rules_of_options(
    options: GenerationConfig, source_lengths: Sequence[int], model: StepModel, device: torch.device
) -> list[Constraint]:
    """The rules that ``options`` asks for, for a batch of sources of these lengths."""
    words = model.vocab_size
    rules: list[Constraint] = []
    if options.min_length_ratio:
        shortest = torch.tensor([options.shortest_output(n) for n in source_lengths], device=device)
        rules.append(MinimumLength(shortest, vocab_size=words, special=model.special))
    if options.no_repeat_ngram:
        rules.append(NoRepeatNgram(options.no_repeat_ngram, vocab_size=words))
    return rules


def _checked(constraint: Constraint, numbers: Tensor, words: int) -> Constraint:
    """``constraint``, told ``numbers`` ``[B]`` for sentences, and held to its contract."""

    def forbidden(outputs: Tensor, sentences: Tensor) -> Tensor:
        found: object = constraint(outputs, numbers[sentences])
        what = type(found).__name__
        if isinstance(found, Tensor):
            if found.dtype == torch.bool and found.shape == (len(sentences), words):
                return found.to(outputs.device)
            what = f"{list(found.shape)} of {found.dtype}"
        raise ConfigError(
            "the constraint must return a tensor [rows, words] = "
            f"[{len(sentences)}, {words}] of torch.bool, not {what}"
        )

    return forbidden
