"""A progress bar for training, on stderr: transformers' own ones write to stdout."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class ProgressBar(TrainerCallback):  # type: ignore[misc]
    """Shows updates done, the loss and the dev accuracy."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: Any = None
        self._shown: dict[str, str] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Open the bar."""
        if state.is_world_process_zero:
            self._bar = tqdm(total=state.max_steps, desc=self._title, unit="step", dynamic_ncols=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the newest numbers."""
        for name, title in (("loss", "loss"), ("eval_accuracy", "dev accuracy")):
            if logs and name in logs:
                self._shown[title] = f"{logs[name]:.3f}"
        if self._bar is not None:
            self._bar.set_postfix(self._shown)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Close the bar."""
        self.close()

    def close(self) -> None:
        """End the bar's line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def close_bars(callbacks: Iterable[TrainerCallback]) -> None:
    """End the line of a bar, however the run ended: one that failed would leave it open for the error."""
    for callback in callbacks:
        if isinstance(callback, ProgressBar):
            callback.close()
