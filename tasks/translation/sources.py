"""Where sentence pairs come from: a folder of aligned lines, or tables and translation memories."""

from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from core.errors import CorpusError
from core.storage.files import exists, is_file, is_folder
from data.pairs import PAIR_SUFFIXES, TextPair, read_pairs, read_parallel
from data.readers import chosen_encoding
from data.tables import table_paths
from tasks.runs.dataset import Splits, TableSplits
from tasks.translation.config import TranslationData


class PairFolder(Splits[TextPair]):
    """``train.de``, ``train.en``, ``test*.*`` and maybe ``val.*`` in one folder."""

    def __init__(self, folder: Path, config: TranslationData, *, seed: int) -> None:
        self._folder, self._languages = folder, (config.src, config.tgt)
        self._encoding_of = cache(partial(chosen_encoding, named=config.encoding))  # found once
        names = {path.stem for path in folder.glob(f"*.{config.src}")}
        whole = {name for name in names if all(map(is_file, self._paths(name)))} | {"train"}
        whole |= {"val"} if any(map(exists, self._paths("val"))) else set()
        files = {name: self._paths(name) for name in whole}
        super().__init__(folder, files, {"val": config.val_share}, seed=seed)

    def load(self, split: str) -> list[TextPair]:
        return read_parallel(*self._paths(split), encoding_of=self._encoding_of)

    def test_split(self) -> str | None:
        """Returns the first split ``test*`` or None. Raises a CorpusError if a side is missing."""
        for name in self.names():
            if name.startswith("test"):
                return name
        for language in self._languages:
            for path in sorted(self._folder.glob(f"test*.{language}")):
                missing = next(p for p in self._paths(path.stem) if not is_file(p))
                raise CorpusError(missing, f"the file is missing, the other side of {path.name}")
        return None

    def _paths(self, name: str) -> list[Path]:
        return [self._folder / f"{name}.{language}" for language in self._languages]


class PairTables(TableSplits[TextPair]):
    """Tables and translation memories. Equal sources are on one side of what is held out."""

    def __init__(self, path: Path, config: TranslationData, *, seed: int) -> None:
        self._config = config
        shares = {"test": config.test_share, "val": config.val_share}
        super().__init__(path, shares, seed=seed, suffixes=PAIR_SUFFIXES)

    def load_table(self, path: Path) -> list[TextPair]:
        return read_pairs(path, self._config.src, self._config.tgt, self._config)

    def text_and_label(self, row: TextPair) -> tuple[str, str]:
        return row.source, ""


PairSource: TypeAlias = PairFolder | PairTables


def open_pairs(path: Path, config: TranslationData, *, seed: int) -> PairSource:
    """Opens a folder of aligned lines, or tables. Raises a CorpusError if there is no corpus."""
    if not exists(path):
        raise CorpusError(path, "there is no such folder or file")
    if is_folder(path) and not is_file(table_paths(path, PAIR_SUFFIXES)["train"]):
        return PairFolder(path, config, seed=seed)
    return PairTables(path, config, seed=seed)
