"""Numbers of benchmarks/profiles.py -> its page and the trade-off curve."""

import io
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from rsmi.evaluation.robustness import Share
from rsmi.report.svg import COLOURS
from rsmi.report.wording import NONE

TOLERANCE = {"fast": (2.0, 3.0), "balanced": (0.5, 5.0), "robust": (10.0, 40.0)}
"""What a profile may cost: points of accuracy against plain fine-tuning, and time in plain forward passes."""
ONE_DRAW = ("fast",)
"""Profiles that may answer by a single draw: who asks again gets another answer, so that the others vote."""

ANYWHERE = 10.0
"""Points of accuracy that it may cost on any one data set with any one encoder."""

_ABOUT = """\
`python benchmarks/profiles.py`, seed {seed}, torch {torch}, transformers {transformers}, commit {commit}.
{training}, two epochs, the first 20 words of each; noise in spreads of the encoder's own hidden states after three
layers; votes are 5 copies and, where these do not agree, 10 more. SAcc: right answers; RAcc: right under both PWWS and
DeepWordBug (protocol `paper`); both in %, pooled over data sets and encoders, with 95 % Wilson intervals. Cost: time of
a prediction in plain forward passes of the same texts, mean over data sets and encoders of medians of 5 repeats."""

Row = Mapping[str, Any]


def page(result: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    about = result["environment"]
    lines = [
        "# What noise, masks and votes cost and protect",
        "",
        _ABOUT.format(
            seed=result["seed"],
            torch=about["versions"]["torch"],
            transformers=about["versions"]["transformers"],
            commit=about["commit"],
            training=result["training"].capitalize(),
        ),
        "",
        "## The profiles, on test texts",
        "",
        "A profile is the setting that holds up best on dev texts, in the mean over the places below, among those that",
        f"cost at most {ANYWHERE:g} points of accuracy at any single place (a model that noise has unlearnt all but "
        "one answer holds up",
        "under any attack), and at most",
        "",
        *(
            f"- `{name}`: {points:g} points in the mean, {passes:g} plain passes"
            f"{'' if name in ONE_DRAW else ', and that vote'}: {result['names'][name]}"
            for name, (points, passes) in TOLERANCE.items()
        ),
        "",
        *_table(result["test"], named(result)),
        "",
        "Right under both attacks, on the same test texts (exact McNemar tests, p with Holm's correction):",
        "",
        *_paired(result["paired"]),
        "",
        "## Every setting, on dev texts",
        "",
        "![Right under attack against right answers, every setting with its intervals](trade-off.svg)",
        "",
        *_table(result["dev"], {}),
        "",
        "## Place by place, on dev texts (SAcc / RAcc)",
        "",
        *_places([*result["dev"], *result["tried"]]),
        "",
        "Noise of 0.8 spreads was not followed up: with it one of the encoders learnt nothing on the first data set.",
        "",
    ]
    return "\n".join(lines)


def named(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the profiles of each setting that is one, or several."""
    found: dict[str, list[str]] = {}
    for name, setting in result["names"].items():
        found.setdefault(setting, []).append(name)
    return {setting: ", ".join(own) for setting, own in found.items()}


def pooled(rows: Sequence[Row], count: str, total: str) -> Share:
    """Return a share over all places."""
    return Share(count=sum(row[count] for row in rows), total=sum(row[total] for row in rows))


def by_setting(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the places of each setting, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["setting"], []).append(row)
    return found


def _table(rows: Sequence[Row], names: Mapping[str, str]) -> list[str]:
    lines = ["| Profile | " if names else "| "]
    lines[0] += "Setting | SAcc | n | RAcc | n | Plain passes |"
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for setting, own in by_setting(rows).items():
        clean, robust = pooled(own, "right", "judged"), pooled(own, "robust", "attacked")
        first = f"| {names.get(setting, '')} " if names else ""
        passes = fmean(row["passes"] for row in own)
        lines.append(f"{first}| {setting} | {clean} | {clean.total} | {robust} | {robust.total} | {passes:.1f} |")
    return lines


def _paired(tests: Sequence[Row]) -> list[str]:
    lines = ["| First | Second | Only the first | Only the second | p |", "|---|---|---|---|---|"]
    for test in tests:
        p = f"{test['corrected']:.3f}" if test["corrected"] >= 0.001 else "below 0.001"
        counts = f"{test['only_first']} | {test['only_second']}"
        lines.append(f"| {test['first']} | {test['second']} | {counts} | {p} |")
    return lines


def _places(rows: Sequence[Row]) -> list[str]:
    places = list(dict.fromkeys((row["data"], row["encoder"]) for row in rows))
    lines = ["| Setting | " + " | ".join(f"{data}, {encoder}" for data, encoder in places) + " |"]
    lines.append("|---" * (len(places) + 1) + "|")
    for setting, own in by_setting(rows).items():
        cells = {(row["data"], row["encoder"]): row for row in own}
        shown = [_cell(cells[place]) if place in cells else NONE for place in places]
        lines.append(f"| {setting} | " + " | ".join(shown) + " |")
    return lines


def _cell(row: Row) -> str:
    return f"{100 * row['right'] / row['judged']:.0f} / {100 * row['robust'] / row['attacked']:.0f}"


def trade_off(result: Mapping[str, Any]) -> str:
    """Return a chart of robust against clean accuracy on dev texts, readable on a light and a dark page, as SVG."""
    grey = "#808080"
    names = named(result)
    settings = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "rsmi", "text.color": grey}
    settings |= {f"{axis}.{part}": grey for axis in ("xtick", "ytick") for part in ("color", "labelcolor")}
    with matplotlib.rc_context({**settings, "axes.edgecolor": grey, "axes.labelcolor": grey}):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        for place, (setting, own) in enumerate(by_setting(result["dev"]).items()):
            x, y = pooled(own, "right", "judged"), pooled(own, "robust", "attacked")
            bars = [[[100 * (s.value - s.interval[0])], [100 * (s.interval[1] - s.value)]] for s in (x, y)]
            colour = COLOURS[place % len(COLOURS)]
            at = (100 * x.value, 100 * y.value)
            said = f"{setting} ({names[setting]})" if setting in names else setting
            axes.errorbar(*at, xerr=bars[0], yerr=bars[1], fmt="os^Dv"[place % 5], color=colour, alpha=0.8, label=said)
        axes.set_xlabel("right answers, dev texts %")
        axes.set_ylabel("right under both attacks %")
        axes.spines[["top", "right"]].set_visible(False)
        # apart from the points, which lie close together
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return written.getvalue()
