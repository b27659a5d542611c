"""Runs a function as a user without any rights: root may read and write everything."""

import os
from collections.abc import Callable

import pytest

NOBODY = 65534


def as_nobody(function: Callable[[], object]) -> str:
    """Returns what ``str`` makes of the error of ``function`` in a process of an ordinary user.

    The text is "" if there is no error. A test is skipped where the user cannot be changed.
    """
    if os.geteuid() != 0:
        return _error_of(function)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = "=" + _error_of(function)
        except OSError as error:
            answer = f"!{error}"
        os.write(writing, answer.encode()[:4096])
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    if answer.startswith("!"):
        pytest.skip(f"cannot become another user: {answer[1:]}")
    assert answer.startswith("="), "the process of the other user has crashed"
    return answer[1:]


def _error_of(function: Callable[[], object]) -> str:
    try:
        function()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""
