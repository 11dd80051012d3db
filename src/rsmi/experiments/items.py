"""Every table and figure of the paper: what has to be done for it, how it is laid out, what it claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rsmi.errors import ConfigError
from rsmi.experiments import claims, drawings, figure_claims, grids, layouts, sheets
from rsmi.experiments.results import Results
from rsmi.experiments.scale import Scale
from rsmi.experiments.specs import Step
from rsmi.experiments.verdicts import Verdict
from rsmi.report.wording import Table
from rsmi.settings import nearest


@dataclass(frozen=True, slots=True)
class Item:
    """One table or figure."""

    name: str
    title: str
    steps: Callable[[Scale], tuple[Step, ...]]
    """What must be done before it can be laid out."""
    tables: Callable[[Results], list[Table]]
    judge: Callable[[Results], list[Verdict]]
    """The claims that the paper draws from it, judged."""
    figure: Callable[[Results], drawings.Drawing | None] = lambda _results: None


def _none(_results: Results) -> list[Verdict]:
    return []


_ITEMS = (
    Item("table1", "Table 1: RSMI and the baselines", grids.table1, layouts.table1, claims.table1),
    Item("table2", "Table 2: large models", grids.table2, layouts.table2, claims.table2),
    Item("table3", "Table 3: random and gradient-guided masks", grids.table3, layouts.table3, claims.table3),
    Item("table4", "Table 4: noise, masks and noise layers", grids.table4, layouts.table4, claims.table4),
    Item("table5", "Table 5: training stability", grids.table5, layouts.table5, claims.table5),
    Item("table6", "Table 6: majority voting", grids.table6, layouts.table6, claims.table6),
    Item("table7", "Table 7: QNLI", grids.table7, layouts.table7, claims.table7),
    Item("table8", "Table 8: run time", grids.table8, sheets.table8, claims.table8),
    Item("table9", "Table 9: settings", grids.nothing, sheets.table9, _none),
    Item("table10", "Table 10: data", grids.table10, sheets.table10, _none),
    Item("table11", "Table 11: adversarial texts added", grids.table11, sheets.table11, _none),
    Item("figure2", "Figure 2: hidden states", grids.figure2, sheets.figure2, figure_claims.figure2, drawings.figure2),
    Item(
        "figure3", "Figure 3: two-step sampling", grids.figure3, sheets.figure3, figure_claims.figure3, drawings.figure3
    ),
    Item(
        "figure4",
        "Figure 4: stochastic stability",
        grids.figure4,
        sheets.figure4,
        figure_claims.figure4,
        drawings.figure4,
    ),
)
ITEMS: Final[Mapping[str, Item]] = {item.name: item for item in _ITEMS}
"""Every table and figure by its name."""


def items_of(name: str) -> tuple[Item, ...]:
    """Return one item, or all of them for `all`."""
    if name == "all":
        return _ITEMS
    if name not in ITEMS:
        raise ConfigError(f"expected all or one of {', '.join(ITEMS)}; got {name!r}{nearest(name, ITEMS)}")
    return (ITEMS[name],)
