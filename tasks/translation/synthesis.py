"""Text in one language becomes a parallel corpus: a model translates every line of it.

The given text may be on either side of the corpus. Text in the target language, translated by a
model of the opposite direction, is back-translation (Sennrich et al. 2016, "Improving Neural
Machine Translation Models with Monolingual Data"). Text in the source language, translated by
better models, is sequence-level distillation (Kim and Rush 2016).

The work is done in chunks of lines, each saved in a file of its own until all are done, so a
synthesis that was killed goes on from there, and ends with the same corpus.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.config import check_range
from core.errors import CorpusError, UserError
from core.progress import Progress
from core.storage.checkpoint import WEIGHTS_FILE
from core.storage.files import (
    atomic_write,
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
            done: Any = read_json(finished)
            if _conditions(done) != _conditions(about):
                raise UserError(f"{self.out}: there is another corpus; name another --out")
            return done
        folder = self.out / UNFINISHED
        if not exists(folder) and any(map(exists, self._files())):
            raise UserError(f"{self.out}: there is a corpus already; name another --out")
        with only_writer(self.out, lock=folder / "lock") as check_place:
            begun = folder / SYNTHESIS_FILE
            if not is_file(begun):
                write_json(begun, about)
            elif _conditions(read_json(begun)) != _conditions(about):
                raise UserError(
                    f"{self.out}: the corpus was begun with another text, model or option, or "
                    "another version of torch; go on with the old ones, remove the folder, or name "
                    "another"
                )
            chunks = [*self._translated(folder)]
            check_place()
            about["counts"] = self._joined(chunks)
            write_json(finished, about)
            shutil.rmtree(folder, ignore_errors=True)
        return about

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
            "engine": self.translator.engine,
            "batch_tokens": self.request.batch_tokens,
            "length_ratio": self.length_ratio,
            "device": self.translator.device.type,
        }

    def _files(self) -> tuple[Path, Path]:
        config = self.translator.config.data
        return self.out / f"train.{config.src}", self.out / f"train.{config.tgt}"

    def _translated(self, folder: Path) -> Iterator[Path]:
        """Translates the chunks that are not in ``folder`` yet; yields the files of all."""
        with self.text.open("rb") as stream:
            total, first = count_lines(stream), 0
            if not total:
                raise CorpusError(self.text, "the file is empty")
            with Progress(total, "translating", unit="lines") as progress:
                for lines in read_chunks(stream, str(self.text)):
                    path = folder / f"{first}.json"
                    if not is_file(path):
                        counts = Counter(lines=len(lines))
                        pairs = [*self._pairs(Chunk(first=first, lines=lines), counts)]
                        counts["pairs"] = len(pairs)
                        write_json(path, {"pairs": pairs, "counts": counts})
                    first += len(lines)
                    progress.advance(len(lines))
                    yield path

    def _joined(self, chunks: Sequence[Path]) -> Counter[str]:
        """Writes the pairs of all chunks to the files of the corpus; returns the counts."""
        counts: Counter[str] = Counter()
        with ExitStack() as stack:
            files = [
                stack.enter_context(stack.enter_context(atomic_write(path)).open("wb"))
                for path in self._files()
            ]
            for path in chunks:
                chunk: Any = read_json(path)
                counts.update(chunk["counts"])
                for file, side in zip(files, zip(*chunk["pairs"], strict=True), strict=False):
                    file.write("".join(f"{line}\n" for line in side).encode())
        return counts

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


def _conditions(about: Any) -> dict[str, Any]:
    """Returns what must be the same when a synthesis goes on."""
    free = ("command", "commit", "python", "counts")
    items = about.items() if isinstance(about, dict) else ()
    return {name: value for name, value in items if name not in free}
