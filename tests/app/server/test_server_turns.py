from __future__ import annotations

import threading
import time

import pytest

from rsmi.app.server.turns import Abandoned, Turns, WhileWanted


def test_a_greedy_thread_lets_others_in_between():
    turns, order, stop = Turns(), [], threading.Event()

    def greedy():
        while not stop.is_set():
            with turns:
                order.append("greedy")
                time.sleep(0.002)

    thread = threading.Thread(target=greedy)
    thread.start()
    try:
        for _ in range(5):
            before = len(order)
            with turns:
                order.append("polite")
            assert len(order) - before <= 4  # the turn that was running, and one that had been asked for
    finally:
        stop.set()
        thread.join()
    assert order.count("polite") == 5


def test_its_holder_may_take_it_again_and_nobody_else_can():
    turns, inside = Turns(), threading.Event()
    with turns:
        with turns:
            other = threading.Thread(target=lambda: (turns.__enter__(), inside.set(), turns.__exit__()))
            other.start()
            assert not inside.wait(0.05)
        assert not inside.wait(0.05)
    assert inside.wait(5)
    other.join()


def test_it_is_free_again_after_an_error():
    turns = Turns()
    with pytest.raises(ValueError, match="inside"), turns:
        raise ValueError("inside")
    taken = threading.Thread(target=lambda: turns.__enter__())
    taken.start()
    taken.join(5)
    assert not taken.is_alive()


def test_long_work_ends_when_it_is_not_wanted_any_more():
    turns, wanted = Turns(), [True]
    own = WhileWanted(turns, lambda: wanted[0])
    with own:
        pass
    wanted[0] = False
    with pytest.raises(Abandoned), own:
        pytest.fail("entered")
    with turns:
        pass
