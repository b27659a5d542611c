"""The configuration of a search: values and combinations that are refused."""

from dataclasses import asdict
from typing import Any

import pytest

from core.config import from_mapping
from core.decoding.config import GenerationConfig
from core.errors import ConfigError

SAMPLING = {"sample": True, "beam_size": 1, "length_penalty": 0.0}


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        GenerationConfig(**options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "wrong", "allowed"),
    [
        ("beam_size", 0, "from 1 to 256"),
        ("beam_size", 20_000, "from 1 to 256"),
        ("n_best", 100_000, "from 1 to 1,000"),
        ("length_penalty", -0.5, "from 0 to 10"),
        ("length_penalty", float("nan"), "from 0 to 10"),
        ("diversity", float("inf"), "from 0 to 1,000"),
        ("temperature", 0.0, "above 0 and at most 1,000"),
        ("temperature", float("nan"), "above 0 and at most 1,000"),
        ("top_k", -1, "from 0 to 2,147,483,647"),
        ("top_p", 0.0, "above 0 and at most 1"),
        ("seed", 1 << 32, "from 0 to 4,294,967,295"),
        ("max_length", 0, "from 1 to 1,000,000"),
        ("max_length_ratio", 1e308, "from 0 to 1,000"),
        ("max_length_extra", 10**12, "from 0 to 1,000,000"),
        ("min_length_ratio", 2.5, "at most the largest ratio (2.0)"),
        ("no_repeat_ngram", -1, "from 0 to 1,000,000"),
    ],
)
def test_values_that_no_search_can_use(name: str, wrong: object, allowed: str) -> None:
    """A beam of 20,000 used all memory and was killed; one of 100,000 ended in a traceback."""
    with pytest.raises(ConfigError) as caught:
        GenerationConfig(**{name: wrong})  # type: ignore[arg-type]
    assert str(caught.value) == f"generation.{name} must be {allowed}, not {wrong!r}"
    assert caught.value.option == f"generation.{name}"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", 0.5, "1.0 without sampling"),
        ("top_k", 5, "0 without sampling"),
        ("top_p", 0.5, "1.0 without sampling"),
        ("seed", 5, "0 without sampling"),
        ("n_best", 6, "at most the width of the beam (5)"),
    ],
)
def test_options_of_sampling_are_refused_for_a_beam(name: str, value: float, allowed: str) -> None:
    assert refusal(**{name: value}) == f"generation.{name} must be {allowed}, not {value!r}"
    assert getattr(GenerationConfig(**SAMPLING, **{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [("beam_size", 2, "1"), ("length_penalty", 0.5, "0.0"), ("diversity", 0.5, "0.0")],
)
def test_options_of_a_beam_are_refused_for_sampling(name: str, value: Any, allowed: str) -> None:
    expected = f"generation.{name} must be {allowed} with sampling, not {value!r}"
    assert refusal(**(SAMPLING | {name: value})) == expected
    assert getattr(GenerationConfig(**{name: value}), name) == value


def test_one_beam_has_no_diversity() -> None:
    message = refusal(beam_size=1, diversity=0.5)
    assert message == "generation.diversity must be 0 with a beam of 1, not 0.5"


def test_replaced_options_are_checked() -> None:
    config = GenerationConfig(length_penalty=1.4)
    assert config.replaced() == config
    assert config.replaced(beam_size=3, n_best=3) == GenerationConfig(
        length_penalty=1.4, beam_size=3, n_best=3
    )
    with pytest.raises(ConfigError, match=r"generation\.n_best"):
        config.replaced(n_best=6)
    with pytest.raises(TypeError, match="beam"):
        config.replaced(beam=6)


def test_changing_sample_resets_the_options_of_the_other_search() -> None:
    beam = GenerationConfig(length_penalty=1.4, diversity=0.5, max_length=7)
    drawn = beam.replaced(sample=True, top_p=0.9, seed=3)
    assert drawn == GenerationConfig(**SAMPLING, top_p=0.9, seed=3, max_length=7)
    assert drawn.replaced(sample=True, temperature=0.5).top_p == 0.9
    assert drawn.replaced(sample=False, beam_size=4) == GenerationConfig(
        beam_size=4, length_penalty=0.0, max_length=7
    )
    for given in ({"beam_size": 5}, {"length_penalty": 1.4}, {"diversity": 0.5}):
        with pytest.raises(ConfigError, match="with sampling"):
            beam.replaced(sample=True, **given)
        with pytest.raises(ConfigError, match="with sampling"):
            drawn.replaced(**given)
    with pytest.raises(ConfigError, match="without sampling"):
        drawn.replaced(sample=False, seed=3)


def test_old_configurations_are_read() -> None:
    """The models that ship were saved when there were only these four options."""
    old = {"beam_size": 5, "length_penalty": 1.4, "max_length_ratio": 2.0, "max_length_extra": 10}
    config = from_mapping(GenerationConfig, old)
    assert config == GenerationConfig(length_penalty=1.4)
    assert from_mapping(GenerationConfig, asdict(config)) == config


def test_the_longest_output() -> None:
    config = GenerationConfig(max_length_ratio=1.5, max_length_extra=3)
    assert [config.longest_output(n) for n in (0, 1, 4)] == [3, 4, 9]
    assert [config.replaced(max_length=5).longest_output(n) for n in (0, 1, 4)] == [3, 4, 5]


def test_the_shortest_output() -> None:
    config = GenerationConfig(min_length_ratio=0.75)
    assert [config.shortest_output(n) for n in (0, 1, 2, 4)] == [0, 0, 1, 3]
    assert GenerationConfig().shortest_output(100) == 0


def test_wide_searches_have_small_batches() -> None:
    """A beam of N rows attends N * N times. Ordinary searches are not limited by this."""
    assert GenerationConfig(beam_size=1).most_sentences() == 4000
    assert GenerationConfig(beam_size=5).most_sentences() == 800
    assert GenerationConfig(beam_size=256).most_sentences() == 3
    assert GenerationConfig(**SAMPLING, n_best=1000).most_sentences() == 4
