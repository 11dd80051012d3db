"""A dataclass of options -> options of a command: what several commands take is written down once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in whose signature every parameter that is a dataclass is replaced by its fields.

    Typer reads the signature; the command is called with the dataclasses again.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}

    @wraps(command)
    def called(**values: Any) -> None:
        made = {name: cls(**{f.name: values.pop(f.name) for f in fields(cls)}) for name, cls in groups.items()}
        command(**values, **made)

    parameters = list(_flat(command, hints, groups))
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _flat(command: Callable[..., None], hints: dict[str, Any], groups: dict[str, type]) -> Iterator[Parameter]:
    for name, parameter in signature(command).parameters.items():
        if name not in groups:
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=parameter.default, annotation=hints[name])
            continue
        own = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=own[field.name])


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default
