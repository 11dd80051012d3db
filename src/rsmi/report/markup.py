"""Text, tables and data -> HTML that shows them and nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

from rsmi.report.wording import Cell, Table

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def writable(text: str) -> str:
    """Return text in which what UTF-8 or a page cannot hold is a replacement character."""
    return _UNWRITABLE.sub("\ufffd", text)


def escape(text: str) -> str:
    """Return text for an element or an attribute."""
    return html.escape(writable(text), quote=True)


def json_block(identifier: str, values: Any) -> str:
    """Return data for a script of the page; no text in it can end the block."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    safe = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return f'<script type="application/json" id="{escape(identifier)}">{safe}</script>'


def folded(title: str, content: str) -> str:
    """Return content that opens under its title."""
    return f"<details><summary>{escape(title)}</summary><div>{content}</div></details>"


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def table_markup(table: Table) -> str:
    """Return a table that scrolls by itself where it is wider than the page; the first column names its row."""
    head = "".join(
        f'<th scope="col"{_kind(cell)}>{escape(column)}</th>'
        for column, cell in zip(table.columns, _first_row(table), strict=True)
    )
    bodies = []
    for title, rows in table.groups:
        lines = [_row(row) for row in rows]
        if title:
            wide = f'<th scope="rowgroup" colspan="{len(table.columns)}"><span>{escape(title)}</span></th>'
            lines.insert(0, f'<tr class="group">{wide}</tr>')
        bodies.append(f"<tbody>{''.join(lines)}</tbody>")
    caption = escape(table.caption)
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table>'
        f"<caption><span>{caption}</span></caption>"
        f"<thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
    )


def _first_row(table: Table) -> tuple[Cell, ...]:
    return next(rows for _, rows in table.groups if rows)[0]


def _row(row: tuple[Cell, ...]) -> str:
    name, *cells = row
    parts = [f'<th scope="row">{escape(name.text)}</th>']
    for cell in cells:
        interval = f" <small>{escape(cell.interval)}</small>" if cell.interval else ""
        parts.append(f"<td{_kind(cell)}>{escape(cell.text)}{interval}</td>")
    return f"<tr>{''.join(parts)}</tr>"


def _kind(cell: Cell) -> str:
    return ' class="number"' if cell.number else ""


def page_script(*parts: str) -> str:
    """Return the script of a page: what all pages share, then its own parts, out of reach of everything else."""
    shared = files("rsmi.report").joinpath("parts.js").read_text("utf-8")
    return f'"use strict";\n(() => {{\n{shared}{"".join(parts)}}})();\n'


def digest(text: str) -> str:
    """Return what a content policy calls a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
