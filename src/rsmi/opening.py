"""Names and numbers -> a loaded classifier with the settings that were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmi.classifier import RsmiClassifier
from rsmi.errors import ConfigError
from rsmi.settings import updated
from rsmi.targets.opening import is_foreign


def open_classifier(
    model: str, variant: str | None = None, config: Mapping[str, Any] | None = None, **settings: Any
) -> RsmiClassifier:
    """Load a classifier.

    Args:
        model: A model folder or hub id.
        variant: Changes only the settings that set it apart from the model's own.
        config: Settings of the method that differ from those.
        **settings: Further arguments of the constructor (`seed`, `device`, `dtype`, `backend`, ...).
    """
    if is_foreign(model):
        raise ConfigError(
            f"expected a model folder or hub id, got {model.partition('?')[0]}; models that are not ours can be "
            "attacked (rsmi attack, rsmi gate), since only their answers are known"
        )
    classifier = RsmiClassifier.from_pretrained(model, **settings)
    if variant is not None:
        classifier.config = classifier.config_.as_variant(variant)
    if config:
        classifier.config = updated(classifier.config_, **config)
    return classifier
