"""Texts to ids in processes of their own, for corpora that keep one core busy for long.

A worker is a fresh Python that is given codecs and then answers texts with ids, over its standard
input and output. It is started like any program, not by multiprocessing, for two reasons: nobody's
main module is run again in it, guarded or not, and it ends when its input does, however the program
that feeds it came to its end.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from transformer_suite.data.codec import TextCodec

Chunk = Sequence[Sequence[str]]
"""Some rows of a corpus, column by column: for each codec the texts that it encodes."""

EncodedTexts = tuple["array[int]", "array[int]"]
"""How many ids each text has, and all their ids, as C integers."""

_CHUNKS_AHEAD = 2  # for each worker, so that none waits while this process reads on
_SIZE = struct.Struct("<Q")
_LARGEST = 1 << 40
_PROGRAM = "from transformer_suite.data.workers import serve; serve()"
_ROOT = Path(__file__).resolve().parents[1]


def encode_chunk(codecs: Sequence[TextCodec], chunk: Chunk) -> list[EncodedTexts]:
    """The ids of ``chunk``, column by column."""
    return [_encode_texts(codec, texts) for codec, texts in zip(codecs, chunk, strict=True)]


def encode_in_workers(
    codecs: Sequence[TextCodec], chunks: Iterator[Chunk], workers: int
) -> Iterator[list[EncodedTexts]]:
    """The ids of ``chunks``, made in so many processes, in the order of the chunks."""
    idle: SimpleQueue[_Worker] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(workers):
            idle.put(stack.enter_context(_Worker(codecs)))
        threads = stack.enter_context(ThreadPoolExecutor(workers))

        def encode(chunk: Chunk) -> list[EncodedTexts]:
            worker = idle.get()
            try:
                return worker.encode(chunk)
            finally:
                idle.put(worker)

        pending: deque[Future[list[EncodedTexts]]] = deque()
        for chunk in chunks:
            pending.append(threads.submit(encode, chunk))
            if len(pending) > _CHUNKS_AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def serve() -> None:
    """What a worker does: it reads codecs, then answers chunk after chunk, to the end of input."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        descriptions, columns = json.loads(_receive(requests))
        distinct = [TextCodec.restore(description) for description in descriptions]
        codecs = [distinct[number] for number in columns]
        while True:
            for lengths, ids in encode_chunk(codecs, json.loads(_receive(requests))):
                _send(answers, lengths.tobytes())
                _send(answers, ids.tobytes())
    except (EOFError, BrokenPipeError):
        pass


class _Worker:
    """A process that encodes; use as a context manager.

    When it cannot be started, fails or is killed, what it was to do is done here: that is slower,
    but ends well, or in the error that the work deserves.
    """

    def __init__(self, codecs: Sequence[TextCodec]) -> None:
        self._codecs = codecs
        self._has_codecs = False
        self._process = _started()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def encode(self, chunk: Chunk) -> list[EncodedTexts]:
        """The ids of ``chunk``, column by column."""
        if self._process is None:
            return encode_chunk(self._codecs, chunk)
        requests, answers = self._process.stdin, self._process.stdout
        assert requests and answers
        try:
            if not self._has_codecs:
                distinct = list(dict.fromkeys(self._codecs))
                columns = [distinct.index(codec) for codec in self._codecs]
                _send(requests, _as_json([[codec.describe() for codec in distinct], columns]))
                self._has_codecs = True
            _send(requests, _as_json(chunk))
            return [(_numbers(_receive(answers)), _numbers(_receive(answers))) for _ in chunk]
        except (OSError, EOFError):
            return encode_chunk(self._codecs, chunk)


def _started() -> subprocess.Popen[bytes] | None:
    """A process that runs :func:`serve`, or None where no more can be had."""
    search_path = os.pathsep.join(filter(None, [str(_ROOT), *sys.path]))
    try:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                "from transformer_suite.data.workers import serve; serve()",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search_path},
            start_new_session=True,  # Ctrl-C is for this program, which ends its workers
        )
    except OSError:
        return None


def _encode_texts(codec: TextCodec, texts: Sequence[str]) -> EncodedTexts:
    lengths, ids = array("i"), array("i")
    for text in texts:
        found = codec.encode(text)
        lengths.append(len(found))
        ids.extend(found)
    return lengths, ids


def _as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def _numbers(content: bytes) -> array[int]:
    numbers = array("i")
    numbers.frombytes(content)
    return numbers


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(_SIZE.pack(len(content)) + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    (size,) = _SIZE.unpack(_read(stream, _SIZE.size))
    if size > _LARGEST:  # something else has written to this stream
        raise EOFError
    return _read(stream, size)


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content
