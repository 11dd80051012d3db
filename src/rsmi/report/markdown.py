"""A report -> Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import version

from rsmi.report import wording
from rsmi.report.markup import writable
from rsmi.report.report import Report
from rsmi.report.sample import Sample

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~$])")
_TABLES = (
    ("Accuracy before and under attack", wording.headline),
    ("From the paper's protocol to the worst case", wording.protocol_table),
    ("Paired tests", wording.comparison_table),
    ("Fresh draws", wording.redrawn_table),
    ("Persistence", wording.tries_table),
    ("Robust accuracy and queries", wording.query_table),
    ("Robust accuracy and words changed", wording.words_table),
    ("Calibration", wording.reliability_table),
    ("Classes", wording.class_table),
)


def markdown_page(report: Report) -> str:
    """Return the report as Markdown: warnings, tables, settings."""
    lines = ["# Robustness report", "", f"{len(report.runs)} runs, rsmi {version('rsmi')}.", ""]
    if report.warnings:
        lines += ["> **Read this first**", ">", *(f"> - {escape(warning)}" for warning in report.warnings), ""]
    for sample in report.samples:
        lines += _sample(sample)
    table = wording.certified_table(report.certified)
    if table:
        lines += ["## Certified accuracy", "", f"{table.caption}.", "", *markdown_table(table), ""]
    lines += ["## How to read it", "", *(f"- **{name}**: {text}" for name, text in wording.DEFINITIONS), ""]
    lines += ["## Runs", ""]
    for run in report.runs:
        lines += [f"### {escape(f'{run.model}, {run.data}, {run.attack}, {run.protocol}')}", ""]
        lines += [f"File: {escape(run.source)}", "", "```json", *_fenced(run.header), "```", ""]
    return "\n".join(lines)


def _sample(sample: Sample) -> Iterator[str]:
    yield from (f"## {escape(sample.title)}", "")
    if sample.source:
        yield from (f"Source: {escape(sample.source)}. Fingerprint: `{sample.fingerprint}`.", "")
    for title, table_of in _TABLES:
        table = table_of(sample)
        if table:
            yield from (f"### {title}", "", f"{escape(table.caption)}.", "", *markdown_table(table), "")


def markdown_table(table: wording.Table) -> Iterator[str]:
    """Yield the lines of a table; the title of a group of rows becomes a row."""
    numeric = [cell.number for cell in next(rows for _, rows in table.groups if rows)[0]]
    yield "| " + " | ".join(escape(column) for column in table.columns) + " |"
    yield "|" + "|".join("--:" if right else "---" for right in numeric) + "|"
    for title, rows in table.groups:
        if title:
            yield f"| **{escape(title)}** |" + " |" * (len(table.columns) - 1)
        for row in rows:
            yield "| " + " | ".join(f"{escape(cell.text)} {cell.interval}".strip() for cell in row) + " |"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(writable(text).split()))


def _fenced(header: object) -> list[str]:
    """Return JSON that cannot end its own fence."""
    return json.dumps(header, indent=1, sort_keys=True).replace("```", "\\u0060``").splitlines()
