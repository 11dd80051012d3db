"""Searches that wait for models -> the same searches side by side, their questions to one model asked in one call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Call:
    """A question to a model: what a search yields, and the answers are what it is resumed with."""

    service: Callable[..., Any]
    """Answers each item by itself: an answer must not depend on the other items."""
    items: Sequence[Any]


Steps: TypeAlias = Generator[Call, Any, T]
"""A search as a generator: it yields a `Call`, is resumed with one answer an item, and returns its result."""


def ask(service: Callable[..., Any], items: Sequence[Any]) -> Steps[Any]:
    """Ask `service` about `items`; nothing is asked about an empty list."""
    if not items:
        return []
    return (yield Call(service, items))


def run_alone(search: Steps[T]) -> T:
    """Run one search to its end."""
    ((_, result),) = run_together([(0, search)], 1)
    return result


def run_together(searches: Iterable[tuple[K, Steps[T]]], together: int) -> Iterator[tuple[K, T]]:
    """Run up to `together` searches side by side and yield each result as its search ends.

    In every round all calls to the same service become one, so that a model sees full batches.
    """
    waiting: dict[K, tuple[Steps[T], Call]] = {}
    pending = iter(searches)
    while True:
        while len(waiting) < together and (new := next(pending, None)) is not None:
            key, search = new
            yield from _advance(key, search, None, waiting)
        if not waiting:
            return
        for key, answers in _answer({key: call for key, (_, call) in waiting.items()}):
            search, _ = waiting.pop(key)
            yield from _advance(key, search, answers, waiting)


def _advance(key: K, search: Steps[T], answers: Any, waiting: dict[K, tuple[Steps[T], Call]]) -> Iterator[tuple[K, T]]:
    try:
        waiting[key] = (search, search.send(answers))
    except StopIteration as end:
        yield key, end.value


def _answer(calls: dict[K, Call]) -> Iterator[tuple[K, Any]]:
    groups: dict[Any, list[K]] = {}
    for key, call in calls.items():
        groups.setdefault(call.service, []).append(key)
    for service, keys in groups.items():
        answers = service([item for key in keys for item in calls[key].items])
        start = 0
        for key in keys:
            stop = start + len(calls[key].items)
            yield key, answers[start:stop]
            start = stop
