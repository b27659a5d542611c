#!/usr/bin/env python3
"""Translates German sides with the default model: two corpora of the shipped model's training.

    python -m benchmarks.translation_distillation --data FOLDER --corpora corpora

Captions and everyday sentences are what the default model knows best. Its greedy translations are
more regular than people's, so a model that also has to learn news and talks learns more from them
(sequence-level distillation, Kim and Rush 2016). ``corpora`` is what
``benchmarks.translation_mixture`` wrote; ``corpora/captions_distilled`` is made of 90,000 German
captions of ``FOLDER/multi30k_captions`` and Multi30k, ``corpora/everyday_distilled`` of 150,000
everyday sentences. No line of a test or validation set is translated. Translations of very
different length, and those that repeat a word, are left out.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import click

from benchmarks.translation_mixture import Pair, held_out, letters, write
from core.progress import Progress
from tasks.translation.predict import Translator

LINES = {"captions": 90_000, "everyday": 150_000}
_AT_ONCE = 2000


def fault(german: str, english: str) -> str:
    """Returns why a translation is no good example, or "" for a good one."""
    lengths = [len(re.findall(r"\w+", side)) for side in (german, english)]
    words = re.findall(r"\w+", english.lower())
    if not words:
        return "empty"
    if max(lengths) > 1.7 * min(lengths) + 4:
        return "length"
    repeated = {a for a, b in pairwise(words) if a == b} - {"had", "that"}
    return "repeated word" if repeated else ""


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--corpora", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--seed", default=1, show_default=True)
def main(data: Path, corpora: Path, seed: int) -> None:
    translator = Translator.load("default", engine="ctranslate2", int8=True)
    excluded = held_out(data)
    for name, most in LINES.items():
        german = (corpora / name / "train.de").read_text(encoding="utf-8").splitlines()
        if name == "captions":
            text = (data / "multi30k_captions" / "captions.de").read_text(encoding="utf-8")
            german += text.splitlines()
        lines = [*dict.fromkeys(line for line in german if letters(line) not in excluded)]
        random.Random(f"{seed}/{name}").shuffle(lines)
        kept: list[Pair] = []
        counts: Counter[str] = Counter()
        with Progress(min(most, len(lines)), name, unit="lines") as progress:
            for start in range(0, min(most, len(lines)), _AT_ONCE):
                some = lines[start : min(start + _AT_ONCE, most)]
                for pair in zip(some, translator.translate(some, beam_size=1), strict=True):
                    counts[fault(*pair) or "kept"] += 1
                    if not fault(*pair):
                        kept.append(pair)
                progress.advance(len(some))
        write(corpora / f"{name}_distilled", kept)
        print(f"{name:12}{dict(counts)}")


if __name__ == "__main__":
    main()
