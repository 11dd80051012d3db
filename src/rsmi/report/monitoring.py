"""How well attacks are told from clean texts -> JSON, Markdown and a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsmi.evaluation.monitoring import FALSE_ALARMS, Roc
from rsmi.report.markdown import escape
from rsmi.report.svg import roc_chart
from rsmi.writing import write_text

_NAMES = {
    "under_attack": "`under_attack` (all three)",
    "disagreement": "disagreement of the votes",
    "escalation": "escalation",
    "concentration": "concentration of the saliency",
}


@dataclass(frozen=True, slots=True)
class Watched:
    """One attack on one sample, and what the signals saw of it."""

    attack: str
    """Its name, with protocol and data set."""
    source: str
    fresh: bool
    """Whether the texts were classified under other draws than those the attacker saw."""
    curves: tuple[Roc, ...]


def write_monitoring(out: Path, watched: Sequence[Watched], about: Mapping[str, Any]) -> list[Path]:
    """Write OUT.json, OUT.md and OUT.svg; returns the files.

    Args:
        out: Path without an ending.
        watched: What was measured.
        about: What it depends on: model, weights and where they come from, seed, versions.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        ".json": json.dumps(to_dict(watched, about), indent=1) + "\n",
        ".md": markdown(watched, about, f"{out.name}.svg"),
        ".svg": roc_chart(_lines(watched), label="attacks caught against false alarms"),
    }
    files = []
    for ending, text in texts.items():
        path = out.with_name(out.name + ending)
        write_text(path, text)
        files.append(path)
    return files


def to_dict(watched: Sequence[Watched], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values, ready for JSON."""
    runs = [
        {
            "attack": own.attack,
            "source": own.source,
            "fresh_draws": own.fresh,
            "signals": [roc.to_dict() for roc in own.curves],
        }
        for own in watched
    ]
    return {**about, "false_alarms": FALSE_ALARMS, "runs": runs}


def markdown(watched: Sequence[Watched], about: Mapping[str, Any], figure: str) -> str:
    """Return the page."""
    lines = [
        "# Telling attacks from clean texts",
        "",
        "Originals that the model answers right against the texts that attacks made of them, classified anew. AUC: "
        "chance that an attacked text scores higher than a clean one (0.5 is a coin), with its 95 % bootstrap interval "
        f"over inputs. Caught: share of attacked texts at no more than {100 * FALSE_ALARMS:g} % false alarms.",
        "",
        f"![curves]({figure})",
        "",
        "| attack | signal | clean | attacked | AUC | caught % |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for own in watched:
        drawn = "" if own.fresh else ", on the draws the attacker saw"
        for roc in own.curves:
            shown = f"{roc.auc:.3f} [{roc.low:.3f}, {roc.high:.3f}]"
            name = escape(own.attack + drawn)
            lines.append(
                f"| {name} | {_NAMES[roc.score]} | {roc.clean} | {roc.attacked} | {shown} | {100 * roc.caught:.1f} |"
            )
    return "\n".join([*lines, "", "```json", json.dumps(dict(about), indent=1, sort_keys=True), "```", ""])


def _lines(watched: Sequence[Watched]) -> list[tuple[str, Sequence[tuple[float, float]]]]:
    return [
        (f"{own.attack}: AUC {roc.auc:.2f}", roc.points)
        for own in watched
        for roc in own.curves
        if roc.score == "under_attack"
    ]
