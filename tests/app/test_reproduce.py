"""`rsmi reproduce`: plans without a hub, smoke tests, errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsmi.app.cli import app
from rsmi.errors import RsmiError

run = CliRunner().invoke


def test_the_papers_plan_is_told_without_a_hub() -> None:
    result = run(app, ["reproduce", "all", "--scale", "paper", "--plan", "--teraflops", "60"])
    assert result.exit_code == 0, result.output
    assert "t5-large (T5-Large)" in result.output
    assert "1000 attacked" in result.output
    assert "at 60 TFLOP/s" in result.output


def test_a_smoke_test_runs_every_step_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(app, ["reproduce", "figure4", "--scale", "paper", "--smoke"])
    assert result.exit_code == 0, result.output
    assert "every step of figure4 runs at scale paper" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table12"], "expected all or one of table1"),
        (["table1", "--scale", "huge"], "--scale: expected one of small, paper; got 'huge'"),
    ],
)
def test_wrong_names_are_said(words: list[str], message: str) -> None:
    result = run(app, ["reproduce", *words])
    assert isinstance(result.exception, RsmiError)
    assert message in str(result.exception)


def test_results_are_not_continued_unasked(tmp_path: Path) -> None:
    (tmp_path / "scale.json").write_text("{}", encoding="utf-8")
    result = run(app, ["reproduce", "table10", "--out", str(tmp_path)])
    assert isinstance(result.exception, RsmiError)
    assert "pass --resume" in str(result.exception)
