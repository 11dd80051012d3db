"""Names that the shell completes: written down here, since asking the library takes seconds and Tab must not wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

ATTACKS: Final = ("bae", "bertattack", "deepwordbug", "gbda", "hotflip", "pwws", "textfooler")
BACKENDS: Final = ("torch", "int8", "compile")
BOUNDS: Final = ("pa", "bonferroni", "refined", "sequential")
DTYPES: Final = ("float32", "bfloat16", "float16")
ITEMS: Final = ("all", *(f"table{n}" for n in range(1, 12)), *(f"figure{n}" for n in range(2, 5)))
KINDS: Final = ("l2-hidden", "l2-embedding", "l0-mask", "synonym", "edit")
METHODS: Final = ("rsmi", "finetune", "freelb", "infobert", "safer", "advaug")
PROFILES: Final = ("fast", "balanced", "robust")
PROTOCOLS: Final = (
    "paper",
    "vote",
    "eot",
    "fixed-noise",
    "temperature",
    "transfer",
    "white-box",
    "mask-aware",
    "persistent",
)
SCALES: Final = ("small", "paper")
SETS: Final = ("ag_news", "imdb", "mr", "qnli", "sms_spam", "snli")
SPLITS: Final = ("train", "dev", "test", "all")
SUITES: Final = ("standard", "full")
VARIANTS: Final = ("rsmi", "no-mask", "no-two-step", "rm", "gm", "safer", "ranmask", "deletion", "plain")


def among(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes one of some names; where none fits, the shell goes on with the names of files."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def presets(incomplete: str) -> list[str]:
    """Complete the name of a preset."""
    from rsmi.presets import PRESETS

    return among(PRESETS)(incomplete)
