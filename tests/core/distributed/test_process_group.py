"""Several processes train like one. What they do is in group_program.py."""

import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from core.distributed.process_group import Disconnected, ProcessGroup, connection, joined_group
from core.distributed.world import World
from core.errors import Interrupted, UserError
from core.parallel import at_most
from core.storage.checkpoint import load_tensors
from core.training.state import STATE_FILE, STATE_FOLDER, Metrics
from tests.core.distributed.group_program import RUNS, main, measured
from tests.core.training.tiny_runs import CPU, Disturbed, assert_alike, run_fit, same, tiny_model
from tests.torchrun import run_ranks


@dataclass
class Ran:
    """The result of the processes: their notes by rank, and their output."""

    seen: list[dict[str, Any]]
    folder: Path
    stdout: str
    stderr: str

    def weights(self, name: str) -> dict[str, Tensor]:
        return weights_in(self.folder / name)


def weights_in(folder: Path) -> dict[str, Tensor]:
    """Returns the weights of the last step."""
    tensors = load_tensors(folder / STATE_FOLDER / STATE_FILE)
    return {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}


def timeless(history: list[Metrics]) -> list[Metrics]:
    times = ("seconds", "tokens_per_second")
    return [{k: v for k, v in row.items() if k not in times} for row in history]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("group")
    data = Disturbed(5, partial(os.kill, os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match=r"step 5$"):
        run_fit(
            tiny_model(dropout=0.0),
            folder / "begun",
            average=0,
            precision="fp32",
            data=data,
            **RUNS["begun"],
        )
    done = run_ranks(3, partial(main, folder))
    files = [folder / f"{rank}.json" for rank in range(3)]
    assert all(file.exists() for file in files), done.stderr
    seen = [json.loads(file.read_text()) for file in files]
    return Ran(seen, folder, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[list[Metrics], Path]]:
    """Runs one of ``RUNS`` in a single process; returns its history and its folder.

    In one thread, like each of several processes: more threads round sums differently.
    """

    @cache
    def run(name: str) -> tuple[list[Metrics], Path]:
        folder = tmp_path_factory.mktemp(name)
        with at_most(threads=1):
            state = run_fit(
                tiny_model(dropout=0.0), folder, average=0, precision="fp32", **RUNS[name]
            )
        return [row.columns() for row in state.history], folder

    return run


# Communication


def test_every_example_is_in_one_shard(ran: Ran) -> None:
    shares = [notes["share"] for notes in ran.seen]
    assert sorted(number for share in shares for number in share) == list(range(7))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_sums_and_flags_are_over_all(ran: Ran) -> None:
    for notes in ran.seen:
        assert notes["sum"] == [3, 0.5 * (0 + 1 + 2)]
        assert notes["any"] == [False, True, True]


def test_the_result_of_the_main_process_is_broadcast(ran: Ran) -> None:
    for notes in ran.seen:
        assert notes["from first"]["rank"] == 0
        assert math.isnan(notes["from first"]["nan"])


def test_the_main_process_goes_first(ran: Ran) -> None:
    assert [notes["was there"] for notes in ran.seen] == [False, True, True]


def test_a_single_process_is_a_group() -> None:
    group = ProcessGroup()
    group.barrier()
    with group.main_process_first():
        pass
    assert group.is_main
    assert (group.sum([1, 2]), group.any(True), group.broadcast(lambda: "x")) == ([1, 2], True, "x")


@pytest.mark.parametrize("size", [2, 3, 8])
def test_shards_of_sorted_examples_have_about_equally_many_tokens(size: int) -> None:
    lengths = sorted([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9])
    tokens = []
    for rank in range(size):
        tokens.append(sum(ProcessGroup(rank=rank, size=size).shard(lengths)))
    assert sum(tokens) == sum(lengths)
    assert max(tokens) - min(tokens) <= max(lengths)


# Like one process


Alone = Callable[[str], tuple[list[Metrics], Path]]


def assert_like(ran: Ran, name: str, history: list[Metrics], alone: Alone) -> None:
    """Within 1e-4, since sums are rounded in another order and Adam divides by small numbers."""
    right_history, right_folder = alone(name)
    for ours, theirs in zip(history, right_history, strict=True):
        # Each share of a batch is padded by itself.
        padding = ("padding_share", "seconds", "tokens_per_second")
        ours, theirs = ({k: v for k, v in x.items() if k not in padding} for x in (ours, theirs))
        assert ours == pytest.approx(theirs, abs=1e-4)
    assert_alike(weights_in(ran.folder / name), weights_in(right_folder))


@pytest.mark.parametrize("name", ["plain", "accumulated", "pairs"])
def test_several_processes_end_with_the_weights_of_one(name: str, ran: Ran, alone: Alone) -> None:
    """Without dropout: with clipped gradients, with two batches per step, and with batches of two
    examples for three processes."""
    history = ran.seen[0][name]["history"]
    assert_like(ran, name, history, alone)
    assert max(row["gradient_norm"] for row in history) > 0.5  # so that it is clipped


def test_the_number_of_processes_may_change_when_a_run_is_resumed(ran: Ran, alone: Alone) -> None:
    """One, several and one, to steps 5, 13 and 16, each from the same position."""
    model, folder = tiny_model(9, dropout=0.0), ran.folder / "begun"
    state = run_fit(model, folder, average=0, precision="fp32", resume=True, **RUNS["begun"])
    assert_like(ran, "begun", [row.columns() for row in state.history], alone)


def test_processes_with_an_empty_shard_change_nothing(ran: Ran, alone: Alone) -> None:
    """Batches of one example: the other processes add zeros to its gradient, which is exact."""
    history, folder = alone("single")
    assert same(ran.weights("single"), weights_in(folder))
    assert timeless(ran.seen[0]["single"]["history"]) == timeless(history)


def test_all_end_with_the_same_model_and_history(ran: Ran) -> None:
    for name in ("plain", "accumulated", "single", "pairs", "dropout", "stopped"):
        first, *others = (notes[name] for notes in ran.seen)
        for other in others:
            assert other["checksum"] == first["checksum"]
            assert timeless(other["history"]) == timeless(first["history"])


def test_all_processes_validate_each_a_shard_of_the_batches(ran: Ran) -> None:
    """The main process validated alone, and all others waited."""
    assert [notes["plain"]["validations"] for notes in ran.seen] == [2, 2, 2]
    right, batches = measured(ProcessGroup())
    shares = [notes["batches"] for notes in ran.seen]
    assert sum(shares) == batches
    assert max(shares) - min(shares) <= 1
    for notes in ran.seen:
        assert notes["measured"] == pytest.approx(right, rel=1e-9)
        assert notes["gathered"] == [f"no. {number}" for number in range(7)]


def test_only_the_main_process_logs(ran: Ran) -> None:
    """Seven runs finish their first epoch. No library prints anything, on stdout or stderr."""
    assert ran.stdout == ""
    assert ran.stderr.count("epoch 1:") == 7
    assert "Warning: " not in ran.stderr


# Stops


def test_a_signal_to_one_stops_all_at_the_same_step(ran: Ran) -> None:
    for notes in ran.seen:
        assert notes["end of stopped"] == "stopped at step 5"
        assert notes["end of begun"] == "stopped at step 13"


def test_a_stopped_run_ends_like_one_that_was_not(ran: Ran) -> None:
    """With dropout, bit for bit: the seed, the step and the rank decide its random numbers."""
    assert same(ran.weights("stopped"), ran.weights("dropout"))
    assert not same(ran.weights("plain"), ran.weights("dropout"))


def test_an_error_in_one_process_stops_all(ran: Ran) -> None:
    messages = {notes["divergence"] for notes in ran.seen}
    assert len(messages) == 1
    assert "the loss is nan" in messages.pop()


def test_all_must_resume_the_same_state(ran: Ran) -> None:
    for notes in ran.seen:
        assert "the processes read different states" in notes["disagreement"]


def test_all_must_read_the_same_data(ran: Ran) -> None:
    for notes in ran.seen:
        assert "processes read different training data" in notes["other data"]


def test_an_error_is_shown_once(ran: Ran) -> None:
    """One process fails, and the others lose it."""
    assert ran.stderr.count("error: this is the end") == 1
    assert "does not answer" not in ran.stderr


def test_others_that_do_not_come_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "0")  # any that is free
    world = World(rank=0, size=2, local_rank=0)
    message = r"rank 0: the 2 processes cannot connect: .*imed out"
    with pytest.raises(UserError, match=message), joined_group(world, CPU, timeout=1):
        pass
    assert not dist.is_initialized()


def test_on_gpus_a_wait_for_a_lost_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL aborted the program, or let it wait, without the line that says why."""
    environment, devices = {**os.environ}, []
    seen: list[dict[str, Any]] = []

    def connect(backend: str, **options: Any) -> None:
        seen.append({"backend": backend, "blocking": environment.get("TORCH_NCCL_BLOCKING_WAIT")})
        raise dist.DistBackendError("NCCL timed out")

    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    monkeypatch.setattr(dist, "init_process_group", connect)
    world, gpu = World(rank=1, size=2, local_rank=1), torch.device("cuda:1")
    with pytest.raises(UserError, match="NCCL timed out"), joined_group(world, gpu, timeout=1):
        pass
    assert seen == [{"backend": "cpu:gloo,cuda:nccl", "blocking": "1"}]
    assert devices == [gpu]


def test_only_the_network_is_reported_as_a_lost_process() -> None:
    """Every CUDA error was "the processes cannot reach each other"."""
    gloo = "[/pytorch/third_party/gloo/gloo/transport/tcp/"
    ended = RuntimeError(f"{gloo}pair.cc:553] Connection closed by peer")
    hangs = RuntimeError(f"{gloo}unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation")
    for lost in (dist.DistNetworkError("no route"), dist.DistBackendError("NCCL"), ended, hangs):
        with pytest.raises(Disconnected, match="was killed"), connection():
            raise lost
    for other in (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUDA error: 700")):
        with pytest.raises(type(other), match="CUDA"), connection():
            raise other
