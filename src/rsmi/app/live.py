"""Records of a running attack -> progress on stderr, and the latest adversarial text with its changes coloured."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from rsmi.app.show import printable
from rsmi.attacks.words import Words
from rsmi.records import AttackRecord

_EVERY = 10.0  # seconds between lines where there is no terminal
_NEW, _OLD = "bold green", "red strike"
_LONGEST = 1200  # characters of a text shown


class AttackView:
    """Shows an attack while it runs; on something else than a terminal a line every few seconds.

    Args:
        total: Texts to attack.
        already: How many of them an earlier run attacked: their records come first and do not count for the speed.
        console: Where to show it; by default stderr.
    """

    def __init__(self, total: int, already: int = 0, console: Console | None = None) -> None:
        self.total, self.done, self.attacked, self.fooled, self.queries = total, 0, 0, 0, 0
        self.already = already
        self.console = console or Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("attack"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._task = self._progress.add_task("attack", total=total, state="")
        self._latest = Text()
        self._live = Live(self._shown(), console=self.console, refresh_per_second=4, transient=True)
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> AttackView:
        if self.console.is_terminal:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.__exit__(kind, error, trace)
        self.console.print(self.state(), soft_wrap=True)

    def show(self, record: AttackRecord) -> None:
        """Count a record and show it if it is a success."""
        self.done += 1
        self.attacked += record.outcome != "skipped"
        self.fooled += record.outcome == "succeeded"
        self.queries += record.queries if self.done > self.already else 0
        if record.outcome == "succeeded":
            self._latest = changes(record)
        if self.console.is_terminal:
            self._progress.update(self._task, completed=self.done, state=self.state())
            self._live.update(self._shown())
        elif time.monotonic() - self._last_line > _EVERY:
            self._last_line = time.monotonic()
            self.console.print(self.state(), soft_wrap=True)

    def state(self) -> str:
        """Return counts and speed in a few words."""
        rate = self.queries / max(time.monotonic() - self._started, 1e-9)
        return f"{self.done}/{self.total} texts, {self.fooled} of {self.attacked} fooled, {rate:.0f} queries/s"

    def _shown(self) -> Group:
        return Group(self._progress, self._latest)


def changes(record: AttackRecord) -> Text:
    """Return an adversarial text, each changed word after the one it replaced."""
    before, after = Words.of(record.original), Words.of(record.adversarial)
    line = Text.assemble((f"{record.label_before} ", "dim"), ("-> ", "dim"), (f"{record.label_after}  ", "bold red"))
    end = 0
    for old, start, stop in _replaced(before.words, after.words):
        at = after.span(start)[0] if start < len(after) else len(after.joined)
        line.append(printable(after.joined[end:at]))
        line.append(printable(" ".join(old)), style=_OLD).append(" ")
        end = after.span(stop - 1)[1] if stop > start else at
        line.append(printable(after.joined[at:end]), style=_NEW)
    line.append(printable(after.joined[end:]))
    line.truncate(_LONGEST, overflow="ellipsis")
    return line


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[Sequence[str], int, int]]:
    """Yield words that were replaced with the places of what stands there now; one by one where their number stays."""
    for kind, first, last, start, stop in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "replace" and last - first == stop - start:
            yield from ((before[first + i : first + i + 1], start + i, start + i + 1) for i in range(stop - start))
        elif kind != "equal":
            yield before[first:last], start, stop
