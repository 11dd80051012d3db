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


def complaint(ended: tuple[int, str, str], code: int, *words: str) -> str:
    """Check how a command failed, and return its message: one sentence about what, where and what to do next.

    Args:
        ended: Exit code, stdout and stderr.
        code: The exit code expected: 1 for an error, 2 for a wrong use.
        *words: What the message must name: the offending thing, and the next step.
    """
    found, out, err = ended
    assert "Traceback" not in out + err, err
    assert found == code, f"exit code {found}, expected {code}: {err}"
    if code == 2:
        assert "Usage: rsmi" in err
        assert "--help" in err  # the next step
        message = err[err.index("Error: ") :]
    else:
        last = err.strip().splitlines()[-1]
        assert last.startswith("rsmi: "), err
        assert sum(line.startswith("rsmi: ") for line in err.splitlines()) == 1, err
        message = last.removeprefix("rsmi: ")
        assert len(message) < 1000, message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    return message
