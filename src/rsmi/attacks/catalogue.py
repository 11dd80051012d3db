"""Names of attacks -> attacks."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any, Final

from rsmi.attacks.base import Attack
from rsmi.errors import ConfigError
from rsmi.settings import nearest

ATTACKS: Final = {
    "bae": "BAE",
    "bertattack": "BertAttack",
    "deepwordbug": "DeepWordBug",
    "gbda": "GBDA",
    "hotflip": "HotFlip",
    "pwws": "PWWS",
    "textfooler": "TextFooler",
}
"""Name of each attack, which is also its module, and its class."""
BRIDGE: Final = "textattack:"
"""Before the name of a recipe of TextAttack."""


def make_attack(name: str, **settings: Any) -> Attack:
    """Return an attack by name; `settings` are the arguments of its constructor.

    Args:
        name: One of `ATTACKS`, or `textattack:` and the name of a recipe of TextAttack.
        **settings: For example `max_queries=2000`.
    """
    if name.startswith(BRIDGE):
        from rsmi.attacks.textattack import TextAttackRecipe

        return TextAttackRecipe(name.removeprefix(BRIDGE), **settings)
    if name not in ATTACKS:
        known = ", ".join(ATTACKS)
        raise ConfigError(f"attack: expected one of {known}, or {BRIDGE}RECIPE; got {name!r}{nearest(name, ATTACKS)}")
    made = getattr(import_module(f"rsmi.attacks.{name}"), ATTACKS[name])
    taken = _settings_of(made)
    unknown = next((setting for setting in settings if setting not in taken), None)
    if unknown is not None:
        raise ConfigError(
            f"attack {name}: expected a setting of {', '.join(taken)}; got {unknown!r}{nearest(unknown, taken)}"
        )
    try:
        attack: Attack = made(**settings)
    except TypeError as error:
        raise ConfigError(f"attack {name}: expected values of the right type, got {settings} ({error})") from error
    return attack


def _settings_of(made: type[Attack]) -> list[str]:
    """Return the arguments of a constructor, those that it hands on to its base class too."""
    names: dict[str, None] = {}
    for cls in made.__mro__[:-1]:
        parameters = signature(vars(cls)["__init__"]).parameters.values() if "__init__" in vars(cls) else ()
        names |= {own.name: None for own in parameters if own.name != "self" and own.kind != own.VAR_KEYWORD}
    return list(names)
