"""Programs that begin as a fork of the test process: they need no seconds to import torch.

They have streams, signals, an exit code and a memory of their own, like every process. Tests about
the start and the end of the interpreter need a new one.
"""

import gc
import importlib
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch

import cli
from tasks.task import TASKS

# After this many seconds, a process that has not ended is stopped: it probably deadlocks.
_LONGEST = 300.0


def forked(
    function: Callable[[], object], *, env: Mapping[str, str | None] | None = None, **streams: Any
) -> subprocess.Popen[bytes]:
    """Returns a process that calls ``function`` and ends.

    Args:
        function: its end is the end of the program; it may raise SystemExit.
        env: changes to the environment; None removes a variable.
        streams: those of Popen.
    """
    # What is imported here is not imported in every child.
    for task in TASKS:
        for name in ("predict", "train"):
            importlib.import_module(f"tasks.{task}.{name}")
    sys.stdout.flush()
    sys.stderr.flush()
    program = partial(_run, function, env or {})
    # The function runs before the program of the command would, and ends the process.
    return subprocess.Popen(["true"], preexec_fn=program, restore_signals=False, **streams)


def run_in_fork(
    function: Callable[[], object], *, env: Mapping[str, str | None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Calls ``function`` in a fork; returns its exit code and output when it has ended."""
    with forked(function, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            stdout, stderr = process.communicate(timeout=_LONGEST)
        finally:
            process.kill()
    return subprocess.CompletedProcess(
        process.args, process.returncode, stdout.decode(), stderr.decode()
    )


def forked_cli(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Returns a process that runs the command line with ``arguments``."""
    words = list(map(str, arguments))

    def program() -> None:
        sys.argv = ["cli.py", *words]
        cli.main(words)

    return forked(program, **options)


def _run(function: Callable[[], object], variables: Mapping[str, str | None]) -> None:
    """Calls ``function`` in the new process, and ends it."""
    # Garbage of the parent is never collected here: the end of a store or of a process group
    # waits for a thread, and threads are not forked.
    gc.freeze()
    gc.enable()
    code = 1
    try:
        os.closerange(3, 1024)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_DFL)
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        # Handlers of torch would write to pytest's file, whose number another file has by now.
        for logger in map(logging.getLogger, [*logging.root.manager.loggerDict]):
            for handler in logger.handlers:
                if isinstance(handler, logging.StreamHandler):
                    handler.stream = sys.stderr
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        torch.set_num_threads(1)
        function()
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = 1 if isinstance(end.code, str) else int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
