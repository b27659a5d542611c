"""``bulk``: whole files on all cores of a machine, or on the machines of a Ray cluster.

The driver reads files in chunks of rows, hands them to workers, and writes their answers in order.
A worker is a process with one model (an actor of Ray). Ray starts one that dies again, and repeats
its chunks. A file gets its name once it is whole, so a second start does what is missing.
"""

import fnmatch
import json
import logging
import os
import posixpath
import re
import secrets
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BufferedReader
from itertools import chain, cycle, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core.errors import ConfigError, UserError
from core.progress import Progress, log
from core.storage.files import reason_of
from tasks.commands import parameters
from tasks.commands.options import (
    ModelOptions,
    given,
    option_names,
    require_packages,
    take,
    take_given,
)
from tasks.couplet.request import CoupletRequest
from tasks.streaming.lines import json_line, one_line
from tasks.task import task_named

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

CHUNK_ROWS = 500

SUFFIXES = {".txt": "text", ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".parquet": "parquet"}
OUTPUTS = {"parquet": ".parquet", "json": ".jsonl", "text": ".txt"}

# What each command adds to a row. A file of text has the first of them alone.
ANSWERS = {
    "translate": ("translation", "score", "confidence", "familiarity"),
    "classify": ("label", "score", "familiarity"),
    "couplet": ("second", "score"),
    "score": ("mean", "log_prob", "unknown"),
}

Row = dict[str, Any]
Columns = tuple[str, ...]
Chunk = tuple["pa.Table", dict[int, str]]
"""Some rows of a file, and why some of them are refused, by their places in the chunk."""


def filesystem_of(address: str) -> "tuple[FileSystem, str]":
    """Returns the file system of an address, such as ``s3://bucket/file``, and the path in it."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in address:
        return LocalFileSystem(), os.path.abspath(address)  # noqa: PTH100  # a str, as from_uri
    try:
        return FileSystem.from_uri(address)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{address}: {one_line(str(error))}") from error


def files_at(address: str) -> list[tuple[str, str]]:
    """Returns the files of an address (a file, a folder or a glob) and their names in an output."""
    from pyarrow.fs import FileSelector, FileType

    system, path = filesystem_of(address)
    prefix = address.removesuffix(path) if "://" in address else ""
    fixed, *wild = re.split(r"[*?[]", path, maxsplit=1)
    if not wild and system.get_file_info(path).type == FileType.File:
        return [(address, posixpath.basename(path))]
    root = posixpath.dirname(fixed) if wild else path
    return sorted(
        (prefix + info.path, posixpath.relpath(info.path, root))
        for info in system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        if info.type == FileType.File and (not wild or fnmatch.fnmatchcase(info.path, path))
    )


def find_inputs(address: str) -> list[tuple[str, str]]:
    """Returns those of :func:`files_at` that can be read. Raises a UserError if there is none."""
    files = [file for file in files_at(address) if posixpath.splitext(file[1])[1] in SUFFIXES]
    if not files:
        raise UserError(f"{address}: no files there that end in {', '.join(SUFFIXES)}")
    return files


def read_chunks(address: str) -> Iterator[Chunk]:
    """Yields the rows of a file. Raises an OSError or a ValueError if it cannot be read."""
    import pyarrow as pa

    system, path = filesystem_of(address)
    kind = SUFFIXES[posixpath.splitext(path)[1]]
    with system.open_input_file(path) as stream:
        if kind == "parquet":
            from pyarrow.parquet import ParquetFile

            for batch in ParquetFile(stream).iter_batches(CHUNK_ROWS):
                yield pa.Table.from_batches([batch]), {}
        elif kind == "csv":
            import pandas

            comma = "\t" if path.endswith(".tsv") else ","
            frames = pandas.read_csv(
                stream, sep=comma, dtype=str, keep_default_na=False, chunksize=CHUNK_ROWS
            )
            for frame in frames:
                yield pa.Table.from_pandas(frame.fillna(""), preserve_index=False), {}
        else:
            buffered, names = BufferedReader(stream), dict[str, None]()
            while lines := list(islice(buffered, CHUNK_ROWS)):
                rows = [_row_of(line, is_json=kind == "json") for line in lines]
                refused = {place: row for place, row in enumerate(rows) if isinstance(row, str)}
                found = [{} if isinstance(row, str) else row for row in rows]
                names = dict.fromkeys(name for row in found for name in row) or names
                if not names:
                    hint = "a JSON object with fields; lines of text belong in a .txt file"
                    what = hint if kind == "json" else "text in UTF-8"
                    raise ValueError(f"no line is {what} (the first: {refused.get(0, 'empty')})")
                yield pa.table({n: _array([row.get(n) for row in found]) for n in names}), refused


def _array(values: list[Any]) -> "pa.Array":
    import pyarrow as pa

    try:
        return pa.array(values)
    except (TypeError, ValueError):  # of several types
        return pa.array([None if value is None else _text(value) for value in values])


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return one_line(value or "")
    return json.dumps(value, ensure_ascii=False, default=str)


def _row_of(line: bytes, *, is_json: bool) -> Row | str:
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
        row = json.loads(text) if is_json else {"text": text}
    except ValueError as error:
        return str(error)
    return row if isinstance(row, dict) else "not a JSON object"


def write_file(address: str, kind: str, added: int, tables: "Iterator[pa.Table]") -> None:
    """Writes a file of a ``kind`` of ``OUTPUTS``, which gets its name once it is whole.

    The columns of a Parquet file are those of the first table. The last ``added`` ones are answers;
    a file of text has the first of them.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    system, path = filesystem_of(address)
    system.create_dir(posixpath.dirname(path), recursive=True)
    partial = f"{path}.partial"
    try:
        with system.open_output_stream(partial) as stream:
            if kind == "parquet":
                first = next(tables, pa.table({}))
                # A column without a value may have texts later.
                types = (pa.string() if pa.types.is_null(t) else t for t in first.schema.types)
                schema = pa.schema(list(zip(first.column_names, types, strict=True)))
                with ParquetWriter(stream, schema) as writer:
                    for table in chain([first], tables):
                        writer.write_table(table.cast(schema))
            for table in tables:
                if kind == "json":
                    lines = list(map(json_line, table.to_pylist()))
                else:
                    main = table.column(table.num_columns - added).to_pylist()
                    lines = ["" if value is None else one_line(str(value)) for value in main]
                stream.write("".join(f"{line}\n" for line in lines).encode())
    except BaseException:
        system.delete_file(partial)
        raise
    system.move(partial, path)


class Worker:
    """One model in a process of its own, which adds the columns of its answers to tables."""

    def __init__(self, command: str, options: Row, engine: Row, model: ModelOptions) -> None:
        import torch

        if model.threads:
            torch.set_num_threads(model.threads)
        task = {"classify": "classification", "couplet": "couplet"}.get(command, "translation")
        if engine and command != "translate":
            raise ConfigError(f"{command} has one engine: leave out --engine and --int8")
        predictor: Any = task_named(task).load(model.model, device=model.device, **engine)
        self._command, self._predictor = command, predictor
        self._options = given({**options, "batch_tokens": model.batch_tokens})
        if command in ("translate", "couplet"):
            predictor.check(predictor.request_type.of(**self._options))
        elif searching := [*given(options)]:
            raise ConfigError(f"is not for {command}: it does not search", option=searching[0])

    def answer(self, chunk: Chunk, columns: Columns, first: int) -> Chunk:
        """Returns the chunk, whose first row has the number ``first``, with the answers."""
        import pyarrow as pa

        table, refused = chunk
        texts = ([_text(value) for value in table.column(name).to_pylist()] for name in columns)
        rows = list(zip(*texts, strict=True))
        for place, row in enumerate(rows):
            if reason := refused.get(place) or self._predictor.refusal(" ".join(row)):
                refused = {**refused, place: reason}
                rows[place] = ("",) * len(columns)
        records = self._records(rows, first)
        for name in ANSWERS[self._command]:
            values = [None if n in refused else row.get(name) for n, row in enumerate(records)]
            kind = pa.string() if name in ("translation", "label", "second") else pa.float64()
            while name in table.column_names:
                name += "_"
            table = table.append_column(name, pa.array(values, kind))
        return table, refused

    def _records(self, rows: list[tuple[str, ...]], first: int) -> list[Row]:
        """Returns the results as the command prints them with --json."""
        texts = list(map(" ".join, rows))
        if self._command == "score":
            pairs = ([row[side] for row in rows] for side in (0, 1))
            results = self._predictor.score(*pairs, **self._options)
        elif self._command == "classify":
            results = self._predictor.predict(texts, **self._options)
        else:
            numbers = range(first, first + len(rows))
            results = self._predictor.predict(texts, **self._options, numbers=numbers)
        return [result.record() for result in results]


@contextmanager
def ray_at(address: str) -> Iterator[Any]:
    """Connects to a cluster, or starts one on this machine. Raises a UserError if that fails."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    settings: Row = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    with ExitStack() as stack:
        if address == "local":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))
            settings |= {"_temp_dir": folder, "include_dashboard": False}
            # A machine may have no network, and no shared memory that its user may write.
            settings |= {"_node_ip_address": "127.0.0.1", "_plasma_directory": folder}
            # Its user may have no home, where Ray would write the secret of this cluster.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        elif (checkout := Path(__file__).parents[2]).joinpath("cli.py").exists():
            settings["runtime_env"] = {"working_dir": str(checkout)}
        try:
            ray.init(**settings)
        except Exception as error:  # Ray raises plain ones, too
            raise UserError(f"{address}: no Ray cluster: {one_line(str(error))}") from error
        stack.callback(ray.shutdown)
        try:
            yield ray
        except ray.exceptions.RayActorError as error:
            reason = one_line(str(error))
            raise UserError(f"{address}: the Ray cluster failed; start again: {reason}") from error


class FileFault(Exception):
    """A file that cannot be answered as a whole."""


Answer = tuple[str, int, Any]
"""A file, the number of the chunk's first row, and a future of Ray; or why the file ends there."""


def answers(workers: Sequence[Any], files: Iterable[str], columns: Columns) -> Iterator[Answer]:
    """Yields the answers to the chunks of each file in order. Files are read ahead a little."""
    waiting: deque[Answer] = deque()
    turn = cycle(workers)
    for file in files:
        first, end = 0, ""
        try:
            for chunk in read_chunks(file):
                if missing := set(columns).difference(chunk[0].column_names):
                    known = ", ".join(chunk[0].column_names)
                    raise ValueError(f"no column {missing.pop()!r} among {known}: see --text")
                waiting.append((file, first, next(turn).answer.remote(chunk, columns, first)))
                first += len(chunk[0])
                if len(waiting) > 2 * len(workers):
                    yield waiting.popleft()
        except (OSError, ValueError) as error:  # Arrow's and pandas' errors are ValueErrors, too
            end = reason_of(error) if isinstance(error, OSError) else str(error)
        waiting.append((file, first, end))
    yield from waiting


def tables_of(
    ray: Any,
    parts: Iterable[Answer],
    counts: Counter[str],
    progress: Progress,
    *,
    has_familiarity: bool,
) -> "Iterator[pa.Table]":
    """Yields the tables of one file, counts its rows and logs refused ones; or raises FileFault."""
    from tasks.familiarity import is_unfamiliar

    for file, first, answer in parts:
        if isinstance(answer, str):
            if answer:
                raise FileFault(f"after row {first}: {answer}")
            return
        table, refused = ray.get(answer)
        for place, reason in sorted(refused.items()):
            log(f"{file}:{first + place + 1}: refused: {reason}")
        # The last column is the familiarity, if the task has one.
        unlike = sum(map(is_unfamiliar, table.columns[-1].to_pylist())) if has_familiarity else 0
        counts.update(rows=len(table), refused=len(refused), unfamiliar=unlike)
        progress.advance(len(table))
        yield table


@click.command()
@click.argument("command", metavar="TASK", type=click.Choice(tuple(ANSWERS)))
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option("--output", required=True, metavar="FOLDER", help="Where files are written.")
@click.option(
    "--format", "kind", type=click.Choice(tuple(OUTPUTS)), default="parquet", show_default=True
)
@click.option("--text", default="text", metavar="NAMES", help="The columns to read; else text.")
@click.option("--address", default="local", help="local, auto or ray://host:10001.")
@click.option("--workers", type=click.IntRange(1, 10_000), help="Models; else one a core.")
@click.option("--gpus-per-worker", "gpus", type=click.FloatRange(0, 64), default=0)
@parameters.models
@parameters.machine
@parameters.batch
@parameters.engine
@parameters.from_fields(CoupletRequest, "search", "length", "translation", "couplet")
def bulk(
    command: str,
    inputs: tuple[str, ...],
    output: str,
    kind: str,
    text: str,
    address: str,
    workers: int | None,
    gpus: float,
    **options: Any,
) -> None:
    """Work on whole files and folders, on all cores or on a Ray cluster.

    TASK is translate, classify, couplet, or score (of translations: --text source,target). INPUT is
    a file, a folder or a glob of text (.txt), CSV (.csv, .tsv), JSON Lines (.jsonl) or Parquet
    files: on this machine, or at an address such as s3://bucket/folder. Each becomes one file in
    --output, with the columns of the input and of the answers, as a whole or not at all. What is
    there already is left out, so the command can be started again. A row that cannot be answered is
    named and stays empty, and the exit code is 1.

    \b
        bulk translate letters/ --output translated/
        bulk classify news.csv --text title,body --output labeled/ --workers 4
        bulk couplet s3://bucket/lines --output s3://bucket/answers --address ray://host:10001
        bulk score pairs.parquet --text de,en --output scored/
    """
    require_packages(
        "ray", "pyarrow", otherwise="bulk needs Ray: pip install 'transformer-suite[ray]'"
    )
    targets: dict[str, str] = {}
    for file, name in (found for each in inputs for found in find_inputs(each)):
        target = posixpath.splitext(name)[0] + OUTPUTS[kind]
        if target in targets.values() and targets.get(file) != target:
            raise ConfigError(f"several files would be written to {target}: name another --output")
        targets[file] = target
    there = {name for _, name in files_at(output)}
    missing = [file for file, target in targets.items() if target not in there]
    columns = tuple(name.strip() for name in text.split(","))
    if command == "score" and len(columns) != 2:
        raise ConfigError("score needs two columns: --text SOURCE,TARGET")
    model = take(ModelOptions, options)
    engine = take_given(options, "engine", "int8")
    with option_names():
        Worker(command, options, engine, model)  # errors appear here, before Ray is started
    counts, started = Counter[str](), time.monotonic()
    has_familiarity = ANSWERS[command][-1] == "familiarity"
    with ray_at(address) as ray, Progress(None, "bulk", unit="rows") as progress:
        cores = int(ray.cluster_resources()["CPU"])
        count = workers or max(1, cores)
        model = replace(model, threads=model.threads or max(1, cores // count))
        actor = ray.remote(Worker).options(
            num_cpus=min(1.0, cores / count), num_gpus=gpus, max_restarts=-1, max_task_retries=-1
        )
        actors = [actor.remote(command, options, engine, model) for _ in range(count)]
        for file, parts in groupby(answers(actors, missing, columns), key=itemgetter(0)):
            try:
                tables = tables_of(ray, parts, counts, progress, has_familiarity=has_familiarity)
                target = posixpath.join(output, targets[file])
                write_file(target, kind, len(ANSWERS[command]), tables)
            except (FileFault, OSError, ValueError) as error:
                log(f"{file}: {one_line(str(error))}")
                counts["lost"] += 1
    done = len(targets) - len(missing)
    rate = counts["rows"] / (time.monotonic() - started)
    unlike = f", {counts['unfamiliar']:,} unfamiliar" if has_familiarity else ""
    log(
        f"{counts['rows']:,} rows of {len(missing):,} files ({rate:.1f} a second{unlike}); "
        f"{done:,} files were there already"
    )
    if counts["lost"] or counts["refused"]:
        raise UserError(
            f"{counts['refused']:,} rows are refused, {counts['lost']:,} files are left out"
        )
