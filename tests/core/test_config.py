"""Configurations from plain values, and every value that cannot be one."""

import json
import tomllib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import strategies as st

from core.config import check_choice, from_mapping, nearest, override, to_mapping, without_retired
from core.errors import ConfigError
from core.model.config import EncoderConfig, TransformerConfig
from core.training.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int = 1


@dataclass(frozen=True, kw_only=True)
class Section:
    """One option of every type that configurations use."""

    count: int = 3
    rate: float = 0.5
    is_on: bool = False
    name: str = "plain"
    size: int | None = None
    length: int | str | None = None
    length_text_first: str | int | None = None
    columns: tuple[str, ...] = ("title",)
    sizes: tuple[int, ...] = ()
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True, kw_only=True)
class Config:
    section: Section = field(default_factory=Section)
    train: TrainConfig = field(default_factory=TrainConfig)


def section(**values: Any) -> Section:
    return from_mapping(Config, {"section": values}).section


# From mappings


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", 7, 7),
        ("rate", 2, 2.0),
        ("is_on", True, True),
        ("size", None, None),
        ("length", 5, 5),
        ("length", "same", "same"),
        ("length_text_first", 5, 5),
        ("columns", ["title", "text"], ("title", "text")),
        ("sizes", [1, 2], (1, 2)),
        ("inner", {"depth": 4}, Inner(depth=4)),
    ],
)
def test_values_of_the_right_type(name: str, value: object, expected: object) -> None:
    found = getattr(section(**{name: value}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", 7.0, "section.count must be a whole number, not 7.0"),
        ("count", True, "section.count must be a whole number, not True"),
        ("rate", True, "section.rate must be a number, not True"),
        ("rate", float("nan"), "section.rate must be a number, not nan"),
        ("is_on", 1, "section.is_on must be true or false, not 1"),
        ("name", 3, "section.name must be a text, not 3"),
        ("size", 1.5, "section.size must be a whole number or none, not 1.5"),
        ("length", 1.5, "section.length must be a whole number or none or a text, not 1.5"),
        ("columns", "title", "section.columns must be a list, not 'title'"),
        ("columns", ["a", 3], "section.columns[1] must be a text, not 3"),
        ("inner", 3, "section.inner is a section, not 3"),
        ("inner", {"depth": "x"}, "section.inner.depth must be a whole number, not 'x'"),
    ],
)
def test_values_of_a_wrong_type(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        section(**{name: value})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"sectoin": {}}, "unknown option 'sectoin'; did you mean 'section'?"),
        (
            {"section": {"cuont": 1}},
            "unknown option 'section.cuont'; did you mean 'section.count'?",
        ),
        (
            {"section": {"inner": {"dept": 1}}},
            "unknown option 'section.inner.dept'; did you mean 'section.inner.depth'?",
        ),
        ({"section": {"zzz": 1}}, "unknown option 'section.zzz'"),
        ({"section": 3}, "section is a section, not 3"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_right_one(
    mapping: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Config, mapping)
    assert str(caught.value) == message


def test_options_of_older_versions_are_left_out_of_saved_configurations_alone() -> None:
    """``train.r_drop`` changed nothing in a finished model; a gate that was open did."""

    class Gated(Section):
        RETIRED = MappingProxyType({"gate": ("open", None)})

    @dataclass(frozen=True, kw_only=True)
    class Saved(Config):
        section: Gated = field(default_factory=Gated)

    saved = {"train": {"r_drop": 5.0, "seed": 3}, "section": {"gate": "open", "count": 7}}
    kept = without_retired(Saved, saved)
    assert kept == {"train": {"seed": 3}, "section": {"count": 7}}
    assert without_retired(Saved, {"other": 1}) == {"other": 1}
    saved["section"]["gate"] = "shut"
    with pytest.raises(ConfigError, match=r"section\.gate='shut': only older versions have this"):
        without_retired(Saved, saved)
    with pytest.raises(ConfigError, match=r"unknown option .train\.r_drop"):
        from_mapping(Config, {"train": {"r_drop": 0.0}})
    with pytest.raises(ConfigError, match=r"unknown option .train\.r_drop"):
        override(Config(), ["train.r_drop=0"])


def test_what_is_not_given_is_the_default() -> None:
    assert from_mapping(Config, {}) == Config()
    assert section(count=9) == Section(count=9)


def test_there_and_back_through_json_and_toml() -> None:
    config = Config(
        section=Section(count=9, size=4, length="same", columns=("a", "b"), inner=Inner(depth=2)),
        train=TrainConfig(epochs=3, learning_rate=1e-4),
    )
    assert from_mapping(Config, json.loads(json.dumps(to_mapping(config)))) == config
    toml = '[section]\ncount = 9\ncolumns = ["a"]\nrate = 1\n[section.inner]\ndepth = 2\n'
    expected = Section(count=9, columns=("a",), rate=1.0, inner=Inner(depth=2))
    assert from_mapping(Config, tomllib.loads(toml)).section == expected


# Assignments


@pytest.mark.parametrize(
    ("assignment", "name", "expected"),
    [
        ("section.count=7", "count", 7),
        (" section.count = 7 ", "count", 7),
        ("section.rate=1e-3", "rate", 0.001),
        ("section.is_on=true", "is_on", True),
        ("section.is_on=False", "is_on", False),
        ("section.name=a=b", "name", "a=b"),
        ("section.name=none", "name", "none"),
        ("section.size=none", "size", None),
        ("section.size=", "size", None),
        ("section.length=5", "length", 5),
        ("section.length=same", "length", "same"),
        ("section.length_text_first=5", "length_text_first", 5),
        ("section.columns=title, text", "columns", ("title", "text")),
        ("section.columns=", "columns", ()),
        ("section.sizes=1,2,3", "sizes", (1, 2, 3)),
        ("section.inner.depth=4", "inner", Inner(depth=4)),
    ],
)
def test_assignments_are_read_as_their_options_type(
    assignment: str, name: str, expected: object
) -> None:
    found = getattr(override(Config(), [assignment]).section, name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("section.count=7.5", "section.count must be a whole number, not '7.5'"),
        ("section.rate=inf", "section.rate must be a number, not inf"),
        ("section.is_on=yes", "section.is_on must be true or false, not 'yes'"),
        ("section.size=big", "section.size must be a whole number or none, not 'big'"),
        ("section.sizes=1,x", "section.sizes[1] must be a whole number, not 'x'"),
        ("section.count", "expected section.key=value, not 'section.count'"),
        ("section.cuont=1", "unknown option 'section.cuont'; did you mean 'section.count'?"),
        ("sectoin.count=1", "unknown option 'sectoin.count'; did you mean 'section.count'?"),
        (
            "section.iner.depth=1",
            "unknown option 'section.iner.depth'; did you mean 'section.inner.depth'?",
        ),
        ("section.count.x=1", "unknown option 'section.count.x'; did you mean 'section.count'?"),
        ("=3", "unknown option ''"),
        ("section.inner=3", "section.inner is a section; set one of depth in it"),
        ("train.epochs=-1", "train.epochs must be at least 0, not -1"),
    ],
)
def test_assignments_that_cannot_be(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override(Config(), [assignment])
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["epochs", "section.epochs"])
def test_an_option_without_its_section_is_pointed_to_it(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown option '{name}'; did you mean 'train.epochs'"):
        override(Config(), [f"{name}=4"])


def test_several_assignments_the_last_one_wins() -> None:
    before = Config()
    config = override(before, ["train.epochs=3", "section.count=8", "train.epochs=5"])
    assert (config.train.epochs, config.section.count) == (5, 8)
    assert config.train.batch_tokens == before.train.batch_tokens
    assert before == Config()
    assert override(before, []) == before


# What the core's own configurations refuse


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nhead": 0}, "model.nhead must be at least 1, not 0"),
        ({"nhead": 7}, "model.nhead must be a divisor of model.d_model (256), not 7"),
        ({"max_len": 1}, "model.max_len must be at least 2, not 1"),
        ({"d_model": 10**9}, "model.d_model must be at most 131,072, not 1000000000"),
        ({"max_len": 40_000_000}, "model.max_len must be at most 32,768, not 40000000"),
        ({"dropout": 1.0}, "model.dropout must be at least 0 and below 1, not 1.0"),
        (
            {"activation": "rleu"},
            "model.activation must be one of relu, gelu, not 'rleu'; did you mean 'relu'?",
        ),
    ],
)
def test_sizes_that_make_no_transformer(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(**values)
    assert str(caught.value) == message
    if "num_decoder_layers" not in values:
        with pytest.raises(ConfigError):
            EncoderConfig(**values)


@pytest.mark.parametrize(
    ("name", "wrong", "allowed"),
    [
        ("epochs", -1, "at least 0"),
        *((name, 0, "at least 1") for name in ("batch_tokens", "accumulate")),
        *((name, 0, "at least 1") for name in ("warmup_steps", "save_every")),
        *((name, -1, "0 or more") for name in ("patience", "average", "log_every")),
        *((name, -0.5, "0 or more") for name in ("weight_decay", "clip_norm")),
        *((name, 10**10, "at most 1,000,000,000") for name in ("epochs", "batch_tokens")),
        ("seed", 2**32, "from 0 to 2^32 - 1"),
        ("learning_rate", 0.0, "above 0"),
        ("label_smoothing", 1.0, "at least 0 and below 1"),
        ("adam_beta2", 1.0, "at least 0 and below 1"),
        ("warmup", -0.1, "at least 0.0"),
        ("warmup", 1.5, "at most 1.0"),
        ("ema", 1.0, "at least 0 and below 1"),
        ("schedule", "linear", "one of noam, inverse_sqrt, cosine, constant"),
        ("average_of", "first", "one of best, last"),
        ("precision", "fp8", "one of auto, fp32, bf16, fp16"),
    ],
)
def test_what_no_training_can_use(name: str, wrong: object, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**{name: wrong})  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"train.{name} must be {allowed}, not {wrong!r}")


# Choices


def test_choices_and_hints() -> None:
    check_choice("colour", "red", ["red", "green"])
    with pytest.raises(ConfigError) as caught:
        check_choice("colour", "gren", ["red", "green"])
    assert (
        str(caught.value) == "colour must be one of red, green, not 'gren'; did you mean 'green'?"
    )
    assert nearest("xyz", ["red", "green"]) == ""


_OPTIONS = st.sampled_from(["d_model", "dropout", "activation", "norm_first", "no\x1b[2Jsuch"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def check_error(option: str, value: object) -> None:
    """An option with any value is taken, or refused in one short line."""
    try:
        from_mapping(TransformerConfig, {option: value})
    except ConfigError as error:
        assert len(str(error)) < 300
        assert str(error).isprintable()


def test_values_that_cannot_be_shown_are_a_short_error() -> None:
    """An integer of 5,000 digits cannot be shown, a larger one than 1e308 is no float, and a value
    that is nested deeply has no ``repr``: each was a traceback. Long ones came through whole."""
    nested: Any = 1
    for _ in range(5000):
        nested = {"a": nested}
    for value in (nested, 16**5000, 10**400, "relu" * 100_000, "\x1b[2J", "\ud800"):
        for option in ("d_model", "dropout", "activation", "d_model" * 100_000):
            check_error(option, value)
