"""The figures that the paper prints, by table; `paper.json` was read off its LaTeX source."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=1)
def paper_figures() -> dict[str, Any]:
    """Return the figures of every table of the paper.

    `table1` and `table7` hold SAcc, and RAcc, ASR and AvgQ against TextFooler, PWWS and BAE, by data, encoder and
    method; `table2` and `table6` each number with its change; `table3` ASR by M; `table4` rows of sigma, M, N_l, ASR
    and SAcc; `table5` mean, standard deviation, largest and least; `table8` training and inference time.
    """
    values: dict[str, Any] = json.loads(files("rsmi.experiments").joinpath("paper.json").read_text(encoding="utf-8"))
    return values


def figure_of(*path: str | int) -> Any:
    """Return what stands at a place of the figures, None where the paper has nothing."""
    found: Any = paper_figures()
    for part in path:
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):
            return None
    return found
