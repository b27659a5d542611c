"""Command lines run by several processes at once, with accidents; a program, not a test.

Its argument is JSON. Under torchrun it is one scenario, and each process takes its part in it.
Alone, it is a list of scenarios: for each the program forks as many processes as the scenario asks
for, which saves the imports, watches them as torchrun does, and prints how they ended. A scenario
is a mapping:

    arguments   a command line; "{rank}" in it is the rank of the process
    size        the number of processes
    accident    what happens to which rank after how many of its chunks: ["kill", 2, 1]
    mark        a file that is made at that moment
    silence     the number of seconds without progress after which a rank is lost
    chunk       the number of lines in a full chunk
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch.distributed as dist

import cli
from transformer_suite.tasks import registry
from transformer_suite.tasks.streaming import lines, sharding

KILL_SECONDS = 5.0
ACCIDENTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}


def run_rank(scenario: dict[str, Any]) -> int:
    """Runs the part of this process; returns the exit code."""
    if "silence" in scenario:
        sharding.SILENT_SECONDS = scenario["silence"]
    if "chunk" in scenario:
        lines.CHUNK_LINES = sharding.CHUNK_LINES = scenario["chunk"]
    if "accident" in scenario:
        name, rank, chunk = scenario["accident"]
        if os.environ["RANK"] == str(rank):
            cause(ACCIDENTS[name], chunk, Path(scenario["mark"]))
    try:
        cli.main([part.replace("{rank}", os.environ["RANK"]) for part in scenario["arguments"]])
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("the command ends the program")


def cause(number: signal.Signals, chunk: int, mark: Path) -> None:
    """Sends this process a signal when it has finished ``chunk`` of its chunks."""
    write = sharding.Shards.write

    def write_or_stop(shards: sharding.Shards, text: str) -> None:
        if shards.chunks == chunk:
            mark.touch()
            os.kill(os.getpid(), number)
        write(shards, text)

    sharding.Shards.write = write_or_stop  # type: ignore[method-assign]


@contextmanager
def store() -> Iterator[int]:
    """Yields the port of a store in another process, as torchrun has one."""
    reader, writer = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        server = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        os.write(writer, str(server.port).encode())
        signal.pause()
    try:
        yield int(os.read(reader, 10))
    finally:
        if os.getpid() == parent:  # and not one of the ranks, which leave this block too
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def play(scenario: dict[str, Any], port: int) -> dict[str, Any]:
    """Returns how the processes ended, what they printed, and the time since the accident."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        codes = codes_of(scenario, port, (stdout, stderr))
        mark = Path(scenario.get("mark", "."))
        seconds = time.time() - mark.stat().st_mtime
        for stream in (stdout, stderr):
            stream.seek(0)
        printed = {"stdout": stdout.read().decode(), "stderr": stderr.read().decode()}
        return {"codes": codes, "seconds": seconds, **printed}


def codes_of(scenario: dict[str, Any], port: int, streams: Sequence[IO[bytes]]) -> list[int]:
    """Starts the processes of a scenario and returns their exit codes."""
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
    return watch(children)


def watch(children: Sequence[int]) -> list[int]:
    """Returns the exit codes of all processes. When one fails, the others are stopped, as torchrun
    does it: by SIGTERM, and by SIGKILL those that do not react.
    """
    codes: dict[int, int] = {}
    deadline = math.inf
    while rest := [child for child in children if child not in codes]:
        for child in rest:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
                if codes[child] != 0 and deadline == math.inf:
                    deadline = time.monotonic() + KILL_SECONDS
                    signal_all([other for other in children if other not in codes], signal.SIGTERM)
            elif time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    return [codes[child] for child in children]


def signal_all(children: Sequence[int], number: signal.Signals) -> None:
    for child in children:
        os.kill(child, number)  # a process that has ended is there until it is waited for


def main() -> None:
    (scenarios,) = map(json.loads, sys.argv[1:])
    if "RANK" in os.environ:
        sys.exit(run_rank(scenarios))
    for task in registry.TASKS:
        registry.module(task, "predict")
    endings = []
    for scenario in scenarios:
        with store() as port:
            endings.append(play(scenario, port))
    print(json.dumps(endings))


if __name__ == "__main__":
    main()
