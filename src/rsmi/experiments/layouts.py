"""Results -> the paper's tables in its own layout, our figures with their intervals and the paper's beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rsmi.evaluation.analyses import spread_of
from rsmi.evaluation.robustness import Robustness, Share
from rsmi.evaluation.runs import Run
from rsmi.evaluation.suite import PAPER_ATTACKS
from rsmi.experiments import grids
from rsmi.experiments.paper import compared, figure_of
from rsmi.experiments.results import Results
from rsmi.experiments.specs import Attacked
from rsmi.presets import asked_as
from rsmi.report.wording import NONE, Cell, Table, percent, word

NAMES: Final = {
    "finetune": "Fine-tuned",
    "freelb": "FreeLB",
    "infobert": "InfoBERT",
    "safer": "SAFER",
    "advaug": "AdvAug",
    "no-mask": "RSMI-NoMask",
    "rsmi": "RSMI",
}
"""What the paper calls its rows."""
_SHORT = {"textfooler": "TF", "pwws": "PWWS", "bae": "BAE"}
PAPER: Final = "in round brackets: the paper's figure for its own encoder and full data"
"""What stands in round brackets in every table."""
AGAIN: Final = (
    "Again: fools on most fresh draws, per cent of the successes; RAcc: right answers if only those count, 95 % Wilson "
    "intervals"
)
"""What the columns of tables about fresh draws are."""


def beside(text: str, interval: str, paper: float | None, digits: int = 1) -> Cell:
    """Return our figure with the paper's beside it."""
    printed = "" if paper is None else f"({paper:,.{digits}f})"
    return Cell(text, " ".join(part for part in (interval, printed) if part))


def _share(share: Share, paper: float | None) -> Cell:
    own = percent(share)
    return beside(own.text, own.interval, paper)


def _over(shares: Sequence[Share], paper: float | None, best: Any = max) -> Cell:
    """Return a share, or the mean of several seeds and the best of them."""
    if len(shares) == 1:
        return _share(shares[0], paper)
    values = [100 * share.value for share in shares]
    return beside(f"{sum(values) / len(values):.1f}", f"best {best(values):.1f}", paper)


def _count(values: Sequence[float], paper: float | None) -> Cell:
    return beside(f"{sum(values) / len(values):,.0f}", "", paper, 0)


def _found(results: Results, cells: Sequence[Attacked]) -> list[Robustness]:
    return [results.run(cell).robustness for cell in cells]


def table1(results: Results) -> list[Table]:
    """Every model under every attack, a group for each data set and encoder."""
    groups = []
    for data in grids.COMPARED:
        for encoder in results.scale.compared:
            rows = tuple(_comparison(results, encoder, data, row) for row, _, _ in grids.ROWS)
            groups.append((f"{data}, {results.scale.encoders[encoder].label}", rows))
    places = [(encoder, data) for data in grids.COMPARED for encoder in results.scale.compared]
    return [_compared(results, tuple(groups)), _asked_again(results, places)]


def table7(results: Results) -> list[Table]:
    """The same on QNLI."""
    encoder = results.scale.pairs
    rows = tuple(_comparison(results, encoder, "qnli", row) for row, _, _ in grids.PAIR_ROWS)
    groups = ((f"qnli, {results.scale.encoders[encoder].label}", rows),)
    return [_compared(results, groups), _asked_again(results, [(encoder, "qnli")])]


def _compared(results: Results, groups: tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]) -> Table:
    columns = [f"{metric} {_SHORT[attack]}" for metric in ("RAcc", "ASR", "AvgQ") for attack in PAPER_ATTACKS]
    seeds = "" if len(results.scale.seeds) == 1 else f"; mean of {len(results.scale.seeds)} seeds"
    caption = f"n = {results.scale.num} inputs, per cent, 95 % Wilson intervals{seeds}; {PAPER}"
    return Table(caption, ("Model", "SAcc", *columns), groups)


def _asked_again(results: Results, places: Sequence[tuple[str, str]]) -> Table:
    """Return what the paper leaves out: of randomised models, the successes that fool on other draws, too."""
    groups, seeds = [], results.scale.seeds
    for encoder, data in places:
        rows = []
        for row, method, _ in grids.ROWS:
            if asked_as(method) == "plain":
                continue
            found = [
                again([results.run(cell) for cell in grids.cells(encoder, data, row, attack, seeds)])
                for attack in PAPER_ATTACKS
            ]
            cells = (percent(own[place]) for place in (0, 1) for own in found)
            rows.append((word(NAMES[row]), *cells))
        groups.append((f"{data}, {results.scale.encoders[encoder].label}", tuple(rows)))
    columns = [f"{metric} {_SHORT[attack]}" for metric in ("Again", "RAcc") for attack in PAPER_ATTACKS]
    caption = f"Not in the paper: randomised models asked again about every text that fooled them. {AGAIN}"
    return Table(caption, ("Model", *columns), tuple(groups))


def again(runs: Sequence[Run]) -> tuple[Share, Share]:
    """Return how many successes fool on most fresh draws, too, and RAcc if only those count."""
    found = [run.robustness for run in runs]
    survived = [fine for run in runs for fine in run.survived_by_majority]
    flips = sum(own.majority_flips for own in found)
    return (
        Share(count=flips, total=sum(own.attack_success.count for own in found)),
        Share(count=sum(survived), total=len(survived)),
    )


def _comparison(results: Results, encoder: str, data: str, row: str) -> tuple[Cell, ...]:
    seeds = results.scale.seeds
    found = {attack: _found(results, grids.cells(encoder, data, row, attack, seeds)) for attack in PAPER_ATTACKS}
    printed = compared(data, encoder, row) or {}

    def paper(metric: str, place: int) -> float | None:
        return printed[metric][place] if metric in printed else None

    cells = [word(NAMES[row])]
    cells.append(_over([own.accuracy for own in found[PAPER_ATTACKS[0]]], printed.get("SAcc")))
    for place, attack in enumerate(PAPER_ATTACKS):
        cells.append(_over([own.robust_accuracy for own in found[attack]], paper("RAcc", place)))
    for place, attack in enumerate(PAPER_ATTACKS):
        cells.append(_over([own.attack_success for own in found[attack]], paper("ASR", place), min))
    for place, attack in enumerate(PAPER_ATTACKS):
        cells.append(_count([own.queries for own in found[attack]], paper("AvgQ", place)))
    return tuple(cells)


def table2(results: Results) -> list[Table]:
    """Other encoders under TextFooler: RSMI, and its change from the fine-tuned model."""
    scale, groups = results.scale, []
    for data in grids.COMPARED:
        rows = []
        for encoder in scale.large:
            for row in ("finetune", "rsmi"):
                (own,) = _found(results, grids.cells(encoder, data, row, "textfooler", (0,)))
                printed = _table2_paper(data, encoder, row)
                shares = (own.accuracy, own.robust_accuracy, own.attack_success)
                rows.append(
                    (
                        word(f"{scale.encoders[encoder].label}, {NAMES[row]}"),
                        *(_share(share, printed[place]) for place, share in enumerate(shares)),
                        _count([own.queries], printed[3]),
                    )
                )
        groups.append((data, tuple(rows)))
    caption = f"TextFooler, n = {scale.num} inputs; {PAPER}"
    return [Table(caption, ("Model", "SAcc", "RAcc", "ASR", "AvgQ"), tuple(groups))]


def _table2_paper(data: str, encoder: str, row: str) -> list[float | None]:
    """Return the paper's figures; those of fine-tuned models follow from the changes that it prints."""
    found = figure_of("table2", data, encoder)
    if found is None:
        return [None] * 4
    pairs = [found[name] for name in ("SAcc", "RAcc", "ASR", "AvgQ")]
    return [value if row == "rsmi" else value - change for value, change in pairs]


def table3(results: Results) -> list[Table]:
    """ASR of random masks of k copies and of one gradient-guided mask."""
    scale, groups = results.scale, []
    for masks in scale.masks:
        random = tuple(
            _share(
                results.run(grids.masked(scale, "rm", masks, copies)).robustness.attack_success,
                figure_of("table3", str(masks), "RM", str(copies)),
            )
            for copies in scale.copies
        )
        guided = _share(
            results.run(grids.masked(scale, "gm", masks)).robustness.attack_success,
            figure_of("table3", str(masks), "GM"),
        )
        empty = (Cell(NONE),) * (len(scale.copies) - 1)
        groups.append((f"M = {masks}", ((word("RM"), *random), (word("GM"), guided, *empty))))
    columns = ("Masks", *(f"k = {copies}" for copies in scale.copies))
    caption = f"ASR of TextFooler on imdb, {_about(results, scale.studied)}; {PAPER}"
    return [Table(caption, columns, tuple(groups))]


def table4(results: Results) -> list[Table]:
    """ASR and SAcc for other settings."""
    printed = {tuple(row[:3]): row[3:] for row in figure_of("table4")}
    rows = []
    for setting in grids.SETTINGS:
        own = results.run(grids.setting(results.scale, *setting)).robustness
        cells = [Cell(f"{setting[0]}"), Cell(str(setting[1])), Cell(str(setting[2]))]
        paper = printed[setting]
        rows.append((*cells, _share(own.attack_success, paper[0]), _share(own.accuracy, paper[1])))
    caption = f"TextFooler on imdb, {_about(results, results.scale.studied)}; {PAPER}"
    return [Table(caption, ("sigma", "M", "Noise layers", "ASR", "SAcc"), (("", tuple(rows)),))]


def _about(results: Results, encoder: str) -> str:
    return f"{results.scale.encoders[encoder].label}, n = {results.scale.num}"


def table5(results: Results) -> list[Table]:
    """Mean, deviation, best and worst over seeds."""
    scale, groups = results.scale, []
    for encoder in scale.compared:
        rows = []
        for method in grids.STABILITY:
            pairs = grids.stable(scale, encoder, method)
            values = {
                "SAcc": [100 * results.measure(measured)["value"] for _, measured in pairs],
                "RAcc": [100 * results.run(cell).robustness.robust_accuracy.value for cell, _ in pairs],
            }
            for metric, own in values.items():
                paper = figure_of("table5", encoder, method, metric) or [None] * 4
                spread = spread_of(own)
                rows.append(
                    (
                        word(NAMES[method]),
                        word(metric),
                        *(
                            beside(f"{spread[name]:.2f}", "", paper[place], 2)
                            for place, name in enumerate(("mean", "std", "max", "min"))
                        ),
                    )
                )
        groups.append((scale.encoders[encoder].label, tuple(rows)))
    tested = "the whole test set" if scale.test_texts is None else f"{scale.test_texts} test texts"
    caption = (
        f"{len(scale.stability_seeds)} seeds on imdb; SAcc on {tested}, RAcc under TextFooler on {scale.num}; {PAPER}"
    )
    return [Table(caption, ("Model", "Metric", "Mean", "Std", "Max", "Min"), tuple(groups))]


def table6(results: Results) -> list[Table]:
    """Votes, and averaged logits beside them; and what is left of both when successes are asked about again."""
    rows, asked = [], []
    for data in (*grids.COMPARED, "qnli"):
        for encoder in results.scale.compared:
            for way, place in (("averaged", 0), ("voted", 1)):
                cells = [grids.voted(encoder, data, attack)[place] for attack in PAPER_ATTACKS[:2]]
                found, name = _found(results, cells), word(f"{data}, {results.scale.encoders[encoder].label}, {way}")
                fresh = [again([results.run(cell)]) for cell in cells]
                asked.append((name, *(percent(own[which]) for which in (0, 1) for own in fresh)))
                paper = figure_of("table6", data, encoder) or {}
                rows.append(
                    (
                        name,
                        _share(found[0].accuracy, _voted(paper.get("SAcc"), place)),
                        *(
                            _share(own.robust_accuracy, _voted(_at(paper, "RAcc", number), place))
                            for number, own in enumerate(found)
                        ),
                        *(
                            _share(own.attack_success, _voted(_at(paper, "ASR", number), place))
                            for number, own in enumerate(found)
                        ),
                        *(
                            beside(f"{own.queries:,.0f}", "", _voted(_at(paper, "AvgQ", number), place), 0)
                            for number, own in enumerate(found)
                        ),
                    )
                )
    short = [_SHORT[attack] for attack in PAPER_ATTACKS[:2]]
    columns = ("Model", "SAcc", *(f"{metric} {name}" for metric in ("RAcc", "ASR", "AvgQ") for name in short))
    more = ("Model", *(f"{metric} {name}" for metric in ("Again", "RAcc") for name in short))
    caption = f"Not in the paper: asked again about every text that fooled them. {AGAIN}"
    return [
        Table(f"RSMI, n = {results.scale.num} inputs; {PAPER}", columns, (("", tuple(rows)),)),
        Table(caption, more, (("", tuple(asked)),)),
    ]


def _at(paper: dict[str, Any], metric: str, place: int) -> Any:
    return paper[metric][place] if metric in paper else None


def _voted(pair: Any, place: int) -> float | None:
    """Return the paper's figure with votes, or with averaged logits, which follows from the change that it prints."""
    return None if pair is None else (pair[0] if place else pair[0] - pair[1])
