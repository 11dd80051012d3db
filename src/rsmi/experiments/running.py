"""Items -> every step that they need, done once, in order, and left alone when it is there already."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rsmi.config import Method
from rsmi.errors import BusyError
from rsmi.evaluation.jobs import OpenJob
from rsmi.evaluation.running import run_job
from rsmi.experiments.costs import cost_of
from rsmi.experiments.items import Item, items_of
from rsmi.experiments.measures import measure
from rsmi.experiments.results import Results
from rsmi.experiments.scale import Scale
from rsmi.experiments.specs import Attacked, Step, Trained, needs, ordered, rests_on
from rsmi.experiments.training import train
from rsmi.method.checkpoint import is_checkpoint
from rsmi.presets import asked_as
from rsmi.records import AttackRecord
from rsmi.scoring.lock import only_run

Show = Callable[[OpenJob, Path, Iterator[AttackRecord]], Iterable[AttackRecord]]
"""Shows an attack while it runs."""
_logger = logging.getLogger(__name__)
_WAIT = 2.0  # seconds, where all that is left is done by others
_LAST = 5  # steps of a kind that tell how long the next will take: earlier ones may be of another machine


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a reproduction stands before a step."""

    step: Step
    number: int
    total: int
    seconds_left: float | None
    """Of all that is left, by everybody at work; None before anything was timed."""


def steps_of(items: Sequence[Item], scale: Scale) -> tuple[Step, ...]:
    """Return all steps of some items, each once, in the order in which they are done."""
    return ordered(tuple(step for item in items for step in item.steps(scale)))


def open_steps(steps: Sequence[Step], results: Results, models: Path) -> list[Step]:
    """Return the steps still to be done: weights are only needed where something else has to be done with them."""
    left: list[Step] = []
    needed: set[Step] = set()
    for step in reversed(steps):  # what needs a step comes after it
        if not results.done(step) or (step in needed and not _has_weights(step, models)):
            left.append(step)
            needed.update(needs(step))
    return left[::-1]


def _has_weights(step: Step, models: Path) -> bool:
    return not isinstance(step, Trained) or is_checkpoint(models / step.name)


def reproduce(
    items: Sequence[Item],
    results: Results,
    models: Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    tell: Callable[[Progress], None] = lambda _progress: None,
    show: Show = lambda _opened, _file, records: records,
) -> None:
    """Do everything that items need; interrupted at any point, the same call goes on from there.

    Several processes with the same folders share the work: each takes the first step that is ready and that nobody else
    is at.

    Args:
        items: What to reproduce.
        results: Where records and measurements are kept.
        models: Where weights are kept.
        workers: Processes of an attack.
        cluster: Address of a Ray cluster for attacks.
        tell: Is told each step before it is done.
        show: Shows the records of an attack while it runs.
    """
    results.check_scale()
    steps, everything = (steps_of(own, results.scale) for own in (items, (*items, *items_of("all"))))
    log = _Log(results.folder / "times.jsonl", results.scale)
    total = len(open_steps(steps, results, models))
    while left := open_steps(steps, results, models):
        with ExitStack() as held:
            step, others = _claim(left, results, held)
            if step is None:
                time.sleep(_WAIT)
            elif step in open_steps(steps, results, models):  # else somebody finished it a moment ago
                tell(Progress(step, total - len(left) + 1, total, log.estimate(left, others + 1)))
                started = time.perf_counter()
                _do(step, everything, results, models, workers, cluster, show)
                log.note(step, time.perf_counter() - started)


def _claim(left: Sequence[Step], results: Results, held: ExitStack) -> tuple[Step | None, int]:
    """Return the first step that is ready and free, now held by this process, and how many before it others are at."""
    waiting, others = set(left), 0
    for step in left:
        if waiting.isdisjoint(needs(step)):
            try:
                held.enter_context(only_run(results.file_of(step)))
            except BusyError:
                others += 1
            else:
                return step, others
    return None, others


def _do(
    step: Step,
    everything: Sequence[Step],
    results: Results,
    models: Path,
    workers: int,
    cluster: str | None,
    show: Show,
) -> None:
    if isinstance(step, Trained):
        _train(step, everything, results, models / step.name)
    elif isinstance(step, Attacked):
        job = results.scale.job(step, models / step.model.name)
        file = results.file_of(step)
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = job.open()
        for _ in show(opened, file, run_job(opened, file, workers, cluster)):
            pass
    else:
        results.write(step, measure(step, results, models))


def _train(model: Trained, everything: Sequence[Step], results: Results, folder: Path) -> None:
    known = results.trained(model) if results.done(model) else None
    found = train(model, results, folder)
    if known is not None and known["fingerprint"] == found["fingerprint"]:
        return
    aside = results.set_aside(step for step in everything if rests_on(step, model))
    results.write(model, found)
    if aside is not None:
        _logger.warning(
            "%s: trained anew, the weights differ from those before (another machine or version); what rested on those "
            "is in %s now, and will be done again",
            model.name,
            aside,
        )


class _Log:
    """Seconds and cost of what was done, one line a step."""

    def __init__(self, file: Path, scale: Scale) -> None:
        self._file, self._scale = file, scale

    def note(self, step: Step, seconds: float) -> None:
        """Write a line."""
        line = {
            "step": step.name,
            "kind": _kind(step),
            "cost": cost_of(step, self._scale),
            "seconds": round(seconds, 3),
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def estimate(self, left: Sequence[Step], processes: int) -> float | None:
        """Return the seconds that steps will take some processes, by what the last steps of their kind took."""
        spent = self._spent()
        if not spent:
            return None
        return sum(cost_of(step, self._scale) * _rate(_kind(step), spent) for step in left) / processes

    def _spent(self) -> dict[str, list[tuple[float, float]]]:
        """Return cost and seconds of the steps done, by kind, in their order."""
        spent: dict[str, list[tuple[float, float]]] = {}
        for line in self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else ():
            try:
                values: dict[str, Any] = json.loads(line)
                kind, cost, seconds = str(values["kind"]), float(values["cost"]), float(values["seconds"])
            except (ValueError, KeyError, TypeError):
                continue  # a line cut off by a crash costs an estimate its best, nothing more
            if cost > 0:
                spent.setdefault(kind, []).append((cost, seconds))
        return spent


def _rate(kind: str, spent: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    """Return the seconds a unit of cost takes: of this kind, else of the kinds most like it, else of all."""
    similar = [own for own in spent if _family(own) == _family(kind)]
    kinds = next(found for found in ([kind] if kind in spent else [], similar, list(spent)) if found)
    known = [pair for own in kinds for pair in spent[own][-_LAST:]]
    return sum(seconds for _, seconds in known) / sum(cost for cost, _ in known)


def _family(kind: str) -> str:
    """Return what kinds have in common that cost about the same: trainings, attacks on random models, on others."""
    what, _, method = kind.partition(" on ")
    if not method:
        return what.partition(" ")[0]
    return "attack on plain" if asked_as(cast(Method, method)) == "plain" else "attack on random"


def _kind(step: Step) -> str:
    if isinstance(step, Trained):
        return f"train {step.method}"
    return f"{step.attack} on {step.model.method}" if isinstance(step, Attacked) else step.what
