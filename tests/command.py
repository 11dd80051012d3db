"""Runs `rsmi` as a shell would, in this process."""

from __future__ import annotations

import sys

import pytest

from rsmi.app.cli import main


def rsmi(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of `rsmi words`."""
    monkeypatch.setattr(sys, "argv", ["rsmi", *map(str, words)])
    capfd.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capfd.readouterr()
    return stopped.value.code or 0, out, err  # type: ignore[return-value]
