"""The catalog of public corpora: files, addresses, checksums, license and citation."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.config import check_choice

DATA_FOLDER_VARIABLE = "TRANSFORMER_SUITE_DATA"

# No published line is nearly as long. Bounds a file whose size the catalog does not know.
_MAX_BYTES_PER_ROW = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusFile:
    """One file of a corpus, as it is published.

    Attributes:
        name: its path in the corpus folder.
        rows: the number of lines (or CSV rows); None for a file that is not published.
        size: its bytes, unpacked; None if unknown.
        sha256: its checksum, unpacked; None if unknown.
        url: its address, maybe of a ``.gz`` or a ``.tar.gz`` file; None for a file without rows.
        member: its path in the archive at ``url``.
        is_required: False for a file that a corpus may lack.
    """

    name: str
    rows: int | None = None
    size: int | None = None
    sha256: str | None = None
    url: str | None = None
    member: str | None = None
    is_required: bool = True

    @property
    def max_size(self) -> int | None:
        """The most bytes that the unpacked file can have; None if nothing is known about it."""
        if self.size is not None or self.rows is None:
            return self.size
        return self.rows * _MAX_BYTES_PER_ROW


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """One corpus. With ``accepts_subset``, a copy may have fewer rows than published."""

    name: str
    title: str
    task: Literal["translation", "classification", "couplet"]
    license: str
    citation: str
    homepage: str
    files: tuple[CorpusFile, ...]
    accepts_subset: bool = False
    remark: str = ""

    @property
    def size(self) -> int | None:
        """The size of all published files in bytes, unpacked; None if one is unknown."""
        sizes = [file.size for file in self.files if file.url is not None]
        return None if None in sizes else sum(filter(None, sizes))


def find_corpus(name: str) -> Corpus:
    """Returns the corpus ``name``. Raises a ConfigError if it is unknown."""
    check_choice("corpus", name, CORPORA)
    return CORPORA[name]


def data_folder() -> Path:
    """Returns ``$TRANSFORMER_SUITE_DATA`` or ``~/.cache/transformer-suite``; it may not exist."""
    root = os.environ.get(DATA_FOLDER_VARIABLE)
    return Path(root) if root else Path.home() / ".cache" / "transformer-suite"


def corpus_folder(name: str) -> Path:
    """Returns the folder of the corpus ``name`` in the data folder; it may not exist yet."""
    return data_folder() / find_corpus(name).name


_MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_AG_NEWS_URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
_COUPLET_URL = "https://github.com/wb14123/couplet-dataset/releases/download/1.0/couplet.tar.gz"


def _captions(split: str, rows: int, **languages: tuple[int, str]) -> tuple[CorpusFile, ...]:
    """Returns one split of Multi30k, given the size and the sha256 for each language."""
    return tuple(
        CorpusFile(
            name=(name := f"{split}.{language}"),
            rows=rows,
            size=size,
            sha256=sha256,
            url=f"{_MULTI30K_URL}/{name}.gz",
            is_required=language != "fr",
        )
        for language, (size, sha256) in languages.items()
    )


def _couplets(split: str, rows: int) -> tuple[CorpusFile, ...]:
    names = (f"{split}/in.txt", f"{split}/out.txt")
    return tuple(
        CorpusFile(name=name, rows=rows, url=_COUPLET_URL, member=f"couplet/{name}")
        for name in names
    )


MULTI30K = Corpus(
    name="multi30k",
    title="Multi30k: image captions in German, English and French",
    task="translation",
    license="CC BY-NC-SA 4.0 (Flickr30k's terms: non-commercial research)",
    citation=(
        "Desmond Elliott, Stella Frank, Khalil Sima'an and Lucia Specia. 2016. "
        "Multi30K: Multilingual English-German Image Descriptions. "
        "Proceedings of the 5th Workshop on Vision and Language."
    ),
    homepage="https://github.com/multi30k/dataset",
    files=(
        *_captions(
            "train",
            29_000,
            de=(2_110_398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            en=(1_801_238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            fr=(2_111_303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
        ),
        *_captions(
            "val",
            1_014,
            de=(75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            en=(63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            fr=(73_924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
        ),
        *_captions(
            "test_2016_flickr",
            1_000,
            de=(70_649, "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
            en=(62_076, "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
            fr=(72_261, "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6"),
        ),
    ),
)

AG_NEWS = Corpus(
    name="ag_news",
    title="AG's news topics: World, Sports, Business, Sci/Tech",
    task="classification",
    license="research and other non-commercial use",
    citation=(
        "Xiang Zhang, Junbo Zhao and Yann LeCun. 2015. Character-level Convolutional Networks "
        "for Text Classification. NIPS 28. From the corpus gathered by Antonio Gulli."
    ),
    homepage="http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
    files=(
        CorpusFile(
            name="train.csv",
            rows=120_000,
            size=29_470_338,
            sha256="76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
            url=f"{_AG_NEWS_URL}/train.csv",
        ),
        CorpusFile(
            name="test.csv",
            rows=7_600,
            sha256="521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
            url=f"{_AG_NEWS_URL}/test.csv",
        ),
        CorpusFile(name="classes.txt", rows=4, url=f"{_AG_NEWS_URL}/classes.txt"),
    ),
    accepts_subset=True,
    remark="No validation split is published: training rows are held out instead.",
)

COUPLET = Corpus(
    name="couplet",
    title="Chinese couplets: first lines and the second lines that answer them",
    task="couplet",
    license="none stated by the publisher",
    citation=(
        "wb14123. 2017. couplet-dataset: more than 700,000 couplets, "
        "from the collection of the blog of 冯重朴_梨味斋散叶_."
    ),
    homepage="https://github.com/wb14123/couplet-dataset",
    files=(
        *_couplets("train", 770_491),
        *_couplets("test", 4_000),
        *(
            CorpusFile(name=f"{split}/{side}.txt", is_required=False)
            for split in ("val", "verse")
            for side in ("in", "out")
        ),
    ),
    accepts_subset=True,
    remark=(
        "No validation split is published: without val/, training pairs are held out instead. "
        "A copy may have val/ and verse/ (couplets taken from regulated verse)."
    ),
)

CORPORA = {corpus.name: corpus for corpus in (MULTI30K, AG_NEWS, COUPLET)}
