"""Text -> a file that is there whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file in one step: whoever reads it meanwhile finds the old one."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
