"""The figures read off the paper: they agree with each other, and with the checklist."""

from __future__ import annotations

from statistics import fmean

import pytest

from rsmi.experiments.grids import PAIR_ROWS, ROWS, SETTINGS
from rsmi.experiments.paper import compared, figure_of, mean_robust, paper_figures


@pytest.mark.parametrize(
    ("data", "encoder", "mean"),
    [
        ("imdb", "bert-base", 65.10),
        ("imdb", "roberta-base", 77.53),
        ("ag_news", "bert-base", 75.13),
        ("ag_news", "roberta-base", 81.53),
    ],
)
def test_means_of_table_1_are_those_of_the_checklist(data: str, encoder: str, mean: float) -> None:
    assert fmean(figure_of("table1", data, encoder, "rsmi", "RAcc")) == pytest.approx(mean, abs=0.01)


def test_every_row_of_table_1_and_7_is_there() -> None:
    for data in ("imdb", "ag_news"):
        for encoder in ("bert-base", "roberta-base"):
            assert set(figure_of("table1", data, encoder)) == {row for row, _, _ in ROWS}
    assert set(figure_of("table7", "qnli", "roberta-base")) == {row for row, _, _ in PAIR_ROWS}


def test_attack_success_follows_from_the_two_accuracies() -> None:
    """ASR = 1 - RAcc / SAcc up to rounding, where the paper is consistent with itself: a guard against misreading."""
    off = []
    for data, encoders in paper_figures()["table1"].items():
        for encoder, rows in encoders.items():
            for row, own in rows.items():
                for robust, success in zip(own["RAcc"], own["ASR"], strict=True):
                    if abs(100 * (1 - robust / own["SAcc"]) - success) > 0.5:
                        off.append((data, encoder, row))
    assert len(off) <= 4, off  # the paper's own slips


def test_settings_of_table_4_are_those_of_the_grid() -> None:
    assert [tuple(row[:3]) for row in figure_of("table4")] == list(SETTINGS)


def test_rows_of_qnli_are_those_of_table_7_whatever_the_encoder() -> None:
    assert compared("qnli", "bert-base", "rsmi") == figure_of("table7", "qnli", "roberta-base", "rsmi")
    assert compared("imdb", "bert-base", "rsmi") == figure_of("table1", "imdb", "bert-base", "rsmi")
    assert mean_robust("imdb", "bert-base", "rsmi", 3) == pytest.approx(65.10, abs=0.01)
    assert mean_robust("imdb", "bert-base", "finetune", 2) == pytest.approx((5.9 + 0.6) / 2)
    assert mean_robust("mr", "bert-base", "rsmi", 3) is None


def test_what_the_paper_does_not_print_is_none() -> None:
    assert figure_of("table1", "mr", "bert-base") is None
    assert figure_of("table1", "imdb", "bert-base", "rsmi", "RAcc", 7) is None
