"""Who computes when: what is computed together, whose turn it is, and what stops it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from core.errors import TextError
from tasks.web import scheduler as module
from tasks.web.errors import RequestError
from tasks.web.metrics import Metrics
from tasks.web.scheduler import TURN_COST, Job, Scheduler, Work


@dataclass(frozen=True)
class Upper:
    """A function that can be held up, and that remembers its batches."""

    name: str = ""
    batches: list[list[str]] = field(default_factory=list, compare=False)
    may_run: threading.Event = field(default_factory=threading.Event, compare=False)

    def __call__(
        self, items: Sequence[str], numbers: Sequence[int], check: Callable[[], None]
    ) -> list[str]:
        self.batches.append(list(items))
        while not self.may_run.wait(0.002):
            check()
        if "bad" in items:
            raise TextError("bad is not a text")
        return [f"{self.name}{n} {item.upper()}" for item, n in zip(items, numbers, strict=True)]


def job(
    function: Any, *items: str, client: str = "a", is_long: bool = False, max_seconds: float = 60
) -> Job:
    work = Work(function, (), rate=TURN_COST if is_long else 1)
    return Job(work, items, client, max_seconds)


def wait_until(condition: Callable[[], Any]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler("a", capacity=20, metrics=Metrics())
    yield scheduler
    scheduler.close()


def hold(scheduler: Scheduler, function: Upper) -> Job:
    """Puts a job that is being computed until ``may_run``, so that all others wait."""
    first = job(function, "first", client="first")
    scheduler.put(first)
    wait_until(lambda: function.batches)
    return first


def test_unequal_work_is_not_computed_together(scheduler: Scheduler) -> None:
    held = Upper()
    hold(scheduler, held)
    functions = [Upper("x"), Upper("y"), Upper("x")]
    jobs = [job(each, "a") for each in functions]
    for each, own in zip(functions, jobs, strict=True):
        each.may_run.set()
        scheduler.put(own)
    held.may_run.set()
    assert [own.future.result(5) for own in jobs] == [["x0 A"], ["y0 A"], ["x0 A"]]
    assert functions[0].batches == [["a", "a"]]


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("xy"),
            st.lists(st.text("abc", max_size=3), min_size=1, max_size=4),
            st.sampled_from("123"),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_answers_do_not_depend_on_who_else_asks(
    requests: list[tuple[str, list[str], str, bool]],
) -> None:
    scheduler = Scheduler("a", capacity=100, metrics=Metrics())
    jobs = []
    for name, items, client, is_long in requests:
        function = Upper(name)
        function.may_run.set()
        jobs.append(job(function, *items, client=client, is_long=is_long))
        scheduler.put(jobs[-1])
    for (name, items, *_), own in zip(requests, jobs, strict=True):
        expected = [f"{name}{number} {item.upper()}" for number, item in enumerate(items)]
        assert own.future.result(5) == expected
    scheduler.close()


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text of 5,000 characters kept the other clients waiting for 8.5 seconds."""
    monkeypatch.setattr(module, "TURN_SECONDS", 0.05)
    endless, quick = Upper("long"), Upper("short")
    quick.may_run.set()
    long = [job(endless, f"{n}", client=f"long {n % 3}", is_long=True) for n in range(12)]
    for own in long:
        scheduler.put(own)
    for number in range(3):
        short = job(quick, "a", client="short")
        scheduler.put(short)
        assert short.future.result(2) == ["short0 A"], number
    assert 1 <= len(endless.batches) <= 3  # each client has one that has begun
    endless.may_run.set()
    assert [own.future.result(5) for own in long] == [[f"long0 {n}"] for n in range(12)]


def test_clients_have_equal_parts_of_the_time(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 0.01)
    turns: dict[str, int] = {"many": 0, "few": 0}
    is_over = threading.Event()

    def function(items: Sequence[str], numbers: Any, check: Callable[[], None]) -> Sequence[str]:
        while not is_over.wait(0.002):
            check()
            turns[items[0]] += 1
        return items

    jobs = [job(function, "many", client="many", is_long=True) for _ in range(5)]
    jobs.append(job(function, "few", client="few", is_long=True))
    for own in jobs:
        scheduler.put(own)
    wait_until(lambda: turns["many"] > 100)
    is_over.set()
    assert turns["few"] > 50
    for own in jobs:
        own.future.result(5)


def test_short_requests_of_one_client_do_not_hold_up_another(scheduler: Scheduler) -> None:
    order: list[list[str]] = []
    held, many, one = Upper(), Upper("many", order), Upper("one", order)
    hold(scheduler, held)
    flood = [job(many, "a" * (TURN_COST // 2), client="many") for _ in range(5)]
    single = job(one, "b", client="single")
    for own in (*flood, single):
        scheduler.put(own)
    for each in (many, one, held):
        each.may_run.set()
    for own in (*flood, single):
        own.future.result(5)
    assert len(order) == 6 and order.index(["b"]) <= 1


def test_an_error_is_for_the_request_that_causes_it(scheduler: Scheduler) -> None:
    held = Upper()
    hold(scheduler, held)
    good, bad, other = job(held, "a"), job(held, "b", "bad"), job(held, "c")
    for each in (good, bad, other):
        scheduler.put(each)
    held.may_run.set()
    assert good.future.result(5) == ["0 A"]
    assert other.future.result(5) == ["0 C"]
    with pytest.raises(RequestError, match="bad is not a text") as raised:
        bad.future.result(5)
    assert (raised.value.status, raised.value.field) == (400, "texts")


def test_a_bug_is_reported_without_texts(
    scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    def function(items: Any, numbers: Any, check: Any) -> Any:
        raise KeyError("a secret text")

    own = job(function, "a")
    scheduler.put(own)
    with pytest.raises(RequestError, match="internal error") as raised:
        own.future.result(5)
    assert raised.value.status == 500
    shown = capsys.readouterr().err
    assert "KeyError at " in shown and f"{__file__}:" in shown
    assert "secret" not in shown
    assert len(shown.splitlines()) == 1


def test_a_full_queue_refuses_and_clients_that_have_left_make_room() -> None:
    scheduler, held = Scheduler("a", capacity=8, metrics=Metrics()), Upper()
    hold(scheduler, held)
    waiting = [job(held, "a", client=client) for client in "aabbccdd"]
    for each in waiting:
        scheduler.put(each)
    with pytest.raises(RequestError) as raised:
        scheduler.put(job(held, "c", client="e"))
    assert (raised.value.status, raised.value.headers) == (503, {"Retry-After": "5"})
    waiting[0].future.cancel()
    with pytest.raises(RequestError, match="2 requests of this client are waiting") as raised:
        scheduler.put(job(held, "c", client="b"))
    assert (raised.value.status, raised.value.headers) == (429, {"Retry-After": "5"})
    scheduler.put(job(held, "c", client="e"))
    held.may_run.set()
    assert waiting[1].future.result(5) == ["0 A"]
    assert sorted(held.batches[1]) == [*"aaaaaaac"]
    scheduler.close()


def test_work_stops_when_all_its_clients_have_left(scheduler: Scheduler) -> None:
    held = Upper()
    first = hold(scheduler, held)
    first.future.cancel()
    other = Upper("next")
    other.may_run.set()
    later = job(other, "a")
    scheduler.put(later)
    assert later.future.result(5) == ["next0 A"]  # though the first work may not run


def test_a_request_has_a_limit_of_computing_time(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is on its own turns: those of the others do not count."""
    monkeypatch.setattr(module, "TURN_SECONDS", 0.02)
    endless, own_time = Upper(), Upper("own")
    scheduler.put(job(endless, "a", client="other", is_long=True))
    start = time.monotonic()
    own = job(own_time, "a", is_long=True, max_seconds=0.3)
    scheduler.put(own)
    with pytest.raises(RequestError, match=r"more than 0\.3 s of computing") as raised:
        own.future.result(5)
    assert raised.value.status == 413
    assert time.monotonic() - start > 0.5


def test_time_is_shared_by_those_who_are_computed_together(scheduler: Scheduler) -> None:
    held, second = Upper(), Upper("second")
    hold(scheduler, held)
    short = job(second, "a", max_seconds=0.2)
    longer = job(second, "b" * 3000)
    for own in (short, longer):
        scheduler.put(own)
    held.may_run.set()
    wait_until(lambda: second.batches)
    time.sleep(0.4)
    second.may_run.set()
    assert short.future.result(5) == ["second0 A"]
    assert second.batches == [["a", "b" * 3000]]


def test_closing_answers_everyone(scheduler: Scheduler) -> None:
    held = Upper()
    running, waiting = hold(scheduler, held), job(held, "b")
    scheduler.put(waiting)
    scheduler.close()
    for each in (running, waiting):
        with pytest.raises(RequestError, match="stopping"):
            each.future.result(5)
    with pytest.raises(RequestError) as raised:
        scheduler.put(job(held, "c"))
    assert raised.value.status == 503
