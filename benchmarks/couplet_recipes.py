"""Recipes of couplet training that need more than an option of ``cli.py train couplet``.

    python -m benchmarks.couplet_recipes corpora --data couplet --out corpora
    python -m benchmarks.couplet_recipes separate --data couplet --out runs/separate
    python -m benchmarks.couplet_recipes modern --data couplet --out modern
    python -m benchmarks.couplet_recipes grow --init MODEL --out grown
    python -m benchmarks.couplet_recipes words --data couplet --out tasks/couplet/words/words.txt

``corpora`` writes two folders of couplets for the study of verse. In ``tagged``, both lines of a
couplet of ``verse`` begin with a tag, so that the model learns from verse without writing it. In
``verse_first``, as many couplets of verse take the place of the training couplets; a run on it is
the first stage, and the next one starts from it with ``--init``.

``separate`` trains the preset ``small`` with an embedding table for each line.

``words`` writes the words that :mod:`tasks.couplet.lexicon` reads: those of jieba's dictionary that
are frequent in it or in the couplets, neighboring characters that are frequent in the couplets
without being in the dictionary (雨打), and some words that are younger than the dictionary.

The other two prepare the training of the shipped model. ``modern`` copies the corpus and adds three
folders: of ``train`` and ``extra``, ``modern``, couplets about modern things or in today's words,
and ``digits``, couplets with numerals that answer each other, as digits; and ``written``, couplets
about modern life that were written for this project (``couplet_written.tsv``). ``grow`` gives a
model an output layer of its own, and one more layer on each side: it computes the same, because the
new layers add nothing at first and the output layer begins as the embedding table.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch

from core.config import override
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, save_weights
from data.tokenizers import JiebaWords
from tasks.couplet.config import CoupletTransformerConfig, small
from tasks.couplet.model import Alignment, CoupletModel
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.train import CoupletTraining
from tasks.runs import run
from tasks.runs.training import RunOptions

TAG = "诗"
WRITTEN = Path(__file__).with_name("couplet_written.tsv")
FILES = ("in.txt", "out.txt")
DIGITS = dict(zip("一二三四五六七八九", "123456789", strict=True))
HAN = re.compile("[\u4e00-\u9fff]{2,4}")
MODERN = re.compile(
    "[0-9A-Za-z]|手机|电脑|上网|网|加班|程序|代码|微信|老板|股市|炒股|公司|快递|外卖|科技|人工智|工资|地铁"
    "|汽车|考试|高考|大学|同学|老师|电视|房价|买房|减肥|游戏|直播|吃饭|睡觉|喝酒|打牌|麻将|恋爱|老婆|老公"
    "|美女|帅哥|哥们|妹妹|孩子|医生|护士|司机|飞机|高铁|足球|篮球|电影|歌星|明星|彩票|股票|银行|火锅|咖啡"
    "|奶茶|超市|空调|冰箱|相机|短信|聊天|博客|论坛|加油|快乐|开心|寂寞|无聊|郁闷|什么|怎么|为何|哪里|不要"
    "|不会|可以|已经|还是|的"
)

NEW_WORDS = {
    "n": "微信 网红 外卖 小哥 广场舞 短视频 朋友圈 单身狗 大数据 手游 主播 区块链 元宇宙 热搜 "
    "表情包 二维码 充电宝 打工人 学区房 差评 麻辣烫 小龙虾 电商 跑步机 沙丁鱼",
    "v": "闪退 打卡 点赞 扫码 追剧 网购 秒杀 包邮 撸串 躺平 内卷 薅羊毛",
}
# The first letters of jieba's tags, and the kinds that they stand for.
KINDS = {"n": "n", "s": "n", "f": "n", "j": "n", "v": "v", "a": "a", "z": "a", "b": "a", "d": "d"}
KINDS |= {"t": "t", "m": "m", "q": "m", "r": "r", "vn": "nv", "an": "an", "ad": "ad", "vd": "dv"}


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


def with_digits(couplet: list[str]) -> list[str]:
    """Returns a couplet whose numerals are digits, where numerals answer each other."""
    lines = [line.split(" ") for line in couplet]
    for i in range(min(map(len, lines))):
        if all(line[i] in DIGITS for line in lines):
            for line in lines:
                line[i] = DIGITS[line[i]]
    return [" ".join(line) for line in lines]


def write_modern(data: Path, out: Path) -> None:
    """Writes the corpus with the folders ``modern``, ``digits`` and ``written``."""
    for name in ("train", "val", "test", "extra", "verse"):
        shutil.copytree(data / name, out / name)
    couplets = read(data / "train") + read(data / "extra")
    write(out / "modern", [each for each in couplets if MODERN.search(each[0].replace(" ", ""))])
    lines = WRITTEN.read_text("utf-8").splitlines()
    write(out / "written", [[" ".join(side) for side in line.split("\t")] for line in lines])
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
        tie_output=False,
    )
    grown = CoupletModel(len(writer.source.vocabulary), config)
    weights = grown.state_dict()
    for name, weight in weights.items():
        if name in old:
            weight.copy_(old[name])
        elif ".out_proj." in name or ".linear2." in name:
            weight.zero_()
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("backward", "manifest.json"))
    settings = json.loads((out / "config.json").read_text("utf-8"))
    settings["model"] |= vars(config)
    (out / "config.json").write_text(json.dumps(settings, indent=2), "utf-8")
    save_weights(out / WEIGHTS_FILE, grown)


def write_words(data: Path, out: Path) -> None:
    """Writes words and their kinds, the most frequent first."""
    couplets = read(data / "train") + read(data / "extra")
    lines = [line.replace(" ", "") for couplet in couplets for line in couplet]
    jieba = JiebaWords().words
    in_couplets = Counter(word for line in lines for word in jieba.cut(line))
    neighbors = Counter(a + b for line in lines for a, b in pairwise(line))
    rows = (line.split() for line in jieba.get_dict_file().read().decode("utf-8").splitlines())
    known = {word: (int(count), tag) for word, count, tag in rows if HAN.fullmatch(word)}
    known |= {word: (300, kind) for kind in NEW_WORDS for word in NEW_WORDS[kind].split()}
    all_in_couplets, all_known = sum(in_couplets.values()), sum(n for n, _ in known.values())
    shares = {
        word: 0.7 * in_couplets[word] / all_in_couplets + 0.3 * count / all_known
        for word, (count, tag) in known.items()
        if in_couplets[word] >= 3
        or (count >= (100 if len(word) == 2 else 20) and not tag.startswith("nr"))
    }
    for word, count in neighbors.items():
        if count >= 15 and HAN.fullmatch(word):
            shares.setdefault(word, 0.2 * count / all_in_couplets)
    with out.open("w", encoding="utf-8") as file:
        for word in sorted(shares, key=lambda word: (-shares[word], word)):
            tag = known[word][1] if word in known else "-"
            kinds = KINDS.get(tag, KINDS.get(tag[0], ""))
            file.write(f"{word} {kinds}".rstrip() + "\n")


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


RECIPES = {"corpora": write_corpora, "modern": write_modern, "grow": grow, "words": write_words}


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
