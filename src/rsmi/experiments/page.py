"""Items and their results -> a page with tables, figures and verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from rsmi.errors import DataError
from rsmi.evaluation.running import versions
from rsmi.experiments.drawings import draw
from rsmi.experiments.items import Item
from rsmi.experiments.results import Results
from rsmi.experiments.running import steps_of
from rsmi.experiments.scale import Scale
from rsmi.experiments.verdicts import Status, Verdict
from rsmi.report.markdown import escape, markdown_table
from rsmi.writing import write_text


def finished(items: Sequence[Item], results: Results) -> list[Item]:
    """Return the items whose steps are all done."""
    return [item for item in items if all(results.done(step) for step in steps_of((item,), results.scale))]


def judged_items(items: Sequence[Item], results: Results) -> dict[str, list[Verdict]]:
    """Return the verdicts of every finished item; resampling takes a while, so keep them."""
    return {item.name: item.judge(results) for item in finished(items, results)}


def write_page(items: Sequence[Item], results: Results, judged: Mapping[str, list[Verdict]]) -> Path:
    """Write README.md, verdicts.json and figures about every judged item into the results' folder."""
    if not judged:
        raise DataError(f"{results.folder}: expected a finished item of {', '.join(i.name for i in items)}, got none")
    for item in items:
        drawing = item.figure(results) if item.name in judged else None
        if drawing is not None:
            draw(drawing, results.folder / f"{item.name}.svg")
    page = results.folder / "README.md"
    write_text(page, "\n".join(page_lines(items, results, judged)))
    values = {name: [verdict.to_dict() for verdict in own] for name, own in judged.items()}
    write_text(results.folder / "verdicts.json", json.dumps(values, indent=1) + "\n")
    return page


def page_lines(
    items: Sequence[Item], results: Results, judged: Mapping[str, list[Verdict]], figures: str = ""
) -> list[str]:
    """Return the page about every judged item, title and an empty line first.

    Args:
        items: What the page is about; those not judged are named.
        results: What was found.
        judged: Verdicts by the name of the item.
        figures: Where the figures are, as seen from the page.
    """
    ready = [item for item in items if item.name in judged]
    lines = ["# The paper's tables and figures, reproduced", "", *_about(results), "", *_verdicts(ready, judged)]
    missing = [item.title for item in items if item.name not in judged]
    if missing:
        lines += ["Not finished yet: " + "; ".join(missing) + ".", ""]
    for item in ready:
        lines += [f"## {item.title}", ""]
        drawing = item.figure(results)
        if drawing is not None:
            lines += [f"![{drawing.title}]({figures}{item.name}.svg)", ""]
        for table in filter(None, item.tables(results)):  # where no attack succeeded, some have no rows
            lines += [f"{escape(table.caption)}.", "", *markdown_table(table), ""]
        lines += _evidence(judged[item.name])
    return lines


def _about(results: Results) -> list[str]:
    scale = results.scale
    found = _read(results)
    return [
        f"Made by `rsmi reproduce all --scale {scale.name}`: {scale.told_texts()}, {scale.num} inputs attacked, the "
        f"first {scale.max_words} words of each. Copies of randomised models are computed by the "
        f"backend {scale.backend}.",
        "",
        *(f"- {own.label} stands for {role}." for role, own in scale.encoders.items() if own.label != role),
        f"- Settings that differ from the paper's: {_by_method(scale.settings, scale.own_settings) or 'none'}.",
        f"- Training: {_by_method(scale.training, scale.own_training) or 'the presets'}"
        f"{_by_data(scale)}{_rates(scale)}.",
        f"- Software: {_software(found)}.",
        *_machines(found),
    ]


def _software(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the versions that steps were done with, of this machine where nothing is known of any."""
    known = [own["versions"] for own in found if "versions" in own] or [versions()]
    used = {name: sorted({own[name] for own in known if own.get(name)}) for name in known[0]}
    return ", ".join(f"{name} {' or '.join(own)}" for name, own in used.items() if own)


def _machines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line about the machines at work, if any was noted."""
    noted = Counter(_machine(own["machine"]) for own in found if "machine" in own)
    if not noted:
        return []
    told = "; ".join(f"{machine} ({count})" for machine, count in sorted(noted.items()))
    missing = f"; of {len(found) - noted.total()} others it was not noted" if noted.total() < len(found) else ""
    return [f"- Machines, and how many models and measurements were made on each: {told}{missing}."]


def _machine(own: Mapping[str, Any]) -> str:
    processors = (
        own["processor"] if own["devices"] == ["cpu"] else f"{own['processor']} with {' and '.join(own['devices'])}"
    )
    return f"{processors}, {own['threads']} of {own['cores']} cores, float32 products by {own['products']}"


def _read(results: Results) -> list[dict[str, Any]]:
    """Return what was noted of every model and measurement."""
    files = sorted(file for kind in ("models", "measures") for file in (results.folder / kind).glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _by_method(common: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> str:
    """Return settings in words, those of all models and those of single methods."""
    told = [_plain(common)] if common else []
    return "; ".join([*told, *(f"{method}: {_plain(values)}" for method, values in own.items())])


def _by_data(scale: Scale) -> str:
    """Return settings of training that a method has on one data set only."""
    own = [(data, method, values) for data, had in scale.harder.items() for method, values in had.own_training.items()]
    return "".join(f"; {method} on {data}: {_plain(values)}" for data, method, values in own)


def _rates(scale: Scale) -> str:
    """Return the learning rates, where a scale has any of its own."""
    if scale.presets:
        return ""
    rates = {"": scale.rates} | {f" of {own.label}": own.rates for own in scale.encoders.values() if own.rates}
    rates |= {f" on {data}": own.rates for data, own in scale.harder.items()}
    return "".join(f"; learning rates{name} {rsmi:g} (RSMI) and {rest:g}" for name, (rsmi, rest) in rates.items())


def _plain(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _verdicts(items: Sequence[Item], judged: Mapping[str, list[Verdict]]) -> list[str]:
    found = Counter(verdict.status for item in items for verdict in judged[item.name])
    told = ", ".join(f"{found[status]} {status}" for status in get_args(Status))
    lines = ["## The paper's claims", "", f"{found.total()} judged: {told}.", ""]
    lines += ["| Item | Claim | Verdict |", "|---|---|---|"]
    for item in items:
        for verdict in judged[item.name]:
            words = (item.title.split(":")[0], verdict.claim, verdict.status)
            lines.append("| " + " | ".join(map(escape, words)) + " |")
    lines += [
        "",
        "A claim is *reproduced* if the 95 % interval of every one of its parts lies above 0, *not reproduced* if one "
        "lies below 0 (at a level corrected for their number), and *undecided* at this n otherwise. Intervals resample "
        "the inputs, the same for all models: what another seed of training would change is not in them. In round "
        "brackets: what the paper's own figures make of it. The estimates stand below the tables that they are made "
        "from.",
        "",
    ]
    return lines


def _evidence(verdicts: Sequence[Verdict]) -> list[str]:
    """Return each claim with its parts, a line each."""
    lines = []
    for verdict in verdicts:
        lines += [f"- **{verdict.status}**: {escape(verdict.claim)}"]
        lines += [f"    - {escape(part)}" for part in verdict.evidence]
    return [*lines, ""] if lines else []
