"""Draws the pictures of the guide, and makes their files small.

    python -m docs.generator.pictures              # all of them, into docs/pictures
    python -m docs.generator.pictures masks.png    # one

The corpora multi30k and ag_news, for some of the pictures, must have been fetched (``cli.py data
fetch``).
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from docs.generator.sources import ROOT

REPORT = "evaluate classification --data ag_news --report report"
PICTURES = {
    "masks.png": ["plot masks"],
    "positions.png": ["plot positions --d-model 64 --length 60"],
    "schedule.png": ["plot schedule"],
    "label-smoothing.png": ["plot label-smoothing"],
    "neighbors.png": ["plot neighbors Hund"],
    "attention.png": ["plot attention 'Zwei Kinder spielen im Schnee.'"],
    "length.png": ["plot length --data multi30k --beam 1"],
    "history.png": [f"plot history {ROOT / 'data/pretrained/translation'}"],
    "confusion.png": [REPORT, "plot confusion report"],
    "reliability.png": [REPORT, "plot reliability report"],
}
"""The commands of ``cli.py`` for each picture; the last one draws it. Its page names them."""

FOLDER = ROOT / "docs" / "pictures"
SIZES = ((1100, 256), (1100, 128), (1100, 64), (900, 64), (800, 32), (750, 32))
"""Widths in pixels and numbers of colors, the best first."""
MAX_BYTES = 60_000


def draw(name: str) -> None:
    """Draws one picture, scales it down and reduces its colors until its file is small.

    Raises:
        ValueError: it is too large with the smallest of ``SIZES`` as well.
    """
    *before, last = PICTURES[name]
    with tempfile.TemporaryDirectory() as folder:
        for command in (*before, f"{last} --output {shlex.quote(str(FOLDER / name))}"):
            words = [sys.executable, str(ROOT / "cli.py"), *shlex.split(command)]
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shrink(FOLDER / name)


def shrink(path: Path) -> None:
    """Overwrites a picture with a smaller one; see :func:`draw`."""
    picture = Image.open(path).convert("RGB")
    for width, colors in SIZES:
        size = (min(width, picture.width), round(picture.height * min(1, width / picture.width)))
        smaller = picture.resize(size, Image.Resampling.LANCZOS)
        smaller.quantize(colors, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < MAX_BYTES:
            return
    raise ValueError(f"{path}: more than {MAX_BYTES} bytes at all sizes")


def main() -> None:
    """Draws the pictures that are named, or all."""
    for name in sys.argv[1:] or PICTURES:
        draw(name)
        print(FOLDER / name)


if __name__ == "__main__":
    main()
