"""What a user calls a model that is not ours -> the model, its classes called as in the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rsmi.errors import ConfigError, LabelError
from rsmi.method.pretrained import as_device, as_dtype
from rsmi.records import Label
from rsmi.targets.base import ForeignTarget
from rsmi.targets.http import HttpTarget
from rsmi.targets.pipeline import PipelineTarget, class_names, open_pipeline

PIPELINE: Final = "pipeline:"
"""Before a folder or a hub id: asked by transformers' own pipeline, not by ours."""
_ADDRESS: Final = ("http://", "https://")
_FOR_HTTP: Final = ("answer", "body", "key_header", "key_variable", "retries", "timeout")


def is_foreign(model: str) -> bool:
    """Whether a name is that of a model that is not ours."""
    return model.lower().startswith((PIPELINE, *_ADDRESS))


def open_target(
    model: str,
    labels: Sequence[Label],
    *,
    classes: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    device: str | None = None,
    dtype: str = "float32",
    **settings: Any,
) -> ForeignTarget:
    """Open `pipeline:HUB_ID_OR_FOLDER` or `http(s)://...`.

    Args:
        model: The name.
        labels: The classes of the data.
        classes: All classes of the model as the data calls them: of a pipeline in the order of its ids, of an address
            in the order of its numbers, where it answers plain numbers. By default a pipeline's own, an address's those
            of the data.
        rename: What the model calls a class -> what the data calls it.
        device: Where a pipeline runs.
        dtype: Type of its weights.
        **settings: Further arguments of the target.

    Raises:
        ConfigError: If a setting does not fit the kind of model.
        LabelError: If the data has classes that the model has not.
    """
    if model.lower().startswith(_ADDRESS):
        if device is not None or dtype != "float32":
            raise ConfigError("device, dtype: expected none for a model behind an address, got some; leave them out")
        if not classes and len(labels) < 2:
            raise LabelError(f"expected two or more classes in the data, got {list(labels)}; pass all (--classes)")
        named = [_as_label(name, labels) for name in classes] if classes else list(labels)
        target: ForeignTarget = HttpTarget(model, named, rename=rename, **settings)
    else:
        source = model[len(PIPELINE) :]
        wrong = sorted(set(settings) & set(_FOR_HTTP))
        if wrong:
            raise ConfigError(f"{wrong[0]}: expected an address (http://...), got {model}; leave it out")
        if classes and rename:
            raise ConfigError("expected classes or rename for a pipeline, got both; leave one of them out")
        pipe = open_pipeline(source, as_device(device), as_dtype(dtype))
        names = list(classes) if classes else _renamed(class_names(pipe), rename or {}, source)
        target = PipelineTarget(pipe, classes=[_as_label(name, labels) for name in names], name=source, **settings)
    _check_labels(target, labels)
    return target


def _renamed(theirs: Sequence[str], rename: Mapping[str, str], source: str) -> list[str]:
    unknown = [name for name in rename if name not in theirs]
    if unknown:
        raise ConfigError(f"rename: expected classes of {source}, {list(theirs)}, on the left; got {unknown[0]!r}")
    return [rename.get(name, name) for name in theirs]


def _as_label(name: str, labels: Sequence[Label]) -> Label:
    """Return a class as the data writes it: a number, where its labels are numbers."""
    if all(isinstance(label, str) for label in labels):
        return name
    try:
        return int(name)
    except ValueError:
        raise LabelError(
            f"expected classes that are numbers, as the labels {list(labels)} of the data are, got {name!r}; pass "
            f"what the data calls it (--rename {name}=NUMBER)"
        ) from None


def _check_labels(target: ForeignTarget, labels: Sequence[Label]) -> None:
    known = target.classes_.tolist()
    missing = [label for label in labels if label not in known]
    if missing:
        raise LabelError(
            f"{target.name}: expected classes that the data has, {list(labels)}, got {known} without {missing[0]!r}; "
            f"pass what the data calls each class (--rename {known[0]}={missing[0]})"
        )
