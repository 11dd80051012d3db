"""Frozen settings: what all of them share, from checking a field to replacing one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, get_args

from rsmi.errors import ConfigError


def updated(config: Any, **settings: Any) -> Any:
    """Return `config` with some fields replaced, naming any field it does not have."""
    return replace(config, **known_fields(type(config), settings))


def by_owner(params: Mapping[str, Any], owners: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Sort settings named in scikit-learn's way, `config__noise_std`, by what stands before the underscores."""
    found: dict[str, dict[str, Any]] = {owner: {} for owner in owners}
    for name, value in params.items():
        owner, _, field = name.partition("__")
        if field and owner not in found:
            raise ConfigError(f"expected {' or '.join(f'{known}__...' for known in owners)}, got {name}")
        if field:
            found[owner][field] = value
    return found


def nearest(given: object, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return `; did you mean 'imdb'?` for a name that was mistyped, and nothing where no known one is near."""
    names = {name.lower(): name for name in known}
    found = get_close_matches(str(given).lower(), names, n=1, cutoff=likeness)
    return f"; did you mean {names[found[0]]!r}?" if found else ""


def known_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain JSON values as arguments of a dataclass of settings; names that it does not have are refused."""
    names = [field.name for field in fields(cls)]
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise ConfigError(
            f"expected settings of {cls.__name__} ({', '.join(names)}); got {', '.join(unknown)}"
            f"{nearest(unknown[0], names)}"
        )
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def check_types(config: Any, literals: Mapping[str, Any], optional: Mapping[str, type]) -> None:
    """Refuse a value of another type than its default, so that `True` is no count and "3" no number.

    Args:
        config: A dataclass of settings.
        literals: Fields that take one of a few words, with their `Literal`.
        optional: Fields that may be None, with the type they have otherwise.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name in literals:
            choices = get_args(literals[field.name])
            check_choice(field.name, value, choices)
        elif field.name in optional:
            kind = optional[field.name]
            require(value is None or type(value) is kind, field.name, f"{kind.__name__} or None", value)
        elif isinstance(field.default, str):
            require(type(value) is str and value != "", field.name, "a word", value)
        elif field.name == "noise_layers":
            require(type(value) in (int, tuple), field.name, "an int or a tuple of ints", value)
        elif isinstance(field.default, bool) or isinstance(value, bool):
            require(type(value) is bool and isinstance(field.default, bool), field.name, _kind(field.default), value)
        elif isinstance(field.default, int):
            require(type(value) is int, field.name, "an int", value)
        else:
            require(isinstance(value, (int, float)), field.name, "a number", value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is none of a few words, with the one that was probably meant."""
    if value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, got {value!r}{nearest(value, choices)}")


def _kind(default: object) -> str:
    return "a bool" if isinstance(default, bool) else "a number"


def require(holds: bool, name: str, expected: str, value: object) -> None:
    """Refuse a setting that does not hold."""
    if not holds:
        raise ConfigError(f"{name}: expected {expected}, got {value!r}")
