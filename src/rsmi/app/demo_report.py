"""What the demo found -> a table on the terminal and a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rsmi.app.live import changes
from rsmi.records import AttackRecord

_COLUMNS = (
    ("test", "test sentences (n = {n_test})"),
    ("clean", "{n_pairs} of the test split"),
    ("perturbed", "the same, perturbed by hand"),
)
_ATTACK = "{n_attacked} of the {n_test}, attacked by TextFooler"
_CAVEAT = (
    "A demonstration, not an evaluation: {n_pairs} sentences perturbed by hand, without looking at any model, and "
    "{n_attacked} attacked ones are too few to rank models, and the attack does not adapt to the noise and masks of "
    "RSMI. Intervals are 95 % Wilson; seed {seed}."
)


def show(summary: dict[str, Any], records: list[dict[str, Any]], attacked: Sequence[tuple[str, AttackRecord]]) -> None:
    """Print a few perturbed and a few attacked sentences with the answers, then the table."""
    console = Console(highlight=False)
    console.print()
    for group in _by_sentence(records)[:6]:
        first = group[0]
        console.print(f"[dim]original [/dim] {first['original']['text']}  [dim]({first['gold']})[/dim]", soft_wrap=True)
        console.print(f"[dim]perturbed[/dim] {first['perturbed']['text']}", soft_wrap=True)
        console.print("          " + "   ".join(_answer(record) for record in group) + "\n", soft_wrap=True)
    for name in summary["models"]:
        fooled = [record for own, record in attacked if own == name and record.outcome == "succeeded"]
        for record in fooled[:2]:
            console.print(f"[dim]TextFooler against {name}, {record.queries} queries:[/dim]")
            console.print(changes(record), soft_wrap=True)
    console.print()
    table = Table(title="right answers in %, with 95 % intervals")
    table.add_column("model")
    for _, title in _COLUMNS:
        table.add_column(title.format(**summary), justify="right")
    table.add_column(_ATTACK.format(**summary), justify="right")
    for name, accuracy in summary["models"].items():
        table.add_row(name, *(_cell(accuracy[key]) for key, _ in _COLUMNS), _under_attack(summary, name))
    console.print(table)
    console.print(_CAVEAT.format(**summary), style="dim")


def report_markdown(summary: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """Return the demo's result as a Markdown page."""
    titles = [title.format(**summary) for _, title in _COLUMNS] + [_ATTACK.format(**summary)]
    lines = [
        "# rsmi demo",
        "",
        f"Both models: MiniLM (embedded), {summary['n_train']} training sentences. Data: {summary['source']}.",
        "",
        "Right answers in %, with 95 % intervals:",
        "",
        "| model | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
    ]
    for name, accuracy in summary["models"].items():
        cells = [*(_cell(accuracy[key]) for key, _ in _COLUMNS), _under_attack(summary, name)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "The attack:",
        "",
        "| model | right before | attack success | mean queries | asked again, still wrong |",
    ]
    lines.append("|---|---|---|---|---|")
    for name, attack in summary["attacks"].items():
        again = _cell(attack["fresh_flips"]) if attack["fresh_flips"]["total"] else "not randomised"
        cells = [_cell(attack["accuracy"]), _cell(attack["attack_success"]), f"{attack['queries']:.1f}", again]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    used = "; ".join(f"{what}: {which}" for what, which in summary["resources"].items())
    lines += ["", f"Resources of the attack: {used}."]
    versions = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    lines += ["", _CAVEAT.format(**summary), "", f"Versions: {versions}.", "", "## The sentences", ""]
    for group in _by_sentence(records):
        first = group[0]
        lines.append(f"- ({first['gold']}) {first['original']['text']}")
        lines.append(f"  - perturbed: {first['perturbed']['text']}")
        lines += [
            f"  - {record['model']}: {record['original']['label']} -> {record['perturbed']['label']}"
            f" ({record['perturbed']['copies']} copies){' **flipped**' if record['flipped'] else ''}"
            for record in group
        ]
    return "\n".join(lines) + "\n"


def _by_sentence(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["original"]["text"], []).append(record)
    return list(groups.values())


def _answer(record: dict[str, Any]) -> str:
    colour = "red" if record["perturbed"]["label"] != record["gold"] else "green"
    votes = record["perturbed"]["second_votes"] or record["perturbed"]["first_votes"]
    shown = ", ".join(f"{label} {count}" for label, count in votes.items())
    return f"{record['model']}: [{colour}]{record['perturbed']['label']}[/{colour}] [dim](votes {shown})[/dim]"


def _under_attack(summary: dict[str, Any], name: str) -> str:
    return _cell(summary["attacks"][name]["robust_accuracy"]) if name in summary["attacks"] else "not attacked"


def _cell(accuracy: dict[str, Any]) -> str:
    if accuracy["value"] is None:
        return "-"
    return f"{100 * accuracy['value']:.1f} [{100 * accuracy['low']:.1f}, {100 * accuracy['high']:.1f}]"
