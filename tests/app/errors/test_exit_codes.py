"""The exit codes that docs/cli.md tells are those that commands end with."""

from __future__ import annotations

import pytest

from rsmi import RsmiClassifier
from rsmi.app.exits import EXIT_CODES, INTERRUPTED
from rsmi.app.gate import FAILED

ENDS = {
    0: ("--version",),
    1: ("predict", "./nowhere", "good"),
    2: ("bogus",),
    3: ("gate", "{model}", "{table}", "--attack", "deepwordbug", "--num", 6, "--fresh-draws", 0, "--min-accuracy", 1),
    130: ("predict", "{model}", "good"),
}


def test_every_exit_code_is_told():
    assert list(EXIT_CODES) == list(ENDS)
    assert {FAILED, INTERRUPTED} < set(EXIT_CODES)


@pytest.mark.parametrize("code", ENDS)
def test_commands_end_with_the_codes_that_are_told(run, model, table, monkeypatch, code):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    if code == INTERRUPTED:
        monkeypatch.setattr(RsmiClassifier, "explain_iter", stopped)
    found, _, err = run(*(str(word).format(model=model, table=table) for word in ENDS[code]))
    assert found == code, err
    assert "Traceback" not in err


def test_no_command_at_all_is_a_wrong_use_and_shows_the_help(run):
    code, out, err = run()
    assert code == 2
    assert "Commands:" in out + err


@pytest.mark.filterwarnings("default::rsmi.errors.RsmiWarning")
def test_a_warning_is_a_line_without_its_place_in_the_code(run, base, tmp_path):
    rare = tmp_path / "rare.csv"
    rare.write_text("text,label\n" + "a good film,pos\na bad film,neg\n" * 10 + "a film,odd\n")
    words = ("--base", base, "--noise-layers", 2, "--epochs", 1, "--method", "finetune", "--out", tmp_path / "new")
    code, _, err = run("train", rare, *words)
    assert code == 0, err
    assert sum(line.startswith("warning: class 'odd'") for line in err.splitlines()) == 1
    assert "train.py" not in err
