"""One model, several threads: whoever asks first is next."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Turns:
    """A lock that is handed on in the order it was asked for; its holder may take it again.

    A certificate takes the model a few hundred times in a row. An ordinary lock would go back to the thread that has
    just released it, and everybody else would wait until the certificate is done.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next = self._served = self._depth = 0
        self._owner: int | None = None

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            if self._owner != me:
                ticket, self._next = self._next, self._next + 1
                self._changed.wait_for(lambda: ticket == self._served)
                self._owner = me
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._served += 1
                self._changed.notify_all()


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


class WhileWanted:
    """Turns for long work: taking one fails as soon as nobody waits for the result."""

    def __init__(self, turns: Turns, wanted: Callable[[], bool]) -> None:
        self._turns, self._wanted = turns, wanted

    def __enter__(self) -> None:
        if not self._wanted():
            raise Abandoned
        self._turns.__enter__()

    def __exit__(self, *_: object) -> None:
        self._turns.__exit__()
