"""Text in one language becomes a parallel corpus: a model translates every line of it.

The given text may be on either side of the corpus. Text in the target language, translated by a
model of the opposite direction, is back-translation (Sennrich et al. 2016, "Improving Neural
Machine Translation Models with Monolingual Data"). Text in the source language, translated by
better models, is sequence-level distillation (Kim and Rush 2016).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.config import check_range
from core.errors import CorpusError, UserError
from core.progress import Progress
from core.storage.checkpoint import WEIGHTS_FILE
from core.storage.files import exists, new_folder, write_json
from data.pairs import PAIR_SUFFIXES, iter_texts
from data.tables import DEFAULT_LAYOUT, TableLayout
from tasks.runs.checkpoint_folder import CONFIG_FILE, text_files
from tasks.runs.provenance import corpus_digests, provenance
from tasks.seq2seq.request import GenerationRequest, batch_tokens_on
from tasks.streaming.lines import Chunk, open_rows, open_texts
from tasks.translation.predict import Translator

SYNTHESIS_FILE = "synthesis.json"

MAX_LENGTH_RATIO = 100.0
# Short texts may differ by a few tokens whatever the ratio.
_FREE_TOKENS = 5


def synthesize(
    text: Path,
    out: Path,
    models: Sequence[Path],
    translator: Translator,
    request: GenerationRequest,
    *,
    length_ratio: float = 2.0,
    column: str | None = None,
    layout: TableLayout = DEFAULT_LAYOUT,
) -> dict[str, Any]:
    """Makes the corpus ``out`` of the lines of ``text``; returns the content of ``synthesis.json``.

    Lines are left out, and counted, if they are empty or have an empty translation; if they are too
    long for the model to translate in one piece; or if the tokens of one side are more than
    ``length_ratio`` times those of the other, plus five. All of a line's ``n_best`` translations
    that differ become pairs.

    Args:
        text: a UTF-8 file, one sentence a line; or a table or TMX file.
        column: the column or the language of the text there; None: the model's source language.
        layout: how a table is written.
        out: a new folder, with ``train.de`` and ``train.en`` for a model of German and English;
            ``synthesis.json`` says how they were made.
        models: the folders of the models of ``translator``, which are digested.
        request: how to search.

    Raises:
        UserError: ``out`` exists, a file cannot be read or written, or ``text`` is not UTF-8.
    """
    check_range("length_ratio", length_ratio, 1.0, MAX_LENGTH_RATIO)
    if exists(out):
        raise UserError(f"{out}: is there already; name another folder")
    config = translator.config.data
    opened = open_texts((), text)
    if column or text.suffix.lower() in PAIR_SUFFIXES:
        column = column or config.src
        opened = open_rows(iter_texts(text, column, layout))
    about = {
        **provenance("synthesis"),
        "text": corpus_digests(text.parent, [text]),
        **({"column": column} if column else {}),
        "language": config.src,
        "translated_into": config.tgt,
        "models": [
            corpus_digests(folder, [folder / name for name in names])
            for folder in models
            if (names := [CONFIG_FILE, *text_files(folder), WEIGHTS_FILE])
        ],
        "search": asdict(request.resolve(translator.generation)),
        "engine": translator.engine,
        "batch_tokens": batch_tokens_on(translator.device, request.batch_tokens, translator.engine),
        "length_ratio": length_ratio,
        "device": translator.device.type,
    }
    counts: Counter[str] = Counter()
    with new_folder(out) as folder, opened as (chunks, total), ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"train.{language}").open("w", encoding="utf-8"))
            for language in (config.src, config.tgt)
        ]
        progress = stack.enter_context(Progress(total, "translating", unit="lines"))
        for lines in chunks:
            chunk = Chunk(first=counts["lines"], lines=lines)
            for pair in _pairs(chunk, translator, request, length_ratio, counts):
                for file, line in zip(files, pair, strict=True):
                    file.write(f"{line}\n")
                counts["pairs"] += 1
            counts["lines"] += len(lines)
            progress.advance(len(lines))
        if not counts:
            raise CorpusError(text, "the file is empty")
        about["counts"] = counts
        write_json(folder / SYNTHESIS_FILE, about)
    return about


def _pairs(
    chunk: Chunk,
    translator: Translator,
    request: GenerationRequest,
    length_ratio: float,
    counts: Counter[str],
) -> Iterator[tuple[str, str]]:
    """Yields the lines of ``chunk`` with their translations; ``counts`` the others."""
    kept: list[tuple[int, str, int]] = []
    for number, line in zip(chunk.numbers, chunk.texts, strict=True):
        text = line.strip()
        length = len(translator.source.encode(text))
        if not length:
            counts["empty"] += 1
        elif length > translator.max_source_tokens:
            counts["too_long"] += 1
        else:
            kept.append((number, text, length))
    # A pair with two equal sides would teach a model to copy.
    own = request.replaced(numbers=[number for number, *_ in kept], pass_through=False)
    results = translator.generate([text for _, text, _ in kept], own)
    for (_, text, length), result in zip(kept, results, strict=True):
        others = (" ".join(found.text.split()) for found in result.hypotheses)
        for translation in dict.fromkeys(others):
            shorter, longer = sorted((length, len(translator.target.encode(translation))))
            if not translation:
                counts["empty"] += 1
            elif longer > length_ratio * shorter + _FREE_TOKENS:
                counts["length_ratio"] += 1
            else:
                yield text, translation
