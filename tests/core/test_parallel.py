"""Batches side by side: order, threads and errors."""

import threading
import time

import pytest
import torch

from core.parallel import at_most, map_ahead, map_on_cores


@pytest.fixture(autouse=True)
def four_threads():  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items() -> None:
    barrier = threading.Barrier(2)

    def work(number: int) -> int:
        barrier.wait(timeout=30)  # passes only if two items are worked on at once
        return number * number

    assert list(map_on_cores(work, range(8), workers=2)) == [n * n for n in range(8)]


def test_together_the_workers_have_the_threads_that_torch_had() -> None:
    assert list(map_on_cores(lambda _: torch.get_num_threads(), range(6))) == [1] * 6
    assert list(map_on_cores(lambda _: torch.get_num_threads(), range(6), workers=2)) == [2] * 6
    assert list(map_on_cores(lambda _: torch.get_num_threads(), [0])) == [4]
    assert torch.get_num_threads() == 4


def test_an_error_ends_the_work_and_gives_the_threads_back() -> None:
    done = []

    def work(number: int) -> int:
        if number == 1:
            raise ZeroDivisionError(number)
        time.sleep(0.001)  # else the other worker may be through before the error is seen
        done.append(number)
        return number

    results = map_on_cores(work, range(100), workers=1)
    assert next(results) == 0
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(ZeroDivisionError):
        list(map_on_cores(work, range(10_000), workers=2))
    assert len(done) < 10_000
    assert torch.get_num_threads() == 4


def test_the_next_item_is_worked_on_while_one_is_in_use() -> None:
    begun = [threading.Event() for _ in range(3)]

    def work(number: int) -> int:
        begun[number].set()
        return number

    results = map_ahead(work, range(3))
    assert next(results) == 0
    assert begun[1].wait(timeout=30)
    assert not begun[2].is_set()
    assert [*results] == [1, 2]
    assert [*map_ahead(work, [])] == []


def test_threads_are_fewer_inside_the_block_never_more() -> None:
    with at_most(2):
        assert torch.get_num_threads() == 2
        with at_most(3):
            assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 4
