"""Configuration is data: frozen, keyword-only dataclasses, validated when they are made.

A configuration file is a mapping of sections (``model``, ``train``, ``data``...). Each section is a
dataclass of plain values. An unknown name is refused, and the error gives the most similar name.
"""

import dataclasses
import difflib
import math
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, TypeVar

from core.errors import MAX_SHOWN, ConfigError, shown

C = TypeVar("C")

Measurement = typing.Annotated[float, "may be infinite or NaN"]
"""The type of a field for a measured number, in a dataclass that :func:`from_mapping` makes."""

# Integers beyond this do not fit into those of the libraries that options are given to.
_MAX_INTEGER = (1 << 63) - 1


@dataclasses.dataclass(frozen=True)
class Option:
    """What users are told about an option, a field of a dataclass, and the numbers it may have.

    The options of commands, the fields of requests and their documentation are made from it.

    Attributes:
        help: what it is for.
        group: of options that an interface has or has not together.
        least, most: the smallest and the largest number.
        above: the number that it must be above, instead of ``least``.
        short: the name that users know it by, where it is not that of the field.
        metavar: what stands for the value in the help of a command.
    """

    help: str
    group: str = ""
    least: float | None = None
    most: float | None = None
    above: float = 0
    short: str | None = None
    metavar: str | None = None

    def allows(self, value: Any) -> bool:
        """Returns whether a number is in the range; there is none for other values."""
        if self.most is None or value is None:
            return True
        is_large = value > self.above if self.least is None else value >= self.least
        return bool(is_large and value <= self.most)

    @property
    def range(self) -> str:
        """The range in words."""
        if self.least is None:
            return f"above {self.above:,} and at most {self.most:,}"
        return f"from {self.least:,} to {self.most:,}"


def option(default: Any, help: str, *settings: Any, **others: Any) -> Any:
    """Returns a field of a dataclass with its :class:`Option`."""
    metadata = {"option": Option(help, *settings, **others)}
    return dataclasses.field(default=default, metadata=metadata)


def options_of(cls: Any) -> dict[str, Option]:
    """Returns the options of a dataclass by their names."""
    found = ((item.name, item.metadata.get("option")) for item in dataclasses.fields(cls))
    return {name: option for name, option in found if option is not None}


def check_options(config: Any, section: str = "") -> None:
    """Raises a ConfigError unless the options of a dataclass are in their ranges, or None."""
    for name, option in options_of(config).items():
        if not option.allows(value := getattr(config, name)):
            check(False, f"{section}{name}", value, option.range)


def check(is_right: bool, name: str, value: object, allowed: str) -> None:
    """Raises a ConfigError that says what the option ``name`` may be, unless ``is_right``."""
    if not is_right:
        raise ConfigError(f"must be {allowed}, not {shown(value)}", option=name)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raises a ConfigError unless ``value`` is from ``least`` to ``most``."""
    check(value >= least, name, value, f"at least {least}")
    check(value <= most, name, value, f"at most {most:,}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises a ConfigError unless ``value`` is one of ``choices``."""
    choices = list(choices)
    if value not in choices:
        hint = nearest(str(value), choices)
        reason = f"must be one of {', '.join(choices)}, not {shown(value)}{hint}"
        raise ConfigError(reason, option=name)


def nearest(name: str, names: Iterable[str], *, prefix: str = "") -> str:
    """Returns "; did you mean ...?" with the most similar of ``names``, or "" without any."""
    close = difflib.get_close_matches(name[:MAX_SHOWN], list(names), n=1)
    return f"; did you mean {prefix + close[0]!r}?" if close else ""


def from_mapping(cls: type[C], mapping: Mapping[str, Any], *, where: str = "") -> C:
    """Makes a config from nested mappings. Raises a ConfigError for a wrong name, type or value."""
    types_of = typing.get_type_hints(cls, include_extras=True)
    values = {}
    for name, value in mapping.items():
        full_name = f"{where}.{name}" if where else name
        if name not in types_of:
            raise _unknown(full_name, [f"{where}.{known}".lstrip(".") for known in types_of])
        values[name] = converted(full_name, value, types_of[name])
    return cls(**values)


def without_retired(cls: Any, mapping: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
    """Returns a saved mapping of ``cls`` without the options that only older versions have.

    A config class may have a mapping ``RETIRED`` from the names of such options to the values that
    had no effect on a finished model; None: every value. Raises a ConfigError for other values.
    """
    types_of, retired = typing.get_type_hints(cls), getattr(cls, "RETIRED", {})
    kept = {}
    for name, value in mapping.items():
        full_name = f"{where}.{name}" if where else name
        if name not in retired:
            inner = types_of.get(name)
            is_section = isinstance(value, Mapping) and dataclasses.is_dataclass(inner)
            kept[name] = without_retired(inner, value, where=full_name) if is_section else value
        elif retired[name] is not None and value not in retired[name]:
            raise ConfigError(f"{full_name}={shown(value)}: only older versions have this option")
    return kept


def complete(cls: type[C], config: C | None, options: Mapping[str, Any]) -> C:
    """Returns ``config`` (None: the defaults) with ``options`` set, or raises a ConfigError."""
    if config is not None and not options:
        return config
    own = {} if config is None else to_mapping(config)
    return from_mapping(cls, {**own, **options})


def to_mapping(config: Any) -> dict[str, Any]:
    """Returns a config as a plain nested mapping, ready for JSON."""
    return dataclasses.asdict(config)


def override(config: C, assignments: Iterable[str]) -> C:
    """Returns ``config`` after assignments ``section.key=value``, or raises a ConfigError."""
    mapping, types_of = to_mapping(config), _full_names(type(config))
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            raise ConfigError(f"expected section.key=value, not {shown(assignment)}")
        if name not in types_of:
            raise _unknown(name, types_of)
        section, (*parents, key) = mapping, name.split(".")
        for parent in parents:
            section = section[parent]
        if dataclasses.is_dataclass(types_of[name]):
            names = ", ".join(section[key])
            raise ConfigError(f"is a section; set one of {names} in it", option=name)
        section[key] = _plain(name, text.strip(), types_of[name])
    return from_mapping(type(config), mapping)


def _full_names(config_type: Any, where: str = "") -> dict[str, Any]:
    """Returns the dotted names of all sections and options, and their types."""
    found = {}
    for name, wanted in typing.get_type_hints(config_type, include_extras=True).items():
        found[where + name] = wanted
        if dataclasses.is_dataclass(wanted):
            found |= _full_names(wanted, f"{where}{name}.")
    return found


def _unknown(full_name: str, known: Collection[str]) -> ConfigError:
    """Returns the error for an unknown name; one of the same name elsewhere is suggested first."""
    parent, dot, key = full_name.rpartition(".")
    for name in known:
        if name.rpartition(".")[2] == key:
            return ConfigError(f"unknown option {shown(full_name)}; did you mean {name!r}?")
    siblings = [name[len(parent + dot) :] for name in known if name.rpartition(".")[0] == parent]
    hint = nearest(key, siblings, prefix=parent + dot) if siblings else nearest(full_name, known)
    return ConfigError(f"unknown option {shown(full_name)}{hint}")


def converted(name: str, value: Any, wanted: Any) -> Any:
    """Returns ``value`` as the type ``wanted``, or raises a ConfigError for the option ``name``."""
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        if not isinstance(value, Mapping):
            raise ConfigError(f"is a section, not {shown(value)}", option=name)
        return from_mapping(wanted, value, where=name)
    options = _options(wanted)
    # TOML has no null, so there the text "none" stands for it.
    if type(None) in options and value in (None, "none"):
        return None
    for option in options:
        origin, inner = typing.get_origin(option), typing.get_args(option)
        if origin in (tuple, list):
            if isinstance(value, list | tuple):
                return origin(converted(f"{name}[{i}]", x, inner[0]) for i, x in enumerate(value))
        elif origin is dict:
            if isinstance(value, Mapping):
                return {key: converted(f"{name}.{key}", x, inner[1]) for key, x in value.items()}
        elif option == Measurement and type(value) is float:
            return value
        elif option in (int, float, Measurement) and isinstance(value, bool):
            continue
        elif option in (float, Measurement) and isinstance(value, Real):
            # Infinity and NaN are not JSON, and no option needs them.
            with suppress(OverflowError):  # an integer that is larger than any float
                if math.isfinite(number := float(value)):
                    return number
        elif option is int and isinstance(value, Integral):
            if abs(int(value)) <= _MAX_INTEGER:
                return int(value)
        elif option in (str, bool) and type(value) is option:
            return value
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    words[type(None)] = "none"
    allowed = " or ".join(words.get(option, "a list") for option in options)
    raise ConfigError(f"must be {allowed}, not {shown(value)}", option=name)


def _plain(name: str, text: str, wanted: Any) -> Any:
    """Returns the value that ``text`` stands for; a text that does not fit is returned as it is."""
    kinds = _options(wanted)
    if type(None) in kinds and text.lower() in ("none", ""):
        return None
    if typing.get_origin(kinds[0]) is tuple:
        inner = typing.get_args(kinds[0])[0]
        if not dataclasses.is_dataclass(inner):
            parts = filter(None, map(str.strip, text.split(",")))
            return [_plain(name, part, inner) for part in parts]
        try:
            return tomllib.loads(f"list = {text}")["list"]
        except (ValueError, RecursionError) as error:
            reason = f'must be a list such as [{{key = "text", other = 0.5}}], not {shown(text)}'
            raise ConfigError(reason, option=name) from error
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in {int, float}.intersection(kinds):
        with suppress(ValueError):
            return kind(text)
    return text


def _options(wanted: Any) -> list[Any]:
    """Returns the types that ``wanted`` allows, ``str`` last because it accepts every text."""
    is_union = typing.get_origin(wanted) in (typing.Union, types.UnionType)
    options = typing.get_args(wanted) if is_union else (wanted,)
    return sorted(options, key=lambda option: option is str)
