"""A table of sentences and their languages, made from corpora at hand: data for a classifier.

    python examples/languages.py de=tatoeba/train.de fr=multi30k/train.fr zh=couplet/train/in.txt
    python cli.py train classification --data languages.csv --text sentence --label language

A language may have several files. Every language gets the same number of lines, drawn at random
from all of its files. The spaces between Chinese characters are removed.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from pathlib import Path

_CHINESE_SPACE = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) (?=[\u3000-\u9fff\uff00-\uffef])")


def lines_of(paths: list[Path]) -> list[str]:
    """Returns the different lines of all files that are not empty, in their order."""
    texts = (path.read_text(encoding="utf-8") for path in paths)
    lines = (_CHINESE_SPACE.sub("", line.strip()) for text in texts for line in text.split("\n"))
    return list(dict.fromkeys(line for line in lines if line))


def sample(files: dict[str, list[Path]], *, rows: int, seed: int) -> list[tuple[str, str]]:
    """Returns ``rows`` pairs of a sentence and its language, shuffled, each language as often."""
    generator = random.Random(seed)
    pairs: list[tuple[str, str]] = []
    for language, paths in files.items():
        lines = lines_of(paths)
        count = rows // len(files)
        if count > len(lines):
            raise SystemExit(f"{language}: {len(lines)} different lines, but {count} are needed")
        pairs += [(line, language) for line in generator.sample(lines, count)]
    generator.shuffle(pairs)
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="LANGUAGE=FILE")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("languages.csv"))
    options = parser.parse_args()
    files: dict[str, list[Path]] = {}
    for item in options.files:
        language, equals, path = item.partition("=")
        if not (language and equals and path):
            parser.error(f"expected LANGUAGE=FILE, not {item!r}")
        files.setdefault(language, []).append(Path(path))
    pairs = sample(files, rows=options.rows, seed=options.seed)
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sentence", "language"))
        writer.writerows(pairs)


if __name__ == "__main__":
    main()
