"""Several processes, started by torchrun, share the lines of one file.

Every process reads the whole input and works on every n-th chunk of it. It writes the results into
a file of its own, its shard, in a temporary folder beside the output. When all shards are complete,
rank 0 joins them in order. torchrun watches the processes: if one fails, it stops the others, and
there is no output. The processes tell one another about their progress through torchrun's store of
keys and values.
"""

from __future__ import annotations

import json
import math
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from core.distributed.world import World
from core.errors import ConfigError, UserError
from core.storage.files import reason_of
from tasks.streaming.lines import CHUNK_LINES

# A process that finishes no batch for this long is lost: stopped, or on an unreachable machine.
# torchrun notices at once when a process ends.
SILENT_SECONDS = 600.0
POLL_SECONDS = 0.05

# When a process ends, torchrun stops the others. The one that reports an error needs this long.
REPORT_SECONDS = 3.0

# Files of more rounds than this have full chunks: an incomplete last round costs little.
_FEW_ROUNDS = 4

_LENGTH_BYTES = 8


def chunk_lines(total: int | None, size: int) -> int:
    """Returns the number of lines in a chunk, for ``total`` lines and ``size`` processes.

    Raises:
        ConfigError: the number of lines is unknown.
    """
    if total is None:
        raise ConfigError("several processes must all read the input: it must be a plain file")
    rounds = math.ceil(total / (CHUNK_LINES * size))
    if rounds > _FEW_ROUNDS:
        return CHUNK_LINES
    # Smaller chunks, so that every process has work, and equally much.
    return max(1, math.ceil(total / (max(1, rounds) * size)))


class Shards:
    """The shard of this process and, in rank 0, those of the others.

    Args:
        store: torchrun's store of keys and values.
        folder: the folder of all shards, which exists.
    """

    def __init__(self, world: World, store: Any, folder: Path) -> None:
        self.world = world
        self.store = store
        self.folder = folder
        self.chunks = 0
        with _writable(folder):
            self._file: IO[bytes] = self._path(world.rank).open("wb")

    def write(self, text: str) -> None:
        """Appends the results of one chunk to the shard."""
        content = text.encode()
        with _writable(self.folder):
            self._file.write(len(content).to_bytes(_LENGTH_BYTES) + content)
        self.chunks += 1

    def report_progress(self) -> None:
        """Tells the others that this process is alive."""
        with _connected(self.world):
            self.store.add(f"progress/{self.world.rank}", 1)

    def finish(self, count: int, checksum: int, tally: Mapping[str, int]) -> None:
        """Declares the shard complete.

        Args:
            checksum: that of all ``count`` lines of the input.
            tally: counts of the lines in this shard, by kind.
        """
        with _writable(self.folder):
            self._file.close()
        with _connected(self.world):
            about = json.dumps([[count, checksum], self.chunks, tally])
            self.store.set(f"finished/{self.world.rank}", about)
            # ``set`` does not wait until the store has the value, but ``add`` does.
            self.store.add(f"progress/{self.world.rank}", 1)

    def join(self, write: Callable[[str], object]) -> Counter[str]:
        """Writes the results of all processes in order, as soon as all shards are complete.

        Returns:
            The sum of the tallies of all processes.

        Raises:
            UserError: a process has failed, is silent, or has read different lines.
        """
        ranks = range(self.world.size)
        for rank in ranks[1:]:
            self._wait_for(rank)
        with _connected(self.world):
            finished = [json.loads(self.store.get(f"finished/{rank}")) for rank in ranks]
        inputs, chunks, tallies = zip(*finished, strict=True)
        for rank in ranks[1:]:
            if inputs[rank] != inputs[0]:
                raise UserError(
                    f"rank {rank} and rank 0 read different lines: the input must be the same file "
                    "for all processes"
                )
        with ExitStack() as stack:
            files = [stack.enter_context(self._path(rank).open("rb")) for rank in ranks]
            for number in range(sum(chunks)):
                file = files[number % len(files)]
                length = int.from_bytes(header := file.read(_LENGTH_BYTES))
                content = file.read(length)
                if len(header) < _LENGTH_BYTES or len(content) < length:
                    raise UserError(f"{file.name}: cut off: another process has written here")
                write(content.decode())
        return sum(map(Counter, tallies), Counter())

    def _wait_for(self, rank: int) -> None:
        """Waits until a shard is complete, as long as its process makes progress."""
        progress, since = -1, time.monotonic()
        while True:
            with _connected(self.world):
                if self.store.check([f"finished/{rank}"]):
                    return
                if self.store.add("failures", 0):
                    raise UserError
                latest = self.store.add(f"progress/{rank}", 0)
            if latest != progress:
                progress, since = latest, time.monotonic()
            elif time.monotonic() - since > SILENT_SECONDS:
                raise UserError(
                    f"rank {rank} is lost: no progress for {SILENT_SECONDS:.0f} seconds"
                )
            time.sleep(POLL_SECONDS)

    def _path(self, rank: int) -> Path:
        return self.folder / str(rank)


@contextmanager
def open_shards(world: World, output: Path | None) -> Iterator[Shards]:
    """Connects the processes and opens their shards.

    An error is reported once, by the process that meets it first: those of the others have no
    message. Rank 0 removes the shards at the end, and those that killed runs have left behind.

    Args:
        output: the output file; None for standard output, whose shards are in the folder for
            temporary files.

    Raises:
        UserError: the processes cannot be connected, or a shard cannot be written.
    """
    store = _store_of(world)
    folder: Path | None = None
    try:
        folder = _shared_folder(world, store, output)
        yield Shards(world, store, folder)
    except UserError as error:
        is_first = True
        with suppress(RuntimeError):  # torchrun has ended
            is_first = store.add("failures", 1) == 1
        if not is_first:
            time.sleep(REPORT_SECONDS)
        kind = ConfigError if isinstance(error, ConfigError) else UserError
        rank = f" (rank {world.rank})" if world.rank and str(error) else ""
        raise kind(f"{error}{rank}" if is_first else "") from error
    finally:
        if folder is not None and world.is_main:
            shutil.rmtree(folder, ignore_errors=True)


def _store_of(world: World) -> Any:
    """Returns torchrun's store of keys and values."""
    from torch.distributed.rendezvous import rendezvous

    with _connected(world):
        store, *_ = next(rendezvous("env://", timeout=timedelta(seconds=SILENT_SECONDS)))
        return store


def _shared_folder(world: World, store: Any, output: Path | None) -> Path:
    """Returns the folder of the shards, which rank 0 makes."""
    if not world.is_main:
        with _connected(world):
            return Path(store.get("folder").decode())
    if output is None:
        with _writable(Path("the folder of temporary files")):
            folder = Path(tempfile.mkdtemp(suffix=".shards"))
    else:
        output = output.absolute()
        prefix = f".{output.name[:40]}."
        with _writable(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            for leftover in output.parent.iterdir():
                if leftover.name.startswith(prefix) and leftover.suffix == ".shards":
                    shutil.rmtree(leftover, ignore_errors=True)
            folder = output.parent / f"{prefix}{secrets.token_hex(6)}.shards"
            folder.mkdir()
    with _connected(world):
        store.set("folder", str(folder))
    return folder


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Turns a failure to write into a UserError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot write: {reason_of(error)}") from error


@contextmanager
def _connected(world: World) -> Iterator[None]:
    """Turns a failure of the store into a UserError: torchrun has ended, or cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(
            f"rank {world.rank} has lost the connection to torchrun: start again"
        ) from error
