"""Damage for :mod:`tests.fuzz`: to files of every kind, and texts that nobody would type."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

_NASTY_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e-300, 1e308,
    float("inf"), float("nan"), "", "x", "nan", "1e999", "\ud800", "\x1b[31mred", "x" * 5000,
    "../../etc/passwd", [], [1], [[]], {}, {"a": 1}, "\u2028", "None", 40_000_000, [10**9] * 3,
)  # fmt: skip
_FRAGMENTS = (
    "Ein Hund", " ", "  ", "\t", "a", "A dog.", "天地山水", "，", "。", "风", "<a ", "=", ">",
    "&lt;", "&amp;", "&#", "#39;", "\\", '"', "'", "-", "--", "-5", "%", "\x00", "\x07", "\x1b[2J",
    "\u0301", "\u200d", "\u202e", "\ufeff", "\u2028", "\x85", "\U0001f468\u200d\U0001f469", "🏳️‍🌈",
    "\U0010ffff", "ﷺ", "İ", "ß", "ſ", "Ⅻ", "²", "٣", "xn--", "http://", "z. B. ", "Ja! ",
    "...", "?!",    "\r", "\v", "\f", "<s>", "</s>", "<pad>", "<unk>", "▁", "\u3000", "\u00a0",
)  # fmt: skip


def value(rng: Random) -> Any:
    """Returns a value that a configuration rarely has."""
    return rng.choice(_NASTY_VALUES)


def text(rng: Random, most: int = 600) -> str:
    """Returns a text of odd fragments, each repeated; at most ``most`` characters."""
    parts = [
        rng.choice(_FRAGMENTS) * rng.choice((1, 1, 1, 2, 5, 50, 1000))
        for _ in range(rng.choice((0, 1, 1, 2, 4, 10)))
    ]
    return "".join(parts)[:most]


def damage(path: Path, rng: Random) -> str:
    """Damages the file ``path`` and returns what was done to it."""
    kinds = [*_OF_BYTES, *_OF_PATHS]
    if path.suffix == ".json":
        kinds += [_json] * 12
    elif path.suffix in (".txt", ".csv", ".de", ".en", ".toml"):
        kinds += [_lines] * 8
    kind = rng.choice(kinds)
    done = kind(path, rng)
    return f"{path.name}: {done or kind.__name__.strip('_')}"


def _rewrite(change: Callable[[bytearray, int, Random], bytes]) -> Callable[[Path, Random], str]:
    """Returns a damage that changes the bytes of a file from a random position on."""

    def damaged(path: Path, rng: Random) -> str:
        content = bytearray(path.read_bytes())
        # The headers of files decide more than their bodies.
        end = len(content) if rng.random() < 0.5 else min(len(content), 200)
        position = rng.randrange(end) if end else 0
        path.write_bytes(change(content, position, rng))
        return f"{change.__name__.strip('_')} at byte {position} of {len(content)}"

    return damaged


def _flip(content: bytearray, position: int, rng: Random) -> bytes:
    content[position : position + 1] = bytes(
        byte ^ 1 << rng.randrange(8) for byte in content[position : position + 1]
    )
    return bytes(content)


def _byte(content: bytearray, position: int, rng: Random) -> bytes:
    content[position : position + 1] = bytes([rng.choice((0, 9, 10, 34, 48, 57, 127, 128, 255))])
    return bytes(content)


def _cut(content: bytearray, position: int, rng: Random) -> bytes:
    return bytes(content[:position])


def _insert(content: bytearray, position: int, rng: Random) -> bytes:
    new = rng.choice((b"\0" * 100, b"\xff", b"\n", b"9" * 5000, b"[" * 3000, rng.randbytes(20)))
    return bytes(content[:position] + new + content[position:])


def _remove(content: bytearray, position: int, rng: Random) -> bytes:
    return bytes(content[:position] + content[position + rng.choice((1, 8, 100)) :])


def _repeat(content: bytearray, position: int, rng: Random) -> bytes:
    return bytes(content[:position] + content[max(0, position - rng.choice((1, 8, 100))) :])


def _delete(path: Path, rng: Random) -> str:
    path.unlink()
    return ""


def _empty(path: Path, rng: Random) -> str:
    path.write_bytes(b"")
    return ""


def _folder(path: Path, rng: Random) -> str:
    path.unlink()
    path.mkdir()
    return ""


def _pipe(path: Path, rng: Random) -> str:
    path.unlink()
    os.mkfifo(path)
    return ""


def _link(path: Path, rng: Random) -> str:
    target = rng.choice((path.name, "/dev/zero", "/dev/full", "nowhere", ".", "/dev/stdin"))
    path.unlink()
    path.symlink_to(target)
    return f"a link to {target}"


def _swap(path: Path, rng: Random) -> str:
    other = rng.choice(sorted(path.parent.iterdir()))
    if other.is_file():
        shutil.copyfile(other, path.with_name("swapped"))
        path.with_name("swapped").replace(path)
    return f"the content of {other.name}"


def _lines(path: Path, rng: Random) -> str:
    lines = path.read_bytes().split(b"\n")
    position = rng.randrange(len(lines))
    line = text(rng).encode("utf-8", "surrogatepass")
    kind = rng.choice(("replaced", "inserted", "removed", "doubled", "swapped"))
    if kind == "replaced":
        lines[position] = line
    elif kind == "inserted":
        lines.insert(position, line)
    elif kind == "removed":
        del lines[position]
    elif kind == "doubled":
        lines.insert(position, lines[position])
    else:
        other = rng.randrange(len(lines))
        lines[position], lines[other] = lines[other], lines[position]
    path.write_bytes(b"\n".join(lines))
    return f"line {position} {kind}"


def _json(path: Path, rng: Random) -> str:
    content = json.loads(path.read_bytes())
    container, place = content, None
    while isinstance(container, dict | list) and container:
        place = rng.choice([*container] if isinstance(container, dict) else range(len(container)))
        inner = container[place]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.1:
            break
        container = inner
    new = value(rng)
    if place is None or rng.random() < 0.03:
        content = new
    elif rng.random() < 0.1:
        del container[place]
    else:
        container[place] = new
    path.write_text(json.dumps(content), encoding="utf-8")
    return f"{place} is {repr(new)[:40]}" if new != 10**400 else f"{place} is 10**400"


_OF_BYTES = [_rewrite(change) for change in (_flip, _byte, _cut, _insert, _remove, _repeat)] * 3
_OF_PATHS = [_delete, _empty, _folder, _pipe, _link, _swap]
