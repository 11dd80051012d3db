"""When a run is judged, saved and stopped: `Trainer` callbacks around a `RunFolder`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rsmi.training.features import EpochOrder, Examples


class EpochClock(TrainerCallback):  # type: ignore[misc]
    """Tells the order and the texts which epoch begins, in a resumed run too."""

    def __init__(self, order: EpochOrder, texts: Examples, updates_per_epoch: int) -> None:
        self._listeners = (order, texts)
        self._updates_per_epoch = updates_per_epoch

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the epoch before the first batch is fetched."""
        for listener in self._listeners:
            listener.set_epoch(state.global_step // self._updates_per_epoch)


class SaveSchedule(TrainerCallback):  # type: ignore[misc]
    """Asks for a snapshot after every epoch and, within one, every so many updates.

    Not after the last update of an epoch, which has yet to be judged: a run resumed there would skip the judgement.
    """

    def __init__(self, updates_per_epoch: int, every: int | None) -> None:
        self._updates_per_epoch, self._every = updates_per_epoch, every

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Ask within an epoch."""
        inside = state.global_step % self._updates_per_epoch != 0
        control.should_save = inside and self._every is not None and state.global_step % self._every == 0

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ask at the end of an epoch; the snapshot follows the judgement."""
        control.should_save = True


class Patience(TrainerCallback):  # type: ignore[misc]
    """Stops after some epochs without a better dev accuracy; read from the log, so a resumed run counts on."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop once the best epoch lies too far back."""
        accuracies = [entry["eval_accuracy"] for entry in state.log_history if "eval_accuracy" in entry]
        if len(accuracies) - 1 - accuracies.index(max(accuracies)) >= self._epochs:
            control.should_training_stop = True
