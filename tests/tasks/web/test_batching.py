"""The queue of a model: what is computed together, in which order, and what stops it."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from core.errors import TextError
from tasks.web.batching import BatchQueue, Job
from tasks.web.errors import RequestError
from tasks.web.metrics import Metrics


@dataclass(frozen=True)
class Upper:
    """Work that can be held up, and that remembers its batches."""

    name: str = ""
    batches: list[list[str]] = field(default_factory=list, compare=False)
    may_run: threading.Event = field(default_factory=threading.Event, compare=False)

    def __call__(
        self, items: Sequence[str], numbers: Sequence[int], check: Callable[[], None]
    ) -> list[Any]:
        self.batches.append(list(items))
        while not self.may_run.wait(0.005):
            check()
        if "bad" in items:
            raise TextError("bad is not a text")
        return [
            f"{self.name}{number} {item.upper()}"
            for item, number in zip(items, numbers, strict=True)
        ]


def job(work: Any, *items: str, lengths: Sequence[int] = (), max_seconds: float = 60) -> Job:
    return Job(work, items, lengths or [*map(len, items)], max_seconds=max_seconds)


def wait_until(condition: Callable[[], Any]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def queue() -> Any:
    queue = BatchQueue("a", capacity=20, metrics=Metrics())
    yield queue
    queue.close()


def hold(queue: BatchQueue, work: Upper) -> Job:
    """Puts a job that is being computed until ``may_run``, so that all others wait."""
    first = job(work, "first")
    queue.put(first)
    wait_until(lambda: work.batches)
    return first


def test_unequal_work_is_not_computed_together(queue: BatchQueue) -> None:
    work = Upper()
    hold(queue, work)
    works = [Upper("x"), Upper("y"), Upper("x")]
    jobs = [job(each, "a") for each in works]
    for each, own in zip(works, jobs, strict=True):
        each.may_run.set()
        queue.put(own)
    work.may_run.set()
    assert [own.future.result(5) for own in jobs] == [["x0 A"], ["y0 A"], ["x0 A"]]
    assert works[0].batches == [["a", "a"]]


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.sampled_from("xy"), st.lists(st.text("abc", max_size=3), max_size=4)),
        max_size=6,
    )
)
def test_answers_do_not_depend_on_who_else_asks(requests: list[tuple[str, list[str]]]) -> None:
    queue = BatchQueue("a", capacity=100, metrics=Metrics())
    jobs = []
    for name, items in requests:
        work = Upper(name)
        work.may_run.set()
        jobs.append(job(work, *items, lengths=[1500] * len(items)))
        if items:
            queue.put(jobs[-1])
    for (name, items), own in zip(requests, jobs, strict=True):
        expected = [f"{name}{number} {item.upper()}" for number, item in enumerate(items)]
        assert own.future.result(5) == expected
    queue.close()


def test_a_long_request_lets_short_ones_pass(queue: BatchQueue) -> None:
    work = Upper()
    hold(queue, work)
    long = job(work, *"abcdefgh", lengths=[3900] * 8)
    short = job(work, "short")
    queue.put(long)
    queue.put(short)
    work.may_run.set()
    long.future.result(5)
    assert len(work.batches) == 9
    assert "short" in work.batches[1] + work.batches[2]


def test_an_error_is_for_the_request_that_causes_it(queue: BatchQueue) -> None:
    work = Upper()
    hold(queue, work)
    good, bad, other = job(work, "a"), job(work, "b", "bad"), job(work, "c")
    for each in (good, bad, other):
        queue.put(each)
    work.may_run.set()
    assert good.future.result(5) == ["0 A"]
    assert other.future.result(5) == ["0 C"]
    with pytest.raises(RequestError, match="bad is not a text") as raised:
        bad.future.result(5)
    assert (raised.value.status, raised.value.field) == (400, "texts")


def test_a_bug_is_reported_without_texts(
    queue: BatchQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(items: Any, numbers: Any, check: Any) -> Any:
        raise KeyError("a secret text")

    own = job(work, "a")
    queue.put(own)
    with pytest.raises(RequestError, match="internal error") as raised:
        own.future.result(5)
    assert raised.value.status == 500
    shown = capsys.readouterr().err
    assert "KeyError" in shown
    assert "secret" not in shown
    assert len(shown.splitlines()) == 1


def test_a_full_queue_refuses_and_clients_that_have_left_make_room() -> None:
    queue, work = BatchQueue("a", capacity=2, metrics=Metrics()), Upper()
    hold(queue, work)
    waiting = [job(work, "a"), job(work, "b")]
    for each in waiting:
        queue.put(each)
    with pytest.raises(RequestError) as raised:
        queue.put(job(work, "c"))
    assert raised.value.status == 503
    assert raised.value.headers == {"Retry-After": "5"}
    waiting[0].future.cancel()
    queue.put(job(work, "c"))
    work.may_run.set()
    assert waiting[1].future.result(5) == ["0 B"]
    assert work.batches[1] == ["b", "c"]
    queue.close()


def test_work_stops_when_all_its_clients_have_left(queue: BatchQueue) -> None:
    work = Upper()
    first = hold(queue, work)
    first.future.cancel()
    next_work = Upper("next")
    next_work.may_run.set()
    later = job(next_work, "a")
    queue.put(later)
    assert later.future.result(5) == ["next0 A"]  # though the first work may not run


def test_a_request_has_a_limit_of_computing_time(queue: BatchQueue) -> None:
    work = Upper()
    own = job(work, "a", max_seconds=0.1)
    queue.put(own)
    with pytest.raises(RequestError, match=r"more than 0\.1 s of computing") as raised:
        own.future.result(5)
    assert raised.value.status == 413


def test_the_limit_is_on_all_batches_of_a_request(queue: BatchQueue) -> None:
    """One slice may be quick, but not all of them."""

    def slow(items: Sequence[str], numbers: Any, check: Any) -> Any:
        time.sleep(0.06)
        return items

    own = job(slow, *"abcdefgh", lengths=[4000] * 8, max_seconds=0.15)
    queue.put(own)
    with pytest.raises(RequestError, match="of computing"):
        own.future.result(5)
    assert 2 <= len(own.results) <= 3


def test_time_is_shared_by_those_who_are_computed_together(queue: BatchQueue) -> None:
    work, second = Upper(), Upper("second")
    hold(queue, work)
    short = job(second, "a", max_seconds=0.2)
    long = job(second, "b", lengths=[3000])
    queue.put(short)
    queue.put(long)
    work.may_run.set()
    wait_until(lambda: second.batches)
    time.sleep(0.4)
    second.may_run.set()
    assert short.future.result(5) == ["second0 A"]
    assert short.seconds < 0.1 < long.seconds


def test_closing_answers_everyone(queue: BatchQueue) -> None:
    work = Upper()
    running, waiting = hold(queue, work), job(work, "b")
    queue.put(waiting)
    queue.close()
    for each in (running, waiting):
        with pytest.raises(RequestError, match="stopping"):
            each.future.result(5)
    with pytest.raises(RequestError) as raised:
        queue.put(job(work, "c"))
    assert raised.value.status == 503
