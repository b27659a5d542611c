"""Text in one language becomes a parallel corpus: a model translates every line of it.

The given text may be on either side of the corpus. Text in the target language, translated by a
model of the opposite direction, is back-translation (Sennrich et al. 2016, "Improving Neural
Machine Translation Models with Monolingual Data"). Text in the source language, translated by
better models, is sequence-level distillation (Kim and Rush 2016).

The work is done in chunks of lines. After each of them the two files and the position in the input
are saved, so a run that was killed goes on from there, and ends with the same files.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from core.config import check_range
from core.errors import CorpusError, UserError
from core.progress import Progress
from core.storage.checkpoint import WEIGHTS_FILE
from core.storage.files import (
    exists,
    is_file,
    read_json,
    reason_of,
    require_regular_file,
    write_json,
)
from core.storage.lock import only_writer
from tasks.runs.checkpoint_folder import CONFIG_FILE, text_files
from tasks.runs.provenance import corpus_digests, provenance
from tasks.seq2seq.request import GenerationRequest
from tasks.streaming.lines import Chunk, count_lines, read_chunks
from tasks.translation.predict import Translator

SYNTHESIS_FILE = "synthesis.json"
UNFINISHED = "unfinished"
"""A folder in the folder of the corpus, as long as the corpus is not complete."""

MAX_LENGTH_RATIO = 100.0
# Short texts may differ by a few tokens whatever the ratio.
_FREE_TOKENS = 5

Pair = tuple[str, str]


@dataclass
class State:
    """How far a synthesis is.

    Attributes:
        about: its provenance.
        lines, total: the number of finished lines, and of all.
        sizes: of both files, in bytes.
        counts: the number of pairs, and of the lines that were left out, by reason.
    """

    about: dict[str, Any]
    lines: int
    total: int
    sizes: list[int]
    counts: Counter[str]


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """What is translated, by which models and how.

    Lines are left out, and counted, if they are empty or have an empty translation; if they are too
    long for the model to translate in one piece; or if the tokens of one side are more than
    ``length_ratio`` times those of the other, plus five. All of a line's ``n_best`` translations
    that differ become pairs.

    Attributes:
        text: a UTF-8 file, one sentence a line.
        out: the folder of the corpus, with ``train.de`` and ``train.en`` for a model of German and
            English; ``synthesis.json`` says how it was made.
        models: the folders of the models, which are digested.
        translator: with these models.
        request: how to search.
    """

    text: Path
    out: Path
    models: Sequence[Path]
    translator: Translator
    request: GenerationRequest
    length_ratio: float = 2.0

    def __post_init__(self) -> None:
        check_range("length_ratio", self.length_ratio, 1.0, MAX_LENGTH_RATIO)

    def make(self) -> dict[str, Any]:
        """Makes the corpus, or the rest of one that was begun; returns ``synthesis.json``.

        Raises:
            UserError: ``out`` has another corpus, or one that was begun in another way; a file
                cannot be read or written; ``text`` is not UTF-8.
        """
        about = self._about()
        finished = self.out / SYNTHESIS_FILE
        if is_file(finished):
            done = read_json(finished)
            if not isinstance(done, dict) or _conditions(done) != _conditions(about):
                raise UserError(f"{self.out}: there is another corpus; name another --out")
            return done
        folder = self.out / UNFINISHED
        if not exists(folder) and any(map(exists, self._files(self.out))):
            raise UserError(f"{self.out}: there is a corpus already; name another --out")
        with only_writer(self.out, lock=folder / "lock") as check_place:
            state = self._state(about)
            if state.lines < state.total:
                self._translate(state)
            check_place()
            result = about | {"counts": {"lines": state.total, **state.counts}}
            for unfinished, path in zip(self._files(folder), self._files(self.out), strict=True):
                if is_file(unfinished):  # or it was moved before the run was killed
                    unfinished.replace(path)
            write_json(finished, result)
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def _about(self) -> dict[str, Any]:
        """Returns the provenance of the corpus."""
        config = self.translator.config.data
        search = self.request.resolve(self.translator.generation)
        try:
            require_regular_file(self.text)
        except OSError as error:
            raise CorpusError(self.text, f"cannot read: {reason_of(error)}") from error
        return {
            **provenance("synthesis"),
            "text": corpus_digests(self.text.parent, [self.text]),
            "language": config.src,
            "translated_into": config.tgt,
            "models": [_digests(folder) for folder in self.models],
            "search": asdict(search),
            "batch_tokens": self.request.batch_tokens,
            "length_ratio": self.length_ratio,
            "device": self.translator.device.type,
        }

    def _files(self, folder: Path) -> tuple[Path, Path]:
        config = self.translator.config.data
        return folder / f"train.{config.src}", folder / f"train.{config.tgt}"

    def _state(self, about: dict[str, Any]) -> State:
        """Returns the state of a synthesis that was killed, or a new one."""
        path = self.out / UNFINISHED / "state.json"
        if not is_file(path):
            with self.text.open("rb") as stream:
                total = count_lines(stream)
            if not total:
                raise CorpusError(self.text, "the file is empty")
            return State(about, lines=0, total=total, sizes=[0, 0], counts=Counter(pairs=0))
        saved: Any = read_json(path)
        begun = saved.get("about") if isinstance(saved, dict) else None
        if not isinstance(begun, dict) or _conditions(begun) != _conditions(about):
            raise UserError(
                f"{self.out}: the corpus was begun with another text, model or option, or another "
                f"version of torch; go on with the old ones, remove the folder, or name another"
            )
        return State(**saved | {"counts": Counter(saved["counts"])})

    def _translate(self, state: State) -> None:
        """Translates the lines that are not in ``state``, and saves it after every chunk."""
        folder = self.out / UNFINISHED
        paths = self._files(folder)
        for path, size in zip(paths, state.sizes, strict=True):
            with _written(path) as file:
                file.truncate(size)
        progress = Progress(state.total, "translating", unit="lines", done=state.lines)
        with progress, self.text.open("rb") as stream:
            first = 0
            for lines in read_chunks(stream, str(self.text)):
                chunk = Chunk(first=first, lines=lines)
                first += len(lines)
                if chunk.first < state.lines:
                    continue
                pairs = [*self._pairs(chunk, state.counts)]
                state.counts["pairs"] += len(pairs)
                for number, path in enumerate(paths):
                    content = "".join(f"{pair[number]}\n" for pair in pairs).encode()
                    with _written(path) as file:
                        file.write(content)
                    state.sizes[number] += len(content)
                state.lines = first
                write_json(folder / "state.json", vars(state))
                progress.advance(len(lines))

    def _pairs(self, chunk: Chunk, counts: Counter[str]) -> Iterator[Pair]:
        """Yields the lines of ``chunk`` with their translations; ``counts`` the others."""
        translator = self.translator
        encode_source, encode_target = translator.source.encode, translator.target.encode
        kept: list[tuple[int, str, int]] = []
        for number, line in zip(chunk.numbers, chunk.texts, strict=True):
            text = line.strip()
            length = len(encode_source(text))
            if not length:
                counts["empty"] += 1
            elif length > translator.max_source_tokens:
                counts["too_long"] += 1
            else:
                kept.append((number, text, length))
        numbers, texts, lengths = zip(*kept, strict=True) if kept else ((), (), ())
        # A pair with two equal sides would teach a model to copy.
        request = replace(self.request, numbers=numbers, pass_through=False)
        results = translator.generate(texts, request)
        for text, length, result in zip(texts, lengths, results, strict=True):
            others = (" ".join(found.text.split()) for found in result.hypotheses)
            for translation in dict.fromkeys(others):
                shorter, longer = sorted((length, len(encode_target(translation))))
                if not translation:
                    counts["empty"] += 1
                elif longer > self.length_ratio * shorter + _FREE_TOKENS:
                    counts["length_ratio"] += 1
                else:
                    yield text, translation


def _digests(folder: Path) -> dict[str, str]:
    """Returns the digests of a model's files by name."""
    names = [CONFIG_FILE, *text_files(folder), WEIGHTS_FILE]
    return corpus_digests(folder, [folder / name for name in names])


@contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """Yields ``path``, open for appending; what was written is on the disk at the end."""
    try:
        with path.open("ab") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"{path}: cannot write: {reason_of(error)}") from error


def _conditions(about: dict[str, Any]) -> dict[str, Any]:
    """Returns what must be the same when a run goes on."""
    free = ("command", "commit", "python", "counts")
    return {name: value for name, value in about.items() if name not in free}
