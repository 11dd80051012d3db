"""Names of attacks -> attacks."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from rsmi.attacks.base import Attack
from rsmi.errors import ConfigError

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
        raise ConfigError(f"attack: expected one of {known}, or {BRIDGE}RECIPE; got {name!r}")
    made = getattr(import_module(f"rsmi.attacks.{name}"), ATTACKS[name])
    try:
        attack: Attack = made(**settings)
    except TypeError as error:
        raise ConfigError(f"attack {name}: {error}") from error
    return attack
