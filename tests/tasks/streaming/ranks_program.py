"""Command lines run by several processes at once, with accidents; a program, not a test.

Its argument is JSON. Under torchrun it is one scenario, which each process has a part in. Alone, it
is a list of scenarios: for each the program forks as many processes as it asks for, which saves
them the imports, and it prints how they ended. A scenario is a mapping:

    arguments   a command line; "{rank}" in it is the process's own number
    size        how many processes
    accident    what befalls which rank behind how many of its chunks: ["kill", 2, 1]
    mark        a file that is made at that moment
    silence     how many seconds without a word make a rank lost
    chunk       how many lines a full chunk has
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import torch.distributed as dist

import cli
from transformer_suite.tasks import registry
from transformer_suite.tasks.streaming import lines
from transformer_suite.tasks.streaming.ranks import link, several

ACCIDENTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}


def run_rank(scenario: dict[str, Any]) -> int:
    """This process's part; the exit code."""
    if "silence" in scenario:
        link.BEAT_SECONDS = scenario["silence"] / 4
        link.SILENT_SECONDS = scenario["silence"]
    if "chunk" in scenario:
        lines.CHUNK_LINES = several.CHUNK_LINES = scenario["chunk"]
    if "accident" in scenario:
        name, rank, chunk = scenario["accident"]
        if os.environ["RANK"] == str(rank):
            befall(ACCIDENTS[name], chunk, Path(scenario["mark"]))
    try:
        cli.main([part.replace("{rank}", os.environ["RANK"]) for part in scenario["arguments"]])
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("click ends the program")


def befall(number: signal.Signals, chunk: int, mark: Path) -> None:
    """Signals this process when it has answered ``chunk`` of its chunks and begins another."""
    answer, count = several.answer_chunk, 0

    def answer_chunk(*arguments: Any, **options: Any) -> str:
        nonlocal count
        if count == chunk:
            mark.touch()
            os.kill(os.getpid(), number)
        count += 1
        return answer(*arguments, **options)

    several.answer_chunk = answer_chunk


@contextmanager
def meeting_place() -> Iterator[int]:
    """The port of a store where the ranks meet, kept by another process as torchrun keeps one."""
    reader, writer = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        os.write(writer, str(store.port).encode())
        signal.pause()
    try:
        yield int(os.read(reader, 10))
    finally:
        if os.getpid() == parent:  # and not one of the ranks, which leave this block too
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def play(scenario: dict[str, Any], port: int) -> dict[str, Any]:
    """How the processes of a scenario ended, what they said, how long after an accident."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        codes = codes_of(scenario, port, (stdout, stderr))
        mark = Path(scenario.get("mark", "."))
        seconds = time.time() - mark.stat().st_mtime
        for stream in (stdout, stderr):
            stream.seek(0)
        said = {"stdout": stdout.read().decode(), "stderr": stderr.read().decode()}
        return {"codes": codes, "seconds": seconds, **said}


def codes_of(scenario: dict[str, Any], port: int, streams: Sequence[IO[bytes]]) -> list[int]:
    """The exit codes of those of a scenario's processes that end by themselves or by a signal."""
    children = []
    for rank in range(scenario["size"]):
        children.append(os.fork())
        if children[-1] == 0:
            for descriptor, stream in enumerate(streams, start=1):
                os.dup2(stream.fileno(), descriptor)
            os.environ |= {
                "RANK": str(rank),
                "WORLD_SIZE": str(scenario["size"]),
                "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            sys.exit(run_rank(scenario))
    stopped = []
    if scenario.get("accident", [""])[0] == "stop":
        stopped.append(children.pop(scenario["accident"][1]))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for child in stopped:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return codes


def main() -> None:
    (scenarios,) = map(json.loads, sys.argv[1:])
    if "RANK" in os.environ:
        sys.exit(run_rank(scenarios))
    for task in registry.TASKS:
        registry.module(task, "predict")
    endings = []
    for scenario in scenarios:
        with meeting_place() as port:
            endings.append(play(scenario, port))
    print(json.dumps(endings))


if __name__ == "__main__":
    main()
