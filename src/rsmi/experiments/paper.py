"""The figures that the paper prints, by table; `paper.json` was read off its LaTeX source."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from statistics import fmean
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


def compared(data: str, encoder: str, row: str) -> dict[str, Any] | None:
    """Return a row of Table 1, or of Table 7 for qnli; where the paper has none of an encoder, RoBERTa-base's."""
    table = "table7" if data == "qnli" else "table1"
    own: dict[str, Any] | None = figure_of(table, data, encoder, row) or figure_of(table, data, "roberta-base", row)
    return own


def mean_robust(data: str, encoder: str, row: str, attacks: int) -> float | None:
    """Return the mean RAcc of a row over the first of TextFooler, PWWS and BAE."""
    own = compared(data, encoder, row)
    return None if own is None else fmean(own["RAcc"][:attacks])


def less(first: float | None, second: float | None, factor: float = 1.0) -> float | None:
    """Return a figure less `factor` times another, None where the paper lacks one of them."""
    return None if first is None or second is None else first - factor * second
