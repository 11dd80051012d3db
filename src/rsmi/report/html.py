"""A report -> one HTML page that needs no network and no other file."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from rsmi.evaluation.runs import Run
from rsmi.report import wording
from rsmi.report.browser import browser_section
from rsmi.report.markup import counted, digest, escape, folded, page_script, table_markup
from rsmi.report.numbers import unique
from rsmi.report.report import Report
from rsmi.report.sections import sample_section
from rsmi.report.svg import line_of, radius_axis, step_chart, swatch

_HERE = Path(__file__).parent


def html_page(report: Report, max_examples: int | None = None) -> str:
    """Return the whole page.

    Args:
        report: What to show.
        max_examples: Attacked examples of each run, the first ones; None for all.
    """
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = page_script((_HERE / "page.js").read_text(encoding="utf-8"))
    # No other script or style than these two runs, whatever a text or a name in a record says.
    policy = "default-src 'none'; img-src data:; base-uri 'none'; "
    policy += f"style-src '{digest(style)}'; script-src '{digest(script)}'"
    models, attacks = unique(run.model for run in report.runs), unique(run.attack for run in report.runs)
    sections = [sample_section(place, sample) for place, sample in enumerate(report.samples)]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<title>Robustness report: {escape(", ".join(models))}</title>\n<link rel="icon" href="data:,">',
            f"<style>{style}</style>\n</head>\n<body>",
            '<a class="skip" href="#main">Skip to the numbers</a>\n<header class="page"><div>',
            "<h1>Robustness report</h1>",
            f"<p>{counted(len(models), 'model')}, {counted(len(attacks), 'attack')}, "
            f"{counted(len(report.samples), 'sample')}, {counted(len(report.runs), 'run')} "
            f"· rsmi {version('rsmi')}</p>",
            '</div><button type="button" id="theme" hidden>Dark</button></header>',
            _contents(report),
            '<main id="main">',
            _warnings(report),
            *sections,
            _certified(report),
            browser_section(report, max_examples),
            _runs(report),
            _definitions(),
            f"</main>\n<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def _contents(report: Report) -> str:
    entries = [(f"sample-{place}", sample.title) for place, sample in enumerate(report.samples)]
    entries += [("certified", "Certified accuracy")] if report.certified else []
    entries += [("examples", "Examples"), ("runs", "Runs"), ("definitions", "How to read it")]
    links = "".join(f'<li><a href="#{target}">{escape(title)}</a></li>' for target, title in entries)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _warnings(report: Report) -> str:
    if not report.warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in report.warnings)
    return (
        '<aside class="warnings" aria-labelledby="warnings"><h2 id="warnings">Read this first</h2>'
        f"<ul>{items}</ul></aside>"
    )


def _certified(report: Report) -> str:
    if not report.certified:
        return ""
    lines = [line_of(own.name, style, own.curve, 0.0) for style, own in enumerate(report.certified)]
    legend = "".join(f"<li>{swatch(line.style)} {escape(line.name)}</li>" for line in lines)
    charts = ""
    for space in unique(own.space for own in report.certified):  # radii of two spaces have nothing in common
        drawn = [line for line, own in zip(lines, report.certified, strict=True) if own.space == space]
        label = f"Certified accuracy against the radius in {space}; the table below holds the numbers"
        chart = step_chart(drawn, radius_axis(drawn), label=label, y_label="certified %")
        charts += f"<figure>{chart}<figcaption>{escape(space)}, with 95 % intervals</figcaption></figure>"
    return (
        f'<section id="certified"><h2>Certified accuracy</h2><ul class="legend" aria-label="Legend">{legend}</ul>'
        f'<div class="figures">{charts}</div>'
        f"{table_markup(wording.certified_table(report.certified))}</section>"
    )


def _runs(report: Report) -> str:
    return f'<section id="runs"><h2>Runs</h2>{"".join(_run(run) for run in report.runs)}</section>'


def _run(run: Run) -> str:
    title = f"{run.model} · {run.data} · {run.attack} · {run.protocol}"
    settings = escape(json.dumps(run.header, indent=1, ensure_ascii=False, sort_keys=True))
    seeds = f"seed {run.header.get('seed')}, model seed {run.header.get('model_seed')}"
    about = f"{escape(run.source)} · n = {len(run.records)} · {escape(seeds)}"
    if run.fingerprint:
        about += f" · weights <code>{escape(run.fingerprint)}</code>"
    return folded(title, f'<p class="source">{about}</p><pre tabindex="0">{settings}</pre>')


def _definitions() -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in wording.DEFINITIONS)
    return f'<section id="definitions"><h2>How to read it</h2><dl class="words">{items}</dl></section>'
