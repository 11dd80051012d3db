"""Claims and figures from made-up results: what they say is what was put in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from rsmi.evaluation.runs import Run
from rsmi.experiments import claims, drawings, figure_claims
from rsmi.experiments.results import Results
from rsmi.experiments.scales import SMALL
from rsmi.experiments.specs import Attacked, Measured, Trained
from rsmi.experiments.verdicts import Verdict
from toy import FAILED

LAYERS = [{"layer": i, "l2": 1.0 + i, "l2_error": 0.1, "cosine": 0.9 - i / 10, "cosine_error": 0.01} for i in range(6)]


class Made:
    """Results in which every input of an attack has an outcome and a number of queries by the model's row."""

    scale = SMALL

    def __init__(self, survivors: dict[str, int] | None = None, **measured: Any) -> None:
        self.survivors, self.measured = survivors or {}, measured

    def run(self, cell: Attacked) -> Run:
        row = "no-mask" if dict(cell.changes).get("masking") == "none" else str(cell.model.method)
        survived = self.survivors[row]
        records = tuple(
            replace(FAILED, outcome="failed" if i < survived else "succeeded", queries=10 + survived) for i in range(50)
        )
        return Run(cell.name, {"data": {"fingerprint": cell.model.data, "name": "d"}, "attack": {"name": "a"}}, records)

    def measure(self, step: Measured) -> dict[str, Any]:
        found: dict[str, Any] = self.measured[step.models[0].method]
        return found

    def trained(self, model: Trained) -> dict[str, Any]:
        return {"config": {"noise_layers": 3}}


def made(survivors: dict[str, int] | None = None, **measured: Any) -> Results:
    return cast(Results, Made(survivors, **measured))


def verdict_of(verdicts: list[Verdict], words: str) -> Verdict:
    (found,) = (verdict for verdict in verdicts if words in verdict.claim)
    return found


def test_claims_of_table_1_follow_the_records() -> None:
    rows = {"finetune": 1, "freelb": 2, "infobert": 30, "safer": 10, "advaug": 20, "no-mask": 25, "rsmi": 45}
    found = claims.table1(made(rows))
    ahead = verdict_of(found, "RSMI-NoMask outperforms")
    assert ahead.status == "reproduced"
    assert ahead.evidence[0].startswith("imdb: 30.0 [")  # ahead of four of five
    added = verdict_of(found, "AdvAug outperforms")
    assert added.status == "reproduced"
    assert added.evidence[0].startswith("imdb: 16.7 [16.7, 16.7]")  # of two of three: most, not all
    dearer = verdict_of(found, "more queries")
    assert dearer.status == "reproduced"
    assert "infobert, imdb: 15.0 [15.0, 15.0] queries" in dearer.evidence[2]
    found = claims.table1(made({**rows, "no-mask": 0, "advaug": 11}))
    assert verdict_of(found, "RSMI-NoMask outperforms").status == "not reproduced"
    assert verdict_of(found, "AdvAug outperforms").status == "undecided"  # one input more than SAFER may be luck


def test_distances_are_asked_for_a_fall_at_the_later_layers_with_noise() -> None:
    rising = figure_claims.figure2(made(finetune={"layers": LAYERS}, rsmi={"layers": LAYERS}))
    falls = verdict_of(rising, "L2 distance falls")
    assert falls.status == "not reproduced"
    assert [part.partition(":")[0] for part in falls.evidence] == ["layer 3", "layer 5"]
    dips = [{**own, "l2": 0.1 if own["layer"] in (2, 4) else 1.0} for own in LAYERS]
    falling = figure_claims.figure2(made(finetune={"layers": LAYERS}, rsmi={"layers": dips}))
    assert verdict_of(falling, "L2 distance falls").status == "reproduced"
    assert verdict_of(falling, "nearer").status == "undecided"


@pytest.mark.parametrize(("std", "status"), [(0.002, "reproduced"), (0.0095, "undecided"), (0.02, "not reproduced")])
def test_clean_answers_are_stable_below_a_point(std: float, status: str) -> None:
    spread = {"texts": 1000, "n": 100, "mean": 0.9, "std": std}
    found = figure_claims.figure4(made(rsmi={"clean": spread}))
    assert verdict_of(found, "varies by less").status == status
    assert "1,000 texts" in verdict_of(found, "varies by less").evidence[0]


def figure2() -> drawings.Drawing | None:
    return drawings.figure2(made(finetune={"layers": LAYERS}, rsmi={"layers": LAYERS}))


def figure3() -> drawings.Drawing | None:
    return drawings.figure3(made({"rsmi": 20}))


def figure4() -> drawings.Drawing | None:
    spread = {"texts": 1000, "accuracies": [0.8, 0.9, 0.85]}
    return drawings.figure4(made(rsmi={"clean": spread, "adversarial": {**spread, "texts": 61}}))


@pytest.mark.parametrize(
    ("figure", "panels", "words"),
    [
        (figure2, 2, ["cosine, clean and adversarial", "layer", "RSMI, MiniLM-L6 (BERT, 6 x 384)"]),
        (figure3, 1, ["RAcc %", "copies", "with two steps, MiniLM-L6 (BERT, 6 x 384)"]),
        (figure4, 1, ["right in a run %", "1,000 clean", "61 adversarial"]),
    ],
)
def test_figures_are_drawn(
    figure: Callable[[], drawings.Drawing | None], panels: int, words: list[str], tmp_path: Path
) -> None:
    drawing = figure()
    assert drawing is not None
    assert len(drawing.panels) == panels
    drawings.draw(drawing, tmp_path / "figure.svg")
    drawings.draw(drawing, tmp_path / "again.svg")
    drawn = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert drawn == (tmp_path / "again.svg").read_text(encoding="utf-8")
    text = " ".join(ElementTree.fromstring(drawn).itertext())
    for word in words:
        assert word in text


def test_intervals_are_in_the_lines_and_nothing_is_drawn_of_nothing() -> None:
    drawing = figure3()
    assert drawing is not None
    for line in drawing.panels[0].lines:
        for (place, value, low, high), count in zip(line.points, SMALL.counts, strict=True):
            assert (place, value) == (count, 40.0)
            assert 0 < low < value < high < 100
    assert drawings.figure2(made(finetune={"layers": []}, rsmi={"layers": []})) is None
