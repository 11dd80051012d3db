"""A text under attack, query by query, for whoever looks on."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from rsmi.app.server.failures import Internal, NotReady, Overloaded, Refused
from rsmi.app.server.logs import LOGGER
from rsmi.app.server.metrics import Metrics
from rsmi.app.server.model import ServedModel
from rsmi.app.server.settings import ServeConfig
from rsmi.attacks.base import Attack
from rsmi.attacks.catalogue import make_attack
from rsmi.defense import Target
from rsmi.errors import RsmiError
from rsmi.records import AttackRecord, Label, TextInput
from rsmi.seeds import fresh_key

Event = dict[str, Any]
_TOGETHER = 8  # queries asked at once: others get their turn in between, and a stop is noticed
_FRESH_DRAWS = 10  # how often a success is asked about again
_BUSY_SECONDS = 5

_log = logging.getLogger(LOGGER)


class _Stopped(Exception):
    """The attack is not wanted any more, or has taken too long."""


class _Watched:
    """A target that tells what it is asked and what it answers.

    Args:
        target: What is asked.
        model: Whose turns are to be taken.
        tell: Is called with the texts and the rows of probabilities.
        over: Whether to stop.
    """

    def __init__(
        self,
        target: Target,
        model: ServedModel,
        tell: Callable[[Sequence[TextInput], Any], None],
        over: Callable[[], bool],
    ) -> None:
        self.target, self.model, self.tell, self.over = target, model, tell, over
        self.classes_, self.randomised, self.uses_gradients = target.classes_, target.randomised, target.uses_gradients

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> Any:
        """Ask the target, a few texts at a time."""
        rows = []
        for start in range(0, len(texts), _TOGETHER):
            if self.over():
                raise _Stopped
            part = texts[start : start + _TOGETHER]
            with self.model.turns:
                rows.append(self.target.query(part, draw))
            self.tell(part, rows[-1])
        return np.concatenate(rows)


class AttackDesk:
    """Runs one attack at a time.

    Args:
        settings: Which attacks, how many queries, how long.
        metrics: Counts the queries.
    """

    def __init__(self, settings: ServeConfig, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rsmi-attack")
        self._busy = False
        self._stopping = threading.Event()

    def open(self) -> None:
        """Load what the attacks need, so that what is missing is said at the start."""
        for name in self.settings.attacks:
            make_attack(name)

    def stop(self) -> None:
        """End the attack that is running, and take no more."""
        self._stopping.set()

    def close(self) -> None:
        """End the thread."""
        self.stop()
        self._thread.shutdown()

    def attack(self, name: str, max_queries: int | None) -> Attack:
        """Return an attack within the server's limits.

        Raises:
            Refused: If it is not offered.
        """
        offered, most = self.settings.attacks, self.settings.attack_queries
        if name not in offered:
            known = f"expected one of {', '.join(offered)}" if offered else "attacks are switched off here"
            raise Refused(f"attack: {known}; got another one")
        try:
            return make_attack(name, max_queries=min(max_queries or most, most), fresh_draws=_FRESH_DRAWS)
        except RsmiError as error:  # a lexicon that was there when the server started
            raise Refused(f"attack {name}: what it needs is missing on the server") from error

    def begin(self, model: ServedModel, attack: Attack, text: TextInput, label: Label | None) -> AsyncIterator[Event]:
        """Start an attack and return what happens, event by event; it ends when nobody listens any more.

        Raises:
            Overloaded: If another one is running.
            NotReady: If the server is about to stop.
        """
        if label is not None and label not in model.classes:
            raise Refused(f"label: expected one of {list(model.classes)}, got another one")
        if self._stopping.is_set():
            raise NotReady("the server is about to stop")
        if self._busy:
            raise Overloaded(_BUSY_SECONDS, "another attack is running")
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | None] = asyncio.Queue()  # no longer than the budget of queries
        left = threading.Event()

        def tell(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        def done() -> None:
            self._busy = False  # first: whoever has read the last event may ask for the next attack
            events.put_nowait(None)

        def work() -> None:
            try:
                self._run(model, attack, text, label, tell, left)
            except Exception:  # the answer has begun, so that no status can tell
                _log.exception("attack failed")
                tell({"event": "error", "message": str(Internal())})
            finally:
                loop.call_soon_threadsafe(done)

        self._busy = True  # until the work is done, whether anybody listens or not
        loop.run_in_executor(self._thread, work)
        return _listen(events, left)

    def _run(
        self,
        model: ServedModel,
        attack: Attack,
        text: TextInput,
        label: Label | None,
        tell: Callable[[Event], None],
        left: threading.Event,
    ) -> None:
        end = time.monotonic() + self.settings.attack_seconds
        deployed = model.standard
        (first,) = model.explain(False, [text])
        likeliest = max(first.probabilities, key=first.probabilities.__getitem__)
        gold = likeliest if label is None else label
        number = model.classes.index(gold)
        asked = 0

        def told(texts: Sequence[TextInput], rows: Any) -> None:
            nonlocal asked
            self.metrics.attack_queries.inc(len(texts))
            for own, row in zip(texts, rows, strict=True):
                asked += 1
                answer = model.classes[int(row.argmax())]
                tell(_query(asked, own, answer, float(row[number]), bool(answer != gold)))

        def again(texts: Sequence[TextInput], rows: Any) -> None:
            for row in rows:
                tell({"event": "again", "label": model.classes[int(row.argmax())]})

        def over() -> bool:
            return left.is_set() or self._stopping.is_set() or time.monotonic() > end

        tell(
            {
                "event": "start",
                "attack": attack.name,
                "label": gold,
                "max_queries": attack.max_queries,
            }
        )
        seen = _Watched(_with_scores(model), model, told, over)
        judge = _Watched(deployed, model, again, over)
        try:
            ((_, record),) = attack.run(seen, [text], [gold], seed=fresh_key(), together=1, deployed=judge)
        except _Stopped:
            tell({"event": "stopped", "reason": "it took too long" if time.monotonic() > end else "stopped"})
        else:
            tell(_end(record))


async def _listen(events: asyncio.Queue[Event | None], left: threading.Event) -> AsyncIterator[Event]:
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        left.set()


def _with_scores(model: ServedModel) -> Target:
    """Return the model as its attacker sees it: averaged logits tell him more than shares of a few votes."""
    config = model.standard.config_
    if config.stop == "sequential":
        return model.standard
    return model.standard.with_config(replace(config, aggregation="logit-average"))


def _query(number: int, text: TextInput, label: Label, gold: float, wrong: bool) -> Event:
    return {"event": "query", "number": number, "text": text, "label": label, "gold": round(gold, 6), "wrong": wrong}


def _end(record: AttackRecord) -> Event:
    return {"event": "end", "record": record.to_dict()}
