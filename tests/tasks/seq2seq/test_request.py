"""The types of the options of a search, as callers in Python hand them in."""

from typing import Any

import numpy as np
import pytest
import torch

from core.decoding.config import GenerationConfig
from core.errors import ConfigError
from tasks.couplet.request import CoupletRequest
from tasks.seq2seq.request import MAX_TEXTS, GenerationRequest, batch_tokens_on


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("beam_size", "5", "a whole number, not '5'"),
        ("beam_size", 2.5, r"a whole number, not 2\.5"),
        ("beam_size", True, "a whole number, not True"),
        ("seed", 1.5, r"a whole number, not 1\.5"),
        ("length_penalty", "1", "a number, not '1'"),
        ("sample", "no", "true or false, not 'no'"),
        ("pass_through", "no", "true or false, not 'no'"),
        ("candidates", 1.5, r"a whole number, not 1\.5"),
        ("batch_tokens", "3000", "a whole number, not '3000'"),
        ("numbers", ["a"], "a whole number, not 'a'"),
        ("numbers", [0, 0.5], r"a whole number, not 0\.5"),
        ("numbers", [-1], "at least 0, not -1"),
        ("numbers", [MAX_TEXTS], "at most 4,294,967,295, not 4294967296"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(name: str, value: Any, reason: str) -> None:
    """``sample="no"`` drew at random, ``seed=1.5`` failed inside PyTorch, others in a search."""
    with pytest.raises(ConfigError, match=rf"^{name}(\[[01]\])? must be {reason}"):
        GenerationRequest.of(**{name: value})
    with pytest.raises(ConfigError, match=rf"^{name}(\[[01]\])? must be {reason}"):
        CoupletRequest(**{name: value})


@pytest.mark.parametrize(
    "name",
    ["length_penalty", "diversity", "temperature", "top_p", "max_length_ratio", "min_length_ratio"],
)
def test_nan_is_refused_with_the_range_of_its_option(name: str) -> None:
    request = GenerationRequest.of(**{name: float("nan")})
    with pytest.raises(ConfigError, match=rf"{name} must be .*, not nan"):
        request.resolve(GenerationConfig())


def test_numbers_of_numpy_are_numbers() -> None:
    request = GenerationRequest(beam_size=np.int64(3), length_penalty=np.float32(0.5))  # type: ignore[arg-type]
    assert request == GenerationRequest(beam_size=3, length_penalty=0.5)
    assert type(request.beam_size) is int
    assert type(request.length_penalty) is float
    assert GenerationRequest(length_penalty=1) == GenerationRequest(length_penalty=1.0)
    assert len(GenerationRequest(numbers=np.arange(3)).numbers) == 3  # type: ignore[arg-type]


def test_a_gpu_searches_larger_batches_unless_their_size_is_given() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda:1")
    assert (batch_tokens_on(cpu), batch_tokens_on(gpu)) == (3_000, 24_000)
    assert batch_tokens_on(gpu, 500) == batch_tokens_on(cpu, 500) == 500
    assert [batch_tokens_on(each, None, "ctranslate2") for each in (cpu, gpu)] == [1_500, 24_000]


def test_a_string_is_one_word_to_avoid() -> None:
    """``avoid="春雨"`` forbade two characters."""
    assert CoupletRequest(avoid="春雨") == CoupletRequest(avoid=["春雨"])
    for wrong in (3, [3], b"x"):
        with pytest.raises(TypeError, match="word"):
            CoupletRequest(avoid=wrong)  # type: ignore[arg-type]
