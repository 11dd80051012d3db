"""Command-line words -> a loaded classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsmi.classifier import RsmiClassifier


def open_model(
    model: str,
    variant: str | None,
    seed: int | None,
    device: str | None,
    dtype: str,
    backend: str,
    token_budget: int | None,
    progress: bool | None,
) -> RsmiClassifier:
    """Load a classifier; `variant` changes only the settings that set it apart from the model's own."""
    from rsmi.classifier import RsmiClassifier

    classifier = RsmiClassifier.from_pretrained(
        model,
        seed=seed,
        device=device,
        dtype=dtype,
        backend=backend,
        token_budget=token_budget,
        progress=progress,
    )
    if variant is not None:
        classifier.config = classifier.config_.as_variant(variant)
    return classifier
