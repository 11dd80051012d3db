"""Runs -> numbers, each one known by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from report_runs import record, run, suite
from rsmi.errors import DataError, InputError
from rsmi.evaluation.accuracy import wilson_interval
from rsmi.evaluation.robustness import Share
from rsmi.report import CertifiedCurve, Report
from rsmi.report.curves import Reliability, against_queries, against_words, success_by_tries
from rsmi.report.naming import protocol_order, short_names
from rsmi.report.numbers import WORST, Average, Redrawn, holm, wilson


def counts(share: Share) -> tuple[int, int]:
    return share.count, share.total


def test_robust_accuracy_falls_as_the_budget_grows() -> None:
    records = [record("s", queries=5), record("s", queries=20), record("s", queries=20), record("f", queries=90)]
    curve = against_queries([*records, record("-")])
    assert [counts(curve.at(budget)) for budget in (0, 4, 5, 19, 20, 1000)] == [
        (4, 5), (4, 5), (3, 5), (3, 5), (1, 5), (1, 5),
    ]  # fmt: skip
    assert curve.steps == ((5.0, 3), (20.0, 1))
    assert curve.end == 90.0


def test_robust_accuracy_falls_with_the_words_that_may_change() -> None:
    curve = against_words([record("s", words_changed=1), record("s", words_changed=3), record("f", words_changed=4)])
    assert [curve.at(share).count for share in (0.0, 0.25, 0.74, 0.75, 1.0)] == [3, 2, 2, 1, 1]
    assert curve.end == 1.0


def test_success_grows_with_tries_and_needs_several() -> None:
    records = [record("s", tries=1), record("s", tries=3), record("f", tries=3), record("-")]
    assert [counts(share) for share in success_by_tries(records)] == [(1, 3), (1, 3), (2, 3)]
    assert success_by_tries([record("s"), record("f")]) == ()
    assert success_by_tries([record("-")]) == ()


def test_the_calibration_error_is_the_weighted_gap_of_the_bins() -> None:
    sure = [record("f", confidence_before=0.95), record("-", confidence_before=0.95)]
    found = Reliability.of([*sure, record("s", confidence_before=0.6), record("s", confidence_before=1.0), record("f")])
    assert found is not None
    assert (found.total, found.left_out) == (4, 1)
    assert counts(found.bins[9].right) == (2, 3)
    assert counts(found.bins[6].right) == (1, 1)
    gap = abs(2 / 3 - (0.95 + 0.95 + 1.0) / 3)
    assert found.error == pytest.approx((3 * gap + 0.4) / 4)
    assert Reliability.of([record("f")]) is None  # no confidence was kept
    assert found.to_dict()["bins"][0]["confidence"] is None


def test_successes_are_weighed_on_fresh_draws() -> None:
    records = [record("s", fresh_draws=4, fresh_flips=n) for n in (4, 3, 2)] + [record("f"), record("-")]
    found = Redrawn.of(records)
    assert found is not None
    assert counts(found.first_draw) == (3, 4)
    assert found.mean_flips.value == pytest.approx(0.75)
    assert found.mean_flips.total == 3  # draws of one text are not independent: the interval counts texts
    assert counts(found.majority) == (2, 3)  # two of four draws are no majority
    assert counts(found.robust_by_majority) == (2, 5)
    assert Redrawn.of([record("s")]) is None


@pytest.mark.parametrize(("count", "total"), [(0, 7), (7, 7), (63, 100), (1, 1000)])
def test_the_interval_of_a_mean_is_wilsons(count: int, total: int) -> None:
    assert wilson(count / total, total) == pytest.approx(wilson_interval(count, total), abs=1e-12)


def test_a_mean_leaves_out_what_was_never_attacked() -> None:
    mean = Average.of([Share(count=1, total=4), Share(count=0, total=0), Share(count=3, total=5)])
    assert mean.value == pytest.approx((0.25 + 0.6) / 2)
    assert mean.total == 4
    nothing = Average.of([Share(count=0, total=0)])
    assert math.isnan(nothing.value)
    assert nothing.interval == (0.0, 1.0)
    assert nothing.to_dict()["value"] is None


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_never_sinks() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_protocols_come_in_the_order_of_the_design() -> None:
    names = ["persistent", "eot-20", "extra", "paper", "eot-5", "fixed-noise", "vote"]
    expected = ["paper", "vote", "eot-5", "eot-20", "fixed-noise", "persistent", "extra"]
    assert sorted(names, key=protocol_order) == expected


def test_a_suite_gives_the_numbers_counted_by_hand() -> None:
    (sample,) = Report.from_runs(suite()).samples
    assert sample.title == "toy test, n = 8"
    assert sample.models == ["plain", "noisy"]
    average = {(each.model, each.protocol): each for each in sample.averages}
    assert set(average) == {("plain", "paper"), ("noisy", "paper")}
    assert average["plain", "paper"].robust_accuracy.value == pytest.approx((0 / 8 + 2 / 8) / 2)
    assert average["plain", "paper"].attack_success.value == pytest.approx((6 / 6 + 4 / 6) / 2)
    assert average["plain", "paper"].attacks == ("textfooler", "pwws")
    joint = {(each.model, each.protocol): each for each in sample.protocols}
    assert counts(joint["noisy", "paper"].joint) == (4, 8)  # ssff-fff and fssf-fff
    assert counts(joint["noisy", "vote"].joint) == (6, 8)
    assert joint["noisy", "vote"].change == pytest.approx(0.25)
    assert counts(joint["noisy", WORST].joint) == (4, 8)
    assert joint["noisy", WORST].change == 0.0
    assert counts(joint["plain", WORST].joint) == (0, 8)
    tests = {(each.attack, each.protocol): each for each in sample.comparisons}
    majority = ("all", f"{WORST}, by majority")
    assert set(tests) == {("textfooler", "paper"), ("pwws", "paper"), ("all", WORST), majority}
    assert (tests["pwws", "paper"].result.only_first, tests["pwws", "paper"].result.only_second) == (1, 4)
    assert (tests["all", WORST].result.only_first, tests["all", WORST].result.only_second) == (0, 4)
    first = tests["textfooler", "paper"]
    assert (first.first, first.second) == ("plain", "noisy")
    assert (first.result.only_first, first.result.only_second) == (0, 5)
    assert first.result.p_value == pytest.approx(2 / 2**5)
    assert first.adjusted == pytest.approx(4 * 2 / 2**5)
    classes = dict(sample.runs[0].classes)
    assert list(classes) == ["neg", "pos"]
    assert counts(classes["pos"].accuracy) == (3, 4)


def test_the_worst_cases_of_models_are_compared_where_both_faced_the_same() -> None:
    runs = [
        run(own, model=model, attack=attack) for model, own in (("a", "ffs"), ("b", "sss")) for attack in ("x", "y")
    ]
    report = Report.from_runs(runs)
    worst = [each for each in report.samples[0].comparisons if each.protocol == WORST]
    assert len(worst) == 1
    assert (worst[0].result.only_first, worst[0].result.only_second) == (2, 0)


def test_the_worst_case_by_majority_spares_what_no_run_fools_on_most_draws() -> None:
    plain = [run("sf", model="a", attack=attack) for attack in ("x", "y")]
    flips = {"x": (80, 20), "y": (100, 50)}  # of a hundred draws, text by text
    noisy = [
        run("", model="b", attack=attack, records=[record("s", n, fresh_draws=100, fresh_flips=k) for n, k in own])
        for attack, own in ((attack, enumerate(ks)) for attack, ks in flips.items())
    ]
    (sample,) = Report.from_runs([*plain, *noisy]).samples
    joint = {(each.model, each.protocol): each for each in sample.protocols}
    assert (counts(joint["b", WORST].joint), counts(joint["b", WORST].by_majority)) == ((0, 2), (1, 2))
    assert counts(joint["a", WORST].by_majority) == counts(joint["a", WORST].joint) == (1, 2)  # not asked again
    test = next(each for each in sample.comparisons if each.protocol == f"{WORST}, by majority")
    assert (test.result.only_first, test.result.only_second) == (0, 0)


def test_warnings_tell_what_cannot_be_believed_or_compared() -> None:
    warnings = "\n".join(Report.from_runs(suite()).warnings)
    assert "noisy: its answers are random" in warnings
    assert "not attacked under" in warnings
    assert "fewer than 100 inputs" in warnings
    assert "spared" not in warnings  # what `plain` did not face says nothing about a model without noise or masks
    other = run("sf", model="b", versions={"rsmi": "0.2.0"})
    other = replace(other, header={**other.header, "attack": {"name": "textfooler", "max_queries": 50}})
    warnings = "\n".join(Report.from_runs([run("ff"), other]).warnings)
    assert "textfooler, paper: other max_queries for other models" in warnings
    assert "different versions of rsmi" in warnings


def test_a_model_that_was_spared_is_named_and_its_worst_case_not_compared() -> None:
    runs = [run("sf"), run("ff", model="b"), run("ff", model="b", attack="pwws", protocol="temperature")]
    report = Report.from_runs([*runs, run("ff", model="b", protocol="eot-5")])
    assert report.samples[0].spared == {"plain": ["pwws · temperature"]}
    assert any("plain was spared pwws · temperature; its worst case" in warning for warning in report.warnings)
    assert all(test.protocol != WORST for test in report.samples[0].comparisons)


def test_models_with_one_name_are_told_apart_by_weights_or_settings() -> None:
    one, two = run("sf"), run("ff")
    other = replace(two, header={**two.header, "model": {"name": "plain", "fingerprint": "123456789", "config": {}}})
    assert Report.from_runs([one, other]).samples[0].models == ["plain (weight)", "plain (123456)"]
    config = {"num_masks": 2, "aggregation": "logit-average"}
    header = {**two.header, "model": {**two.header["model"], "config": config}}
    assert Report.from_runs([one, replace(two, header=header)]).samples[0].models == [
        "plain (num_masks=1)",
        "plain (num_masks=2)",
    ]
    header = {**two.header, "model": {**two.header["model"], "config": {"num_masks": 1, "aggregation": "none"}}}
    other = replace(two, header={**header, "protocol": {"label": "vote"}})
    assert Report.from_runs([one, other]).samples[0].models == ["plain"]  # protocols set the aggregation


def test_folders_are_called_by_what_tells_them_apart() -> None:
    wanted = {
        "/runs/mr/plain": "mr/plain",
        "/runs/imdb/plain": "imdb/plain",
        "/runs/mr/rsmi/": "rsmi",
        "/runs/mr/rsmi · l0-mask": "rsmi · l0-mask",
        "runs/demo": "runs/demo",
        "org/model": "org/model",
    }
    assert short_names(wanted) == wanted
    curve = CertifiedCurve(name="/runs/b · edit", space="words", radii=(1.0,), total=2)
    report = Report.from_runs([run("sf", model="/runs/a"), run("ff", model="/runs/b")], [curve])
    assert report.samples[0].models == ["a", "b"]
    assert report.certified[0].name == "b · edit"


def test_runs_under_several_seeds_are_told_apart() -> None:
    report = Report.from_runs([run("sf"), run("ff", seed=1), run("ss", model="b")])
    assert [each.protocol for each in report.samples[0].runs] == ["paper, seed 0", "paper, seed 1", "paper, seed 0"]
    assert [each.protocol for each in report.samples[0].comparisons] == ["paper, seed 0"]


def test_samples_are_kept_apart() -> None:
    report = Report.from_runs([run("sf"), run("sf", data="other"), run("sff")])
    assert [sample.title for sample in report.samples] == ["toy test, n = 2", "other test, n = 2", "toy test, n = 3"]


def test_nothing_and_the_same_thing_twice_are_refused() -> None:
    with pytest.raises(DataError, match="at least one run"):
        Report.from_runs([])
    with pytest.raises(DataError, match=r"plain-textfooler-paper\.jsonl: expected records, got none"):
        Report.from_runs([run("")])
    with pytest.raises(DataError, match=r"got the one of plain-textfooler-paper\.jsonl again"):
        Report.from_runs([run("sf"), run("sf")])


def test_records_alone_make_a_report() -> None:
    report = Report.from_records([record("s"), record("f", 1), record("-", 2)], model="mine")
    assert counts(report.robust_accuracy) == (1, 3)
    assert report.samples[0].models == ["mine"]
    assert any("fewer than 100" in warning for warning in report.warnings)
    with pytest.raises(InputError, match=r"got 2; see report\.samples"):
        _ = Report.from_runs([run("sf"), run("ff", model="b")]).robust_accuracy


def test_a_certificate_about_words_still_holds_at_its_radius() -> None:
    certified = CertifiedCurve(name="mine", space="words replaced by anything", radii=(0, 2, 2), total=3)
    drawn = [counts(certified.curve.at(words)) for words in range(4)]
    assert drawn == [counts(certified.at(words)) for words in range(4)] == [(3, 3), (2, 3), (2, 3), (0, 3)]
    assert certified.curve.end == 3


def test_certified_accuracy_falls_with_the_radius() -> None:
    given = [{"radius": radius, "certified": known} for radius, known in ((0.5, True), (0.2, True), (0.9, False))]
    curve = CertifiedCurve.of("noisy", "L2, layer 0", given)
    assert [counts(curve.at(radius)) for radius in (0.0, 0.2, 0.3, 0.5, 0.6)] == [
        (2, 3),
        (2, 3),
        (1, 3),
        (1, 3),
        (0, 3),
    ]
    assert Report.from_runs([run("sf")], [curve]).to_dict()["certified"][0]["radii"] == [0.2, 0.5]
    with pytest.raises(InputError, match="at least one certificate"):
        CertifiedCurve.of("noisy", "L2", [])
    with pytest.raises(InputError, match="one without certified"):
        CertifiedCurve.of("noisy", "L2", [{"radius": 1.0}])
