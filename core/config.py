"""Configuration is data: frozen, keyword-only dataclasses, validated when they are made.

A configuration file is a mapping of sections (``model``, ``train``, ``data``...), each a dataclass
of plain values. Unknown names and values of a wrong type are refused with the nearest right name.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from .errors import ConfigError

C = TypeVar("C")


def check(is_right: bool, name: str, value: object, allowed: str) -> None:
    """Raises the ConfigError that says what ``name`` may be, unless ``is_right``."""
    if not is_right:
        raise ConfigError(f"{name} must be {allowed}, not {value!r}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises a ConfigError unless ``value`` is one of ``choices``; it names the nearest of them."""
    choices = list(choices)
    if value not in choices:
        hint = nearest(str(value), choices)
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value!r}{hint}")


def nearest(name: str, names: Iterable[str]) -> str:
    """A half-sentence for an error message: which of ``names`` was probably meant, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def from_mapping(cls: type[C], mapping: Mapping[str, Any], *, where: str = "") -> C:
    """A config dataclass from plain nested mappings, as read from JSON or TOML.

    Raises:
        ConfigError: an unknown name, a value of a wrong type, or one that ``cls`` refuses.
    """
    types_of = typing.get_type_hints(cls)
    values = {}
    for name, value in mapping.items():
        full_name = f"{where}.{name}" if where else name
        if name not in types_of:
            raise _unknown("option", full_name, types_of)
        values[name] = _convert(full_name, value, types_of[name])
    return cls(**values)


def to_mapping(config: Any) -> dict[str, Any]:
    """The plain nested mapping of a config, ready for JSON."""
    return dataclasses.asdict(config)


def override(config: C, assignments: Iterable[str]) -> C:
    """``config`` with ``section.key=value`` assignments applied, each value read as its key's type.

    Raises:
        ConfigError: something that is no assignment, an unknown name, a value that cannot be used.
    """
    mapping = to_mapping(config)
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"expected section.key=value, not {assignment!r}")
        *parents, key = name.strip().split(".")
        section, section_type = _section(mapping, type(config), parents)
        types_of = typing.get_type_hints(section_type)
        full_name = ".".join([*parents, key])
        if key not in types_of:
            raise _unknown("option", full_name, types_of, elsewhere=_full_names(type(config), key))
        if dataclasses.is_dataclass(types_of[key]):
            raise ConfigError(
                f"{full_name} is a section; set one of {', '.join(section[key])} in it"
            )
        section[key] = _parse(full_name, text.strip(), types_of[key])
    return from_mapping(type(config), mapping)


def _section(
    mapping: dict[str, Any], config_type: Any, names: list[str]
) -> tuple[dict[str, Any], Any]:
    """The part of ``mapping`` that ``names`` lead to, and its dataclass."""
    for depth, name in enumerate(names, start=1):
        types_of = typing.get_type_hints(config_type)
        sections = [n for n, wanted in types_of.items() if dataclasses.is_dataclass(wanted)]
        if name not in sections:
            raise _unknown("section", ".".join(names[:depth]), sections)
        mapping, config_type = mapping[name], types_of[name]
    return mapping, config_type


def _full_names(config_type: Any, key: str) -> list[str]:
    """Where ``config_type`` has an option called ``key``: the dotted names of all places."""
    found = []
    for name, wanted in typing.get_type_hints(config_type).items():
        if dataclasses.is_dataclass(wanted):
            found += [f"{name}.{rest}" for rest in _full_names(wanted, key)]
        elif name == key:
            found.append(name)
    return found


def _unknown(
    kind: str, full_name: str, siblings: Iterable[str], *, elsewhere: Iterable[str] = ()
) -> ConfigError:
    """The error for a name that is not among its ``siblings``: it gives the nearest right one.

    ``elsewhere`` are options of exactly that name in other sections.
    """
    parent, dot, name = full_name.rpartition(".")
    close = [
        *elsewhere,
        *(parent + dot + n for n in difflib.get_close_matches(name, siblings, n=1)),
    ]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ConfigError(f"unknown {kind} {full_name!r}{hint}")


def _convert(name: str, value: Any, wanted: Any) -> Any:
    """``value`` as JSON or TOML gave it, as the annotated type ``wanted``."""
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} is a section, not {value!r}")
        return from_mapping(wanted, value, where=name)
    options = _options(wanted)
    # TOML has no null: there, none is the text that says so.
    if type(None) in options and value in (None, "none"):
        return None
    for option in options:
        if typing.get_origin(option) is tuple:
            if isinstance(value, list | tuple):
                inner = typing.get_args(option)[0]
                return tuple(_convert(f"{name}[{i}]", item, inner) for i, item in enumerate(value))
        elif option is float and type(value) in (int, float):
            # JSON has no other numbers, and no option has a use for them.
            if math.isfinite(value):
                return float(value)
        elif option in (int, str, bool) and type(value) is option:
            return value
    raise ConfigError(f"{name} must be {_describe(wanted)}, not {value!r}")


def _parse(name: str, text: str, wanted: Any) -> Any:
    """The text after the equals sign, as the annotated type ``wanted``."""
    options = _options(wanted)
    if type(None) in options and text.lower() in ("none", ""):
        return None
    for option in options:
        if typing.get_origin(option) is tuple:
            inner = typing.get_args(option)[0]
            return tuple(
                _parse(name, part.strip(), inner) for part in text.split(",") if part.strip()
            )
        if option is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if option in (int, float):
            try:
                return option(text)
            except ValueError:
                continue
        if option is str:
            return text
    raise ConfigError(f"{name} must be {_describe(wanted)}, not {text!r}")


def _options(wanted: Any) -> list[Any]:
    """The types that ``wanted`` allows, ``str`` last: every text would pass for it."""
    is_union = typing.get_origin(wanted) in (typing.Union, types.UnionType)
    options = typing.get_args(wanted) if is_union else (wanted,)
    return sorted(options, key=lambda option: option is str)


def _describe(wanted: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    words[type(None)] = "none"
    parts = [words.get(option, "a list") for option in _options(wanted)]
    return " or ".join(parts)
