"""A command line run by several processes at once, with accidents.

A scenario is a mapping:

    arguments   a command line; "{rank}" in it is the rank of the process
    size        the number of processes
    accident    what happens to which rank after how many of its chunks: ["kill", 2, 1]
    mark        a file that is made at that moment
    silence     the number of seconds without progress after which a rank is lost
    chunk       the number of lines in a full chunk

Under torchrun, this is a program: its argument is a scenario as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import cli
from tasks.streaming import lines, sharding

ACCIDENTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}


def run(scenario: dict[str, Any]) -> None:
    """Runs the part of this process, and ends it."""
    if "silence" in scenario:
        sharding.SILENT_SECONDS = scenario["silence"]
    if "chunk" in scenario:
        lines.CHUNK_LINES = sharding.CHUNK_LINES = scenario["chunk"]
    if "accident" in scenario:
        name, rank, chunk = scenario["accident"]
        if os.environ["RANK"] == str(rank):
            cause(ACCIDENTS[name], chunk, Path(scenario["mark"]))
    cli.main([part.replace("{rank}", os.environ["RANK"]) for part in scenario["arguments"]])


def cause(number: signal.Signals, chunk: int, mark: Path) -> None:
    """Sends this process a signal when it has finished ``chunk`` of its chunks."""
    write = sharding.Shards.write

    def write_or_stop(shards: sharding.Shards, text: str) -> None:
        if shards.chunks == chunk:
            mark.touch()
            os.kill(os.getpid(), number)
        write(shards, text)

    sharding.Shards.write = write_or_stop  # type: ignore[method-assign]


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
