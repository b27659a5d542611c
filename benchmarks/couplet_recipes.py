"""Recipes of couplet training that need more than an option of ``cli.py train couplet``.

    python -m benchmarks.couplet_recipes corpora --data couplet --out corpora
    python -m benchmarks.couplet_recipes separate --data couplet --out runs/separate
    python -m benchmarks.couplet_recipes modern --data couplet --out modern
    python -m benchmarks.couplet_recipes grow --init MODEL --out grown
    python -m benchmarks.couplet_recipes letters --init MODEL --out lettered

``corpora`` writes two folders of couplets for the study of verse. In ``tagged``, both lines of a
couplet of ``verse`` begin with a tag, so that the model learns from verse without writing it. In
``verse_first``, as many couplets of verse take the place of the training couplets; a run on it is
the first stage, and the next one starts from it with ``--init``.

``separate`` trains the preset ``small`` with an embedding table for each line.

The others prepare the training of the shipped model. ``modern`` copies the corpus and adds six
folders: of ``train`` and ``extra``, ``modern``, couplets about modern things or in today's words,
and ``digits``, couplets with numerals that answer each other, as digits; ``written``, couplets
about modern life that were written for this project (``couplet_written.tsv``), without those that
have characters which the others hardly have; of those, ``exchanged``, all with the second line
first, ``newest``, those that were written last, and ``letters``, those with Latin letters, as
capitals. ``grow`` gives a model an output layer of its own, one more layer on each side and
feed-forward parts of twice the width: it computes the same, because what is new adds nothing at
first and the output layer begins as the embedding table. ``letters`` adds the capital letters to
the vocabulary of a model.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

import torch
from torch import Tensor

from core.config import override
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, save_weights
from tasks.couplet import script
from tasks.couplet.config import CoupletTransformerConfig, small
from tasks.couplet.model import Alignment, CoupletModel
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.train import CoupletTraining
from tasks.runs import run
from tasks.runs.training import RunOptions

TAG = "诗"
WRITTEN = Path(__file__).with_name("couplet_written.tsv")
NEWEST = 78_912
"""The couplets of ``WRITTEN`` after this row were written last."""
FILES = ("in.txt", "out.txt")
LEAST_COUNT = 3
"""``data.min_freq`` of the shipped model."""
DIGITS = {numeral: digit for digit, numeral in script.DIGITS.items() if digit in "123456789"}
MODERN = re.compile(
    "[0-9A-Za-z]|手机|电脑|上网|网|加班|程序|代码|微信|老板|股市|炒股|公司|快递|外卖|科技|人工智|工资|地铁"
    "|汽车|考试|高考|大学|同学|老师|电视|房价|买房|减肥|游戏|直播|吃饭|睡觉|喝酒|打牌|麻将|恋爱|老婆|老公"
    "|美女|帅哥|哥们|妹妹|孩子|医生|护士|司机|飞机|高铁|足球|篮球|电影|歌星|明星|彩票|股票|银行|火锅|咖啡"
    "|奶茶|超市|空调|冰箱|相机|短信|聊天|博客|论坛|加油|快乐|开心|寂寞|无聊|郁闷|什么|怎么|为何|哪里|不要"
    "|不会|可以|已经|还是|的"
)


def write_corpora(data: Path, out: Path) -> None:
    """Writes the folders ``tagged`` and ``verse_first``."""
    for name in ("train", "val", "test"):
        shutil.copytree(data / name, out / "tagged" / name)
    for name in ("val", "test"):
        shutil.copytree(data / name, out / "verse_first" / name)
    (out / "tagged" / "verse").mkdir()
    (out / "verse_first" / "train").mkdir()
    for file in FILES:
        couplets = (data / "train" / file).read_text("utf-8").splitlines()
        verse = (data / "verse" / file).read_text("utf-8").splitlines()
        tagged = "".join(f"{TAG} {line}\n" for line in verse)
        (out / "tagged" / "verse" / file).write_text(tagged, "utf-8")
        first = "".join(f"{line}\n" for line in verse[: len(couplets)])
        (out / "verse_first" / "train" / file).write_text(first, "utf-8")


def read(folder: Path) -> list[list[str]]:
    """Returns the couplets of a folder: two lines each."""
    lines = ((folder / file).read_text("utf-8").splitlines() for file in FILES)
    return [list(pair) for pair in zip(*lines, strict=True)]


def write(folder: Path, couplets: list[list[str]]) -> None:
    """Writes couplets into a new folder."""
    folder.mkdir()
    for file, lines in zip(FILES, zip(*couplets, strict=True), strict=True):
        (folder / file).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_written(known: Container[str], start: int = 0) -> list[list[str]]:
    """Returns our own couplets after row ``start``, with numerals for digits, and capitals: those
    whose second line has ``known`` characters alone, and whose first line has at most one other."""
    others = str.maketrans(script.DIGITS | script.CAPITALS)
    lines = WRITTEN.read_text("utf-8").translate(others).splitlines()[start:]
    couplets = [[" ".join(line) for line in couplet.split("\t")] for couplet in lines]

    def unknown(line: str) -> int:
        return sum(character not in known for character in line.split())

    return [each for each in couplets if unknown(each[0]) <= 1 and unknown(each[1]) == 0]


def with_digits(couplet: list[str]) -> list[str]:
    """Returns a couplet whose numerals are digits, where numerals answer each other."""
    lines = [line.split(" ") for line in couplet]
    for i in range(min(map(len, lines))):
        if all(line[i] in DIGITS for line in lines):
            for line in lines:
                line[i] = DIGITS[line[i]]
    return [" ".join(line) for line in lines]


def write_modern(data: Path, out: Path) -> None:
    """Writes the corpus with the six folders of the recipe ``modern``."""
    for name in ("train", "val", "test", "extra", "verse"):
        shutil.copytree(data / name, out / name)
    couplets = read(data / "train") + read(data / "extra")
    write(out / "modern", [each for each in couplets if MODERN.search(each[0].replace(" ", ""))])
    everyone = couplets + read(data / "verse")
    counts = Counter(c for couplet in everyone for line in couplet for c in line.split())
    known = {c for c, count in counts.items() if count >= LEAST_COUNT} | {*ascii_uppercase}
    written = read_written(known)
    write(out / "written", written)
    write(out / "newest", read_written(known, NEWEST))
    write(out / "letters", [each for each in written if not {*ascii_uppercase}.isdisjoint(each[0])])
    write(out / "exchanged", [couplet[::-1] for couplet in written])
    changed = ((each, with_digits(each)) for each in couplets)
    write(out / "digits", [digits for each, digits in changed if digits != each])


def grow(folder: Path, out: Path) -> None:
    """Writes the model in ``folder``, grown."""
    writer = CoupletWriter.load(folder, device="cpu")
    old, model = writer.models[0].state_dict(), writer.config.model
    layers = model.num_encoder_layers, model.num_decoder_layers or model.num_encoder_layers
    config = replace(
        model,
        num_encoder_layers=layers[0] + 1,
        num_decoder_layers=layers[1] + 1,
        dim_feedforward=2 * model.dim_feedforward,
        tie_output=False,
    )
    grown = CoupletModel(len(writer.source.vocabulary), config)
    for name, weight in grown.state_dict().items():
        if ".out_proj." in name or ".linear2." in name:
            weight.zero_()
    _save_grown(folder, out, grown, old)
    settings = json.loads((out / "config.json").read_text("utf-8"))
    settings["model"] |= vars(config)
    (out / "config.json").write_text(json.dumps(settings, indent=2), "utf-8")


def add_letters(folder: Path, out: Path) -> None:
    """Writes the model in ``folder`` with the capital letters in its vocabulary.

    Their weights are random, those of seed 1.
    """
    torch.manual_seed(1)
    writer = CoupletWriter.load(folder, device="cpu")
    known = writer.codec.vocabulary
    added = [letter for letter in ascii_uppercase if letter not in known]
    grown = CoupletModel(len(known) + len(added), writer.config.model)
    _save_grown(folder, out, grown, writer.models[0].state_dict())
    with (out / "vocabulary.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"{letter}\n" for letter in added)


def _save_grown(folder: Path, out: Path, grown: CoupletModel, old: Mapping[str, Tensor]) -> None:
    """Copies ``folder`` to ``out`` with the weights of ``grown``, the ``old`` ones where it can."""
    for name, weight in grown.state_dict().items():
        if name in old:
            weight[tuple(map(slice, old[name].shape))] = old[name]
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("manifest.json"))
    save_weights(out / WEIGHTS_FILE, grown)


class SeparateTables(SequenceToSequence):
    """The aligned couplet model with an embedding table for each line."""

    def __init__(self, vocab_size: int, config: CoupletTransformerConfig) -> None:
        super().__init__(
            vocab_size, vocab_size, config, share_embeddings=False, tie_output=config.tie_output
        )
        self.alignment = Alignment(config.d_model)

    @property
    def source_reader(self) -> Alignment:
        return self.alignment


class SeparateTraining(CoupletTraining):
    """The training of :class:`SeparateTables`."""

    model_class = SeparateTables


RECIPES = {
    "corpora": write_corpora,
    "modern": write_modern,
    "grow": grow,
    "letters": add_letters,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare or train recipes of couplet models.")
    parser.add_argument("recipe", choices=(*RECIPES, "separate"))
    parser.add_argument("--data", type=Path, help="folders train, val, test, extra, verse")
    parser.add_argument("--init", type=Path, help="the model that grows")
    parser.add_argument("--out", type=Path, required=True, help="a new folder, or the file")
    parser.add_argument("--set", action="append", default=[], help="an option of the training")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.recipe in RECIPES:
        RECIPES[options.recipe](options.init or options.data, options.out)
        return
    torch.set_num_threads(options.threads)
    config = override(small(), ["train.precision=fp32", *options.set])
    run_options = RunOptions(data=options.data, out=options.out, device=torch.device("cpu"))
    run.train(config, run_options, SeparateTraining)


if __name__ == "__main__":
    main()
