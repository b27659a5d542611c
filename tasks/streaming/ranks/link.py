"""Connections between rank 0 and the others: frames of bytes, heartbeats, and noticing a loss.

A frame is three numbers and, if there are any, bytes, sent as tensors by ``torch.distributed`` on a
gloo group. Nothing in it is unpickled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import IntEnum
from queue import Empty, SimpleQueue
from typing import NamedTuple

import torch
import torch.distributed as dist

# A rank that is alive is heard this often, however long it computes.
BEAT_SECONDS = 10.0

# One that is not heard for so long is lost: its machine is down or cut off, or it is stopped. A
# process that ends is noticed at once, since the operating system closes its connections.
SILENT_SECONDS = 60.0

# gloo itself breaks with all ranks when it has waited too long for one.
_NEVER = timedelta(days=365)

_JOIN_SECONDS = 0.1


class Kind(IntEnum):
    """What a frame says."""

    BEAT = 0
    RESULT = 1
    """The text of a chunk; the number is the checksum of its lines."""
    FAILURE = 2
    """The rank cannot go on; the bytes say why."""
    END = 3
    """The rank has no more chunks, or has heard the goodbye: nothing will follow."""
    NEXT = 4
    """Rank 0 has taken a result: another may come."""
    GOODBYE = 5
    """Rank 0 ends the work; the number is its exit code."""


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    number: int = 0
    content: bytes = b""


class Link:
    """A connection to one other rank, which beats by itself.

    Nothing here waits for the other rank but threads of the link's own: in gloo's hands the main
    thread would be deaf to signals.

    Args:
        on_frame: gets every frame but heartbeats; says whether more are to come.
        on_loss: told that the other rank has ended or is silent.
    """

    def __init__(
        self,
        peer: int,
        on_frame: Callable[[int, Frame], bool],
        on_loss: Callable[[int], None],
    ) -> None:
        self.peer = peer
        self._on_frame = on_frame
        self._on_loss = on_loss
        self._heard = time.monotonic()
        self._frames: SimpleQueue[Frame | None] = SimpleQueue()
        # Daemons: when the program ends because a rank is silent, they still wait for it.
        self._speaker = threading.Thread(target=self._speak, daemon=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begins to listen and to beat."""
        self._heard = time.monotonic()
        for thread in (self._speaker, self._listener, self._watcher):
            thread.start()

    def send(self, frame: Frame) -> None:
        """Sends ``frame``, soon. Where the other rank is lost, ``on_loss`` says so."""
        self._frames.put(frame)

    def hang_up(self) -> None:
        """Sends nothing more behind the frames that wait to be sent, no heartbeats either."""
        self._frames.put(None)

    def is_closed(self, seconds: float) -> bool:
        """Whether, within ``seconds``, the last frames of both sides go through, or it is broken.

        A silent rank is not waited for.
        """
        deadline = time.monotonic() + seconds
        for thread in (self._speaker, self._listener):
            while thread.is_alive() and time.monotonic() < deadline and not self._is_silent():
                thread.join(_JOIN_SECONDS)
        return not (self._speaker.is_alive() or self._listener.is_alive())

    def _speak(self) -> None:
        is_over = False
        while not is_over:
            try:
                frame = self._frames.get(timeout=BEAT_SECONDS)
            except Empty:
                frame = Frame(Kind.BEAT)
            is_over = frame is None
            if frame is not None:
                with suppress(RuntimeError):  # the listener hears of it too
                    self._send(frame)

    def _send(self, frame: Frame) -> None:
        header = torch.tensor([frame.kind, frame.number, len(frame.content)])
        dist.send(header, dst=self.peer)
        if frame.content:
            content = torch.frombuffer(bytearray(frame.content), dtype=torch.uint8)
            dist.send(content, dst=self.peer)

    def _listen(self) -> None:
        is_broken = False
        try:
            while (frame := self._receive()).kind == Kind.BEAT or self._on_frame(self.peer, frame):
                pass
        except RuntimeError:  # gloo's, for whatever is wrong with a connection
            is_broken = True
        # Not above: the error holds on to what is gloo's, which must be gone before the program is.
        if is_broken:
            self._on_loss(self.peer)

    def _watch(self) -> None:
        while self._listener.is_alive():
            self._listener.join(BEAT_SECONDS)
            if self._is_silent() and self._listener.is_alive():
                self._on_loss(self.peer)
                return

    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard > SILENT_SECONDS

    def _receive(self) -> Frame:
        kind, number, size = self._receive_tensor(torch.empty(3, dtype=torch.int64)).tolist()
        content = torch.empty(size, dtype=torch.uint8)
        if size:
            self._receive_tensor(content)
        self._heard = time.monotonic()
        return Frame(Kind(kind), number, content.numpy().tobytes())

    def _receive_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        work = dist.irecv(tensor, src=self.peer)
        assert work is not None  # which it is for ranks outside the group
        work.wait(_NEVER)
        return tensor
