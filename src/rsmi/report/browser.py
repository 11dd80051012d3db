"""Attacked examples -> the part of the page that lists, filters and searches them."""

from __future__ import annotations

from collections.abc import Sequence

from rsmi.report.examples import example_data
from rsmi.report.markup import escape, json_block
from rsmi.report.report import Report

_FILTERS = (("data", "Data"), ("model", "Model"), ("attack", "Attack"), ("protocol", "Protocol"))
_ORDERS = (
    ("place", "input"),
    ("words", "fewest words changed"),
    ("queries", "fewest queries"),
    ("flips", "surest success"),
)


def browser_section(report: Report, max_examples: int | None) -> str:
    """Return controls, an empty list and the data that the page's script fills it from."""
    data = example_data(report.runs, report.samples, max_examples)
    selects = []
    for name, title in _FILTERS:
        values = dict.fromkeys(run[name] for run in data["runs"])
        selects.append(_select(name, title, [("", "all"), *((value, value) for value in values)]))
    outcomes = [("", "all"), *((name, name) for name in ("succeeded", "failed", "skipped"))]
    selects.append(_select("outcome", "Outcome", outcomes))
    selects.append(_select("order", "Sorted by", _ORDERS))
    left_out = (
        f"<p>{data['left_out']:,} more records are in the files of the runs only.</p>" if data["left_out"] else ""
    )
    return "\n".join(
        [
            '<section id="examples" aria-labelledby="title-examples"><h2 id="title-examples">Attacked examples</h2>',
            '<noscript><p class="note">The list of examples needs JavaScript; all numbers above do not.</p></noscript>',
            left_out,
            '<form id="filters" role="search" aria-label="Filter examples">',
            *selects,
            '<label class="wide">Search <input type="search" name="q" placeholder="words in either text"></label>',
            "</form>",
            '<p class="status"><output id="count" aria-live="polite"></output> '
            '<button type="button" id="reset" hidden>Show all</button></p>',
            '<ol id="list" class="examples"></ol>',
            '<p><button type="button" id="more" hidden>Show more</button></p>',
            json_block("data", data),
            "</section>",
        ]
    )


def _select(name: str, title: str, options: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<option value="{escape(value)}">{escape(shown)}</option>' for value, shown in options)
    return f'<label>{escape(title)} <select name="{escape(name)}">{items}</select></label>'
