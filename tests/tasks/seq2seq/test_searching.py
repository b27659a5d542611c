"""Every search of the core, for texts of several segments, compared with the core itself."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from core.decoding.beam_search import beam_search
from core.decoding.config import GenerationConfig
from core.decoding.diverse_beam_search import diverse_beam_search
from core.decoding.sampling import sample_search
from core.decoding.search import Hypothesis
from core.errors import ConfigError
from core.model.sequence_to_sequence import SequenceToSequence
from tasks.seq2seq.batches import source_tensor
from tasks.seq2seq.n_best import Output
from tasks.seq2seq.request import GREEDY
from tests.core.decoding.search_tables import forbidding
from tests.tasks.searching import search, search_texts, step_model
from tests.tasks.tiny_models import network

WORDS = 20
EOS = 3
# Texts of one segment, of none, of several.
TEXTS = [[[4, 5, 6]], [], [[7, 8], [9, 10, 11, 12], [5]], [[6, 6, 6, 6, 6]], [[7, 8], [7, 8]]]
LENGTHS: dict[str, Any] = {"max_length_ratio": 1.0, "max_length_extra": 3}
CONFIG = GenerationConfig(beam_size=4, **LENGTHS)
GREEDY_OPTIONS = GREEDY.search_options()
SAMPLING = CONFIG.replaced(sample=True, seed=7, temperature=3.0)


def searched(config: GenerationConfig, texts: Any = TEXTS, **options: Any) -> list[list[Output]]:
    return search_texts(network(WORDS), texts, config, **options)


def tokens(found: Sequence[Sequence[Output]]) -> list[list[list[int]]]:
    return [[output.tokens for output in outputs] for outputs in found]


def pairs(hypotheses: Sequence[Hypothesis]) -> list[tuple[list[int], float]]:
    return [(one.tokens, pytest.approx(one.score, rel=1e-4)) for one in hypotheses]


def restless() -> SequenceToSequence:
    """A network whose outputs never end by themselves."""
    model = network(WORDS)
    with torch.no_grad():
        model.generator.bias[EOS] = -100.0
    return model


# The searches


@pytest.mark.parametrize("config", [CONFIG, CONFIG.replaced(diversity=1.0), SAMPLING, GREEDY])
def test_every_search_asks_before_each_step_whether_to_go_on(config: Any) -> None:
    """The service stops the work of clients that have left in this way."""
    config = CONFIG.replaced(**GREEDY_OPTIONS) if config is GREEDY else config
    steps = 0

    def stop_at_the_third() -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise KeyboardInterrupt("stop")

    with pytest.raises(KeyboardInterrupt, match="stop"):
        search_texts(restless(), [[[4] * 50]], config, on_step=stop_at_the_third)
    assert steps == 3


def test_beams_are_the_cores() -> None:
    model, source = network(WORDS), [4, 5, 6]
    limits = torch.tensor([6])
    packed = step_model(model)
    with torch.inference_mode():
        common: Any = {"beam_size": 4, "max_lengths": limits, "length_penalty": 0.5}
        plain = beam_search(packed.step, packed.start(source_tensor([source])), **common)
        diverse = diverse_beam_search(
            packed.step, packed.start(source_tensor([source])), diversity=2.0, **common
        )
    config = CONFIG.replaced(length_penalty=0.5)
    for n_best in (1, 4):
        (found,) = search(model, [source], config.replaced(n_best=n_best))
        assert pairs(found) == pairs(plain[0][:n_best])
    assert len(plain[0]) == 4
    (found,) = search(model, [source], config.replaced(diversity=2.0, n_best=4))
    assert pairs(found) == pairs(diverse[0])
    assert pairs(plain[0]) != pairs(diverse[0])


def test_draws_are_the_cores() -> None:
    model, options = network(WORDS), {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "seed": 8}
    packed, sources = step_model(model), [[4, 5, 6], [7, 8, 9]]
    with torch.inference_mode():
        (first,), (second,) = (
            sample_search(
                packed.step,
                packed.start(source_tensor([source])),
                max_lengths=torch.tensor([6]),
                sentence_numbers=torch.tensor([number]),
                **options,  # type: ignore[arg-type]
            )
            for source, number in zip(sources, (40, 50), strict=True)
        )
    found = search(model, sources, SAMPLING.replaced(**options), numbers=[40, 50])
    assert [pairs(one) for one in found] == [pairs([first]), pairs([second])]


def test_greedy_options_make_a_greedy_search_of_any_configuration() -> None:
    expected = tokens(searched(GenerationConfig(beam_size=1, **LENGTHS)))
    for config in (CONFIG.replaced(n_best=3, diversity=0.5), SAMPLING.replaced(n_best=3)):
        assert tokens(searched(config, **GREEDY_OPTIONS)) == expected


# How many


@pytest.mark.parametrize("diversity", [0.0, 2.0])
def test_the_first_of_the_best_is_the_only_one_without_them(diversity: float) -> None:
    alone = searched(CONFIG, diversity=diversity)
    several = searched(CONFIG, diversity=diversity, n_best=4)
    assert tokens([outputs[:1] for outputs in several]) == tokens(alone)
    assert [len(outputs) for outputs in alone] == [1] * 5
    # Two groups of a diverse search may find the same.
    assert diversity or [len(outputs) for outputs in several] == [4, 1, 4, 4, 4]
    assert max(len(outputs) for outputs in several) == 4
    for outputs in several:
        assert [o.score for o in outputs] == sorted((o.score for o in outputs), reverse=True)
        assert len({tuple(o.tokens) for o in outputs}) == len(outputs)


def test_more_draws_leave_those_before_them_as_they_are() -> None:
    alone, several = searched(SAMPLING), searched(SAMPLING, n_best=6)
    assert [len(outputs) for outputs in several] == [6, 1, 6, 6, 6]
    assert tokens([outputs[:1] for outputs in several]) == tokens(alone)
    assert len({tuple(o.tokens) for o in several[0]}) > 3


# Sampling


def test_a_draw_depends_on_the_texts_number_and_on_nothing_else() -> None:
    together = searched(SAMPLING, numbers=[3, 4, 5, 6, 7])
    for batch_tokens in (1, 12):
        apart = searched(SAMPLING, numbers=[3, 4, 5, 6, 7], batch_tokens=batch_tokens)
        assert tokens(apart) == tokens(together)
    for text, number, expected in zip(TEXTS, (3, 4, 5, 6, 7), together, strict=True):
        assert tokens(searched(SAMPLING, [text], numbers=[number])) == tokens([expected])
    back = searched(SAMPLING, TEXTS[::-1], numbers=[7, 6, 5, 4, 3])
    assert tokens(back) == tokens(together[::-1])
    assert tokens(searched(SAMPLING, numbers=range(5))) == tokens(searched(SAMPLING))
    assert tokens(searched(SAMPLING, numbers=range(5))) != tokens(together)


def test_equal_segments_and_equal_texts_are_sampled_independently() -> None:
    texts = [[[7, 8]] * 3] * 3
    found = searched(SAMPLING, texts, max_lengths=[5] * 9)
    drawn = {tuple(h.tokens) for (output,) in found for h in output.hypotheses}
    assert len(drawn) > 6


def test_another_seed_draws_other_outputs() -> None:
    assert tokens(searched(SAMPLING)) == tokens(searched(SAMPLING))
    assert tokens(searched(SAMPLING)) != tokens(searched(SAMPLING, seed=8))
    assert tokens(searched(SAMPLING, top_k=1)) == tokens(searched(CONFIG, **GREEDY_OPTIONS))


# Lengths and repetition


def test_an_output_has_no_more_and_no_fewer_tokens_than_it_may() -> None:
    model, sources = restless(), [[4] * n for n in (1, 2, 7)]

    def lengths(**options: Any) -> list[int]:
        found = search(model, sources, CONFIG.replaced(**options))
        return [len(hypotheses[0].tokens) for hypotheses in found]

    assert lengths() == [4, 5, 10]
    assert lengths(max_length=5) == [4, 5, 5]
    with torch.no_grad():
        model.generator.bias[EOS] = 100.0
    assert lengths() == [0, 0, 0]
    assert lengths(min_length_ratio=1.0) == [1, 2, 7]
    assert lengths(min_length_ratio=0.5, beam_size=1) == [0, 1, 3]
    assert lengths(min_length_ratio=1.0, max_length=3) == [1, 2, 3]
    assert lengths(min_length_ratio=1.0, beam_size=4, diversity=0.5) == [1, 2, 7]
    assert lengths(min_length_ratio=1.0, sample=True) == [1, 2, 7]


@pytest.mark.parametrize("size", [1, 2])
def test_no_ngram_comes_twice(size: int) -> None:
    def ngrams(output: list[int]) -> list[tuple[int, ...]]:
        return [tuple(output[i : i + size]) for i in range(len(output) - size + 1)]

    model, options = restless(), CONFIG.replaced(max_length_extra=12)
    (free,) = search(model, [[4, 5]], options)
    (kept,) = search(model, [[4, 5]], options.replaced(no_repeat_ngram=size))
    assert len(set(ngrams(free[0].tokens))) < len(ngrams(free[0].tokens))
    for hypothesis in kept:
        assert len(set(ngrams(hypothesis.tokens))) == len(ngrams(hypothesis.tokens))


# Prefixes


@pytest.mark.parametrize("config", [CONFIG, CONFIG.replaced(beam_size=1), SAMPLING])
def test_the_first_segment_of_every_text_begins_with_the_prefix(config: GenerationConfig) -> None:
    found = searched(config, prefix=[13, 14])
    free = searched(config)
    for (output,), (without,), text in zip(found, free, TEXTS, strict=True):
        if not text:
            assert output.tokens == []
            continue
        first, *rest = output.hypotheses
        assert first.tokens[:2] == [13, 14]
        assert [h.tokens for h in rest] == [h.tokens for h in without.hypotheses[1:]]


def test_a_prefix_comes_whole_however_short_the_source() -> None:
    long = [13, 14] * 8
    (outputs,) = searched(CONFIG, [[[4]]], prefix=long)
    assert outputs[0].tokens[:16] == long


def test_a_prefix_that_is_too_long_is_refused() -> None:
    with pytest.raises(ConfigError, match="prefix has 3 tokens, and an output may have 2"):
        searched(CONFIG, prefix=[13, 14, 15], max_length=2)
    model = network(WORDS, max_len=4)
    search_texts(model, [[[4]]], CONFIG, prefix=[13] * 3)
    with pytest.raises(ConfigError, match="prefix has 4 tokens, and an output may have 3"):
        search_texts(model, [[[4]]], CONFIG, prefix=[13] * 4)


@pytest.mark.parametrize("config", [CONFIG, CONFIG.replaced(beam_size=1), SAMPLING])
def test_a_prefix_that_other_rules_forbid_is_refused(config: GenerationConfig) -> None:
    """Together they would leave an output that ends before it has begun."""
    with pytest.raises(ConfigError, match="prefix is forbidden by the other rules"):
        searched(config, prefix=[13, 13], no_repeat_ngram=1)
    forbidden = forbidding(13, vocab_size=WORDS)
    with pytest.raises(ConfigError, match="prefix is forbidden by the other rules"):
        searched(config, prefix=[13], constraint=forbidden)


# The user's own rules


@pytest.mark.parametrize("config", [CONFIG, SAMPLING, CONFIG.replaced(diversity=0.5)])
@pytest.mark.parametrize("batch_tokens", [1, 3000])
def test_a_constraint_sees_the_texts_own_numbers(
    config: GenerationConfig, batch_tokens: int
) -> None:
    """Here a text numbered n may only be answered by the word n - 100."""
    seen: set[int] = set()

    def only_own(outputs: Tensor, numbers: Tensor) -> Tensor:
        assert outputs.dim() == 2 and outputs.shape[1] == len(numbers)
        seen.update(numbers.tolist())
        forbidden = torch.ones(len(numbers), WORDS, dtype=torch.bool)
        return forbidden.scatter_(1, (numbers - 100).unsqueeze(1), False)

    numbers = [104, 110, 106, 119, 107]
    found = searched(
        config, constraint=only_own, numbers=numbers, n_best=2, batch_tokens=batch_tokens
    )
    assert seen == {104, 106, 119, 107}
    for outputs, number in zip(found, numbers, strict=True):
        assert {token for output in outputs for token in output.tokens} <= {number - 100}
        assert outputs[0].tokens or number == 110


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (torch.zeros(1, WORDS), r"\[1, 20\] of torch.float32"),
        (torch.zeros(WORDS, dtype=torch.bool), r"\[20\] of torch.bool"),
        (torch.zeros(1, WORDS - 1, dtype=torch.bool), r"\[1, 19\] of torch.bool"),
        (torch.zeros(2, WORDS, dtype=torch.bool), r"\[2, 20\] of torch.bool"),
        ([[False] * WORDS], "list"),
        (None, "NoneType"),
    ],
)
def test_a_constraint_that_returns_something_else_is_an_error(returned: Any, what: str) -> None:
    expected = rf"must return a tensor \[rows, words\] = \[1, 20\] of torch.bool, not {what}"
    with pytest.raises(ConfigError, match=expected):
        searched(CONFIG, [[[4, 5]]], beam_size=1, constraint=lambda outputs, numbers: returned)


# Ensembles


@pytest.mark.parametrize("config", [CONFIG, CONFIG.replaced(diversity=0.5), SAMPLING])
def test_a_model_twice_is_the_model(config: GenerationConfig) -> None:
    model = network(WORDS)
    options: Any = {"n_best": 3, "prefix": [13], "no_repeat_ngram": 2, "min_length_ratio": 0.5}
    # The outputs of two equal segments are as good in either order: noise alone would rank them.
    texts = [*TEXTS[:-1], [[7, 8], [8, 7]]]
    one = search_texts(model, texts, config, **options)
    two = search_texts(step_model(model, model), texts, config, **options)
    assert tokens(one) == tokens(two)
