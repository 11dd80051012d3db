"""Any Python function from texts to probabilities, as something to attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rsmi.records import Label, TextInput
from rsmi.targets.base import ForeignTarget


class CallableTarget(ForeignTarget):
    """A function that is given a list of texts (or of pairs) and returns their probabilities, (texts, classes).

    Args:
        function: The function. It must answer blank texts, too, since attacks leave words out.
        classes: What its columns stand for, as the data calls them.
        randomised: Whether it may answer the same text differently.
        name: What messages and records call it; by default the name of the function.
    """

    def __init__(
        self,
        function: Callable[[list[TextInput]], Any],
        classes: Sequence[Label],
        *,
        randomised: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name or str(getattr(function, "__name__", type(function).__name__)), classes, randomised)
        self.function = function

    def answers(self, texts: list[TextInput]) -> Any:
        """Call the function."""
        return self.function(texts)

    @property
    def about(self) -> dict[str, Any]:
        """Its name and classes: what a function depends on cannot be known."""
        config = {"classes": self.classes_.tolist(), "randomised": self.randomised}
        note = "a Python function, of which only its answers are known: nothing here identifies its weights"
        return {"name": self.name, "kind": "function", "config": config, "note": note}
