from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from keywords import KeywordTarget, TableAttack
from rsmi.data import TextDataset
from rsmi.errors import DataError
from rsmi.evaluation.attacking import attack_to_file
from rsmi.evaluation.runs import Run, cautions, mcnemar, share_of, worst_case
from rsmi.records import AttackRecord
from toy import FAILED

WORDS = {"good": ["fine", "bad"], "great": ["big"]}
TEXTS = ("a good film", "a great film", "a poor film", "good and great", "none", "more")
SUCCEEDED = replace(FAILED, outcome="succeeded", label_after="neg", gold_after=0.3)


def run(outcomes: str, protocol: str = "paper", attack: str = "textfooler", **header) -> Run:
    kinds = {"f": FAILED, "s": SUCCEEDED, "k": replace(FAILED, outcome="skipped", label_before="neg")}
    records: tuple[AttackRecord, ...] = tuple(kinds[letter] for letter in outcomes)
    about = {"attack": {"name": attack}, "data": {"name": "toy", "fingerprint": "d"}, "num": len(records)}
    about |= {"model": {"name": "m", "fingerprint": "w"}, "protocol": {"label": protocol}, **header}
    return Run("a file", about, records)


def test_an_input_survives_the_worst_case_if_it_survives_every_run():
    survived = worst_case([run("ffsk"), run("fsfk"), run("ffff")])
    assert survived == (True, False, False, False)
    assert share_of(survived).count == 1
    with pytest.raises(DataError, match="same model and sample"):
        worst_case([run("ff"), run("fff")])
    with pytest.raises(DataError, match="at least one run"):
        worst_case([])


def test_by_majority_a_success_counts_only_where_most_fresh_draws_are_fooled():
    often, rarely = (replace(SUCCEEDED, fresh_draws=4, fresh_flips=flips) for flips in (3, 2))
    own = replace(run("fsssk"), records=(FAILED, often, rarely, SUCCEEDED, run("k").records[0]))
    assert own.survived == (True, False, False, False, False)
    assert own.survived_by_majority == (True, False, True, False, False)  # never asked again: it counts
    other = replace(own, records=(rarely, *own.records[1:]))
    assert worst_case([own, other]) == (False, False, False, False, False)
    assert worst_case([own, other], by_majority=True) == (True, False, True, False, False)


def test_mcnemar_counts_what_only_one_got_right():
    compared = mcnemar([True] * 8 + [False] * 3, [False] * 8 + [True] + [False] * 2)
    assert (compared.only_first, compared.only_second) == (8, 1)
    assert compared.p_value == pytest.approx(2 * (1 + 9) / 2**9)
    assert mcnemar([True, False], [True, False]).p_value == 1.0
    with pytest.raises(DataError, match="same inputs"):
        mcnemar([True], [])


def test_a_deterministic_model_without_gradients_needs_no_caution():
    assert cautions([run("ffss")]) == []


def test_what_is_random_or_takes_gradients_is_named_until_it_was_attacked_as_such():
    alone = cautions([run("ffss", randomised=True, uses_gradients=True)])
    assert any("its answers are random" in one for one in alone)
    assert any("not attacked under eot, fixed-noise, transfer, persistent" in one for one in alone)
    assert any("white-box" in one for one in alone)
    names = ("paper", "eot-20", "fixed-noise", "transfer", "persistent", "white-box")
    whole = cautions([run("ffss", name, randomised=True, uses_gradients=True) for name in names])
    assert len(whole) == 1


def test_an_attack_that_must_be_easier_and_is_not_is_named():
    weak = [run("f" * 20, "fixed-noise"), run("s" * 12 + "f" * 8, "eot-20")]
    assert any("frozen noise was harder" in one for one in cautions(weak))
    assert not cautions([run("f" * 20, "fixed-noise"), run("s" + "f" * 19, "eot-20")])  # within chance
    masked = [run("f" * 20, "white-box", "hotflip"), run("s" * 12 + "f" * 8, "transfer")]
    assert any("a transfer beat the white-box attack" in one for one in cautions(masked))


def test_one_hot_scores_and_budgets_are_named():
    hot = replace(run("ff"), records=(replace(FAILED, gold_before=1.0, gold_after=1.0),) * 2)
    assert any("one-hot" in one for one in cautions([hot]))
    spent = replace(run("ff"), records=(FAILED, replace(FAILED, budget_hit=True)))
    assert any("1 attacks failed because their queries ran out" in one for one in cautions([spent]))


def test_a_run_is_read_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    data = TextDataset(name="toy", split="test", texts=TEXTS, labels=("pos",) * 6, source="a test")
    list(attack_to_file(KeywordTarget({"good": 2.0, "bad": -2.0}), TableAttack(WORDS), data, path))
    whole = Run.read(path)
    assert whole.data == "toy"
    assert whole.attack == "table"
    assert whole.protocol == "paper"
    assert len(whole.records) == 6
    assert whole.robustness.accuracy.total == 6
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3] + lines[4:]))
    with pytest.raises(DataError, match=r"expected 6 records, 1 are missing \(the first: 2\).*--resume"):
        Run.read(path)
    path.write_text("".join([*lines[:3], "{broken}\n", *lines[4:]]))
    with pytest.raises(DataError, match="line 4"):
        Run.read(path)
    path.write_text("".join(lines)[:-5])
    with pytest.raises(DataError, match="line 7: expected a whole record, got a half-written one"):
        Run.read(path)
    path.write_text("".join([lines[0].replace('"format": 1', '"format": 99'), *lines[1:]]))
    with pytest.raises(DataError, match="line 1: expected records of format 1, got format 99"):
        Run.read(path)


def test_other_settings_of_the_same_weights_are_another_model():
    plain = {"name": "m", "fingerprint": "w", "config": {"noise_std": 0.0, "aggregation": "vote"}}
    noisy = {"name": "m", "fingerprint": "w", "config": {"noise_std": 0.2, "aggregation": "vote"}}
    averaged = {"name": "m", "fingerprint": "w", "config": {"noise_std": 0.2, "aggregation": "logit-average"}}
    with pytest.raises(DataError, match="same model and sample"):
        worst_case([run("ff", model=plain), run("ff", model=noisy)])
    assert worst_case([run("ff", model=averaged), run("fs", model=noisy)]) == (True, False)
    assert run("f", model="a name").model == "a name"
