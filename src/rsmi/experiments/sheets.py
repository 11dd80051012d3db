"""Results -> the paper's figures as tables, and its tables of settings, data and time."""

from __future__ import annotations

from typing import Any

from rsmi.experiments import grids
from rsmi.experiments.layouts import AGAIN, NAMES, PAPER, again, beside
from rsmi.experiments.paper import figure_of
from rsmi.experiments.results import Results
from rsmi.experiments.specs import Trained, augmenting
from rsmi.report.wording import NONE, Cell, Table, number, percent, word

_FIELDS = (
    ("batch", "train_config", "batch_size"),
    ("epochs", "train_config", "epochs"),
    ("learning rate", "train_config", "learning_rate"),
    ("max length", "config", "max_length"),
    ("M", "config", "num_masks"),
    ("sigma", "config", "noise_std"),
    ("noise layers", "config", "noise_layers"),
    ("nu", "config", "saliency_samples"),
    ("k0", "config", "first_votes"),
    ("k1", "config", "second_votes"),
    ("alpha", "config", "stop_confidence"),
    ("beta", "train_config", "embedding_step"),
)


def table8(results: Results) -> list[Table]:
    """Training and inference time against the fine-tuned model's."""
    training, inference = (results.measure(step) for step in grids.times(results.scale))
    update = {own["name"]: own["ratio"] for own in training["times"]}
    scale, rows = results.scale, []
    answers = inference["times"]
    for place, (row, method, _) in enumerate(grids.PAIR_ROWS):
        paper = figure_of("table8", row)
        copies = scale.preset(Trained(encoder=scale.pairs, data="qnli", method=method)).config.first_votes
        how = {"rsmi": ", one pass", "safer": f", {copies} copies"}
        name = NAMES[row] + how.get(method, "")
        rows.append((word(name), _ratio(update[method], paper[0]), _ratio(answers[place]["ratio"], paper[1])))
    rows.append((word("RSMI, two steps"), _ratio(update["rsmi"], None), _ratio(answers[-1]["ratio"], None)))
    caption = (
        f"qnli, {scale.encoders[scale.pairs].label}: times relative to fine-tuning, mean and range of "
        f"{update['rsmi']['n']} (training) and {answers[0]['ratio']['n']} (inference) repeats by turns, "
        f"{inference['texts']} texts; in round brackets: the paper's"
    )
    return [Table(caption, ("Model", "Training", "Inference"), (("", tuple(rows)),))]


def _ratio(spread: dict[str, Any], paper: float | None) -> Cell:
    return beside(f"{spread['mean']:.2f}", f"[{spread['min']:.2f}, {spread['max']:.2f}]", paper)


def table9(results: Results) -> list[Table]:
    """Settings of RSMI and of fine-tuning."""
    scale = results.scale
    models = [
        Trained(encoder=encoder, data=data, method=method)
        for encoder in dict.fromkeys((*scale.compared, scale.pairs))
        for data in (*grids.COMPARED, "qnli")
        for method in ("rsmi", "finetune")
    ]
    rows = []
    for name, owner, field in _FIELDS:
        cells = []
        for model in models:
            own = model.method == "rsmi" or (owner == "train_config" and name != "beta") or name == "max length"
            value = getattr(getattr(scale.preset(model), owner), field)
            cells.append(Cell(f"{value}" if own else NONE))
        rows.append((word(name), *cells))
    columns = ("Setting", *(f"{model.data} {NAMES[model.method]}" for model in models))
    labels = ", ".join(scale.encoders[encoder].label for encoder in dict.fromkeys(model.encoder for model in models))
    return [Table(f"AdamW, linear schedule; {labels}", columns, (("", tuple(rows)),))]


def table10(results: Results) -> list[Table]:
    """Sizes of the data sets at hand."""
    rows = []
    for data in (*grids.COMPARED, "qnli"):
        found = results.measure(grids.splits(data))
        paper = figure_of("table10", data)
        sizes = ("train", "dev", "test", "classes")
        cells = (beside(f"{found[name]:,}", "", paper[place], 0) for place, name in enumerate(sizes))
        rows.append((word(data), *cells, word(str(found["source"]).rpartition("/")[2])))
    caption = f"Training uses {results.scale.told_texts()}; in round brackets: the paper's"
    return [Table(caption, ("Data", "Train", "Dev", "Test", "Classes", "Source"), (("", tuple(rows)),))]


def table11(results: Results) -> list[Table]:
    """How many adversarial texts AdvAug adds."""
    rows = []
    for data in grids.COMPARED:
        for encoder in results.scale.compared:
            model = Trained(encoder=encoder, data=data, method="advaug")
            tried = results.run(augmenting(model)).records
            rows.append(
                (
                    word(results.scale.encoders[encoder].label),
                    word(data),
                    Cell(f"{len(tried):,}"),
                    beside(
                        f"{sum(record.outcome == 'succeeded' for record in tried):,}",
                        "",
                        figure_of("table11", data, encoder),
                        0,
                    ),
                )
            )
    caption = f"Texts that fooled the fine-tuned model (TextFooler); {PAPER} and 10,000 texts attacked"
    return [Table(caption, ("Encoder", "Data", "Training texts attacked", "Added"), (("", tuple(rows)),))]


def figure2(results: Results) -> list[Table]:
    """Distance and cosine of hidden states, layer by layer."""
    groups = []
    for encoder in results.scale.compared:
        for row in ("finetune", "rsmi"):
            found = results.measure(grids.hidden(encoder, "ag_news", row))
            rows = tuple(
                (Cell(str(own["layer"] + 1)), _with_error(own, "l2"), _with_error(own, "cosine"))
                for own in found["layers"]
            )
            groups.append((f"{NAMES[row]}, {results.scale.encoders[encoder].label}, {found['pairs']} pairs", rows))
    caption = "ag_news: clean texts and the texts that fooled the model itself (TextFooler); mean and standard error"
    return [Table(caption, ("Layer", "L2", "Cosine"), tuple(groups))]


def _with_error(own: dict[str, Any], name: str) -> Cell:
    return Cell(f"{own[name]:.3f}", f"± {own[f'{name}_error']:.3f}")


def figure3(results: Results) -> list[Table]:
    """RAcc against the number of copies, and what is left of it when successes are asked about again."""
    groups, asked = [], []
    for encoder in results.scale.compared:
        rows, more = [], []
        for two_step in (False, True):
            runs = [results.run(cell) for cell in grids.copied(results.scale, encoder, two_step)]
            name = "with two steps" if two_step else "without"
            rows.append((word(name), *(percent(run.robustness.robust_accuracy) for run in runs)))
            flips, robust = zip(*(again([run]) for run in runs), strict=True)
            more += [
                (word(f"{name}: {what}"), *map(percent, own)) for what, own in (("again", flips), ("RAcc", robust))
            ]
        label = results.scale.encoders[encoder].label
        groups.append((label, tuple(rows)))
        asked.append((label, tuple(more)))
    printed = figure_of("figure3")
    caption = (
        f"RAcc of RSMI on ag_news under TextFooler, n = {results.scale.num}; the paper at k = 5: "
        f"{printed['without']['5']} without and {printed['with']['5']} with two steps"
    )
    columns = ("Sampling", *(f"k = {count}" for count in results.scale.counts))
    fresh = f"Not in the paper: the same models asked again about every text that fooled them. {AGAIN}"
    return [Table(caption, columns, tuple(groups)), Table(fresh, columns, tuple(asked))]


def figure4(results: Results) -> list[Table]:
    """Accuracy over independent runs."""
    rows = []
    for encoder in results.scale.compared:
        found = results.measure(grids.repeated(encoder))
        for name in ("clean", "adversarial"):
            own = found.get(name)
            if own is not None:
                spread = (number(100 * own[each]) for each in ("mean", "std", "min", "max"))
                label = f"{name}, {results.scale.encoders[encoder].label}"
                rows.append((word(label), *spread, Cell(str(own["texts"])), Cell(str(found["runs"]))))
    caption = "Accuracy of RSMI on ag_news over independent runs: clean texts, and texts that fooled it once"
    return [Table(caption, ("Texts", "Mean", "Std", "Min", "Max", "n", "Runs"), (("", tuple(rows)),))]
