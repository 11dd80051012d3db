"""Numbers -> files: HTML that cannot be broken by a text, Markdown, JSON, figures."""

from __future__ import annotations

import builtins
import json
import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from keywords import CoinTarget, TableAttack
from report_runs import EVIDENCE, record, run, suite, write
from rsmi.data import TextDataset
from rsmi.errors import InputError, MissingResourceError
from rsmi.evaluation.attacking import attack_to_file
from rsmi.evaluation.runs import Run
from rsmi.report import CertifiedCurve, Report
from rsmi.report.examples import changed_spans
from rsmi.report.markdown import escape
from rsmi.report.wording import number

NASTY = "</script><script>alert(1)</script> <!-- \u2028 & \" ' \u202e ]]> ``` | *x* \U0001f600 good"


class Page(HTMLParser):
    """Every element with its attributes, all text, and the data block."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self._open:
            self.shown += data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def saved(report: Report, folder: Path, **more: Any) -> Page:
    report.save(folder / "report.html", **more)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    page = saved(Report.from_runs(suite()), tmp_path)
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "base")
        assert "src" not in attributes
        assert not any(name.startswith("on") or name == "style" for name in attributes), attributes
        assert (attributes.get("href") or "#").startswith(("#", "data:,")), attributes
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|@import|url\(", text)
    policy = next(own["content"] for tag, own in page.tags if own.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_shows_warnings_and_the_numbers(tmp_path: Path) -> None:
    page = saved(Report.from_runs(suite()), tmp_path)
    assert "noisy: its answers are random" in page.shown
    assert "75.0 [40.9, 92.9]" in page.shown  # SAcc of plain: 6 of 8
    assert "ASR@3 %" in page.shown
    assert "weights of plain" in page.shown
    for part in ("Paired tests", "Calibration on clean inputs", "Persistent attackers", "fresh draws", "Classes"):
        assert part in page.shown, part
    ids = [own["id"] for _, own in page.tags if "id" in own]
    assert len(ids) == len(set(ids))
    targets = {(own["href"] or "")[1:] for tag, own in page.tags if tag == "a"}
    assert targets <= set(ids)


def test_every_table_and_figure_can_be_read_aloud(tmp_path: Path) -> None:
    page = saved(Report.from_runs(suite()), tmp_path)
    names = [tag for tag, _ in page.tags]
    assert names.count("table") == names.count("caption") == names.count("thead")
    assert all(own.get("scope") for tag, own in page.tags if tag == "th")
    charts = [own for tag, own in page.tags if tag == "svg"]
    assert all(own.get("aria-label") or own.get("aria-hidden") for own in charts)
    levels = [int(tag[1]) for tag in names if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("text", [NASTY, (NASTY, NASTY)])
def test_no_text_or_name_can_break_the_page(tmp_path: Path, text: Any) -> None:
    own = [
        record("s", original=text, adversarial=text, label=NASTY, label_before=NASTY, evidence=EVIDENCE),
        record("f"),
    ]
    report = Report.from_runs([run("", records=own, model=NASTY, attack=NASTY, protocol=NASTY, data=NASTY)])
    page = saved(report, tmp_path)
    assert len(page.scripts) == 2
    assert page.data["runs"][0]["model"] == NASTY
    held = NASTY if isinstance(text, str) else f"{NASTY}\n{NASTY}"
    assert page.data["texts"][0][0] == held
    assert "alert(1)" not in page.scripts[1]
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\u2028" not in page.scripts[0]
    assert raw.count("<script>") == 1
    report.save(tmp_path / "report.md")
    report.save(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["runs"][0]["model"]["name"] == NASTY


def test_half_a_character_does_not_stop_a_report(tmp_path: Path) -> None:
    own = [record("s", original="a \ud800 b", adversarial="a c b", label="\ud800")]
    page = saved(Report.from_runs([run("", records=own)]), tmp_path)
    assert page.data["texts"][0] == ["a \ud800 b"]
    Report.from_runs([run("", records=own)]).save(tmp_path / "report.json")
    Report.from_runs([run("", records=own)]).save(tmp_path / "report.md")


@pytest.mark.parametrize("outcomes", ["-", "---", "f", "s"])
def test_few_and_hopeless_records_make_a_report_too(tmp_path: Path, outcomes: str) -> None:
    report = Report.from_runs([run(outcomes)])
    page = saved(report, tmp_path)
    assert "nan" not in page.shown.lower().split()
    assert len(page.data["examples"]) == len(outcomes)
    report.save(tmp_path / "report.md")
    assert "nan" not in (tmp_path / "report.md").read_text(encoding="utf-8").lower().split()
    report.save(tmp_path / "report.json")
    json.loads((tmp_path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_changed_words_are_marked_where_they_stand() -> None:
    assert changed_spans("a good film", "a bad film") == ([[2, 6]], [[2, 5]])
    assert changed_spans("a film", "a very long film") == ([], [[2, 11]])
    assert changed_spans("a very long film", "a film") == ([[2, 11]], [])
    assert changed_spans(("good", "a film"), ("good", "a song")) == ([[7, 11]], [[7, 11]])
    assert changed_spans("\U0001f600 good", "\U0001f600 bad") == ([[2, 6]], [[2, 5]])  # characters, not halves
    assert changed_spans("same", "same") == ([], [])


def test_each_text_is_held_once_and_examples_can_be_bounded(tmp_path: Path) -> None:
    runs = [run("sf-"), run("fff", model="b")]
    page = saved(Report.from_runs(runs), tmp_path)
    texts = [text[0] for text in page.data["texts"]]
    assert len(texts) == len(set(texts)) == 6
    assert page.data["examples"][0]["removed"] == [[2, 6]]
    page = saved(Report.from_runs(runs), tmp_path, max_examples=2)
    assert len(page.data["examples"]) == 4
    assert page.data["left_out"] == 2
    assert "2 more records are in the files" in page.shown


def test_evidence_comes_with_saliency_in_percent_of_the_largest(tmp_path: Path) -> None:
    page = saved(Report.from_runs([run("", records=[record("s", evidence=EVIDENCE)])]), tmp_path)
    shown = page.data["examples"][0]["evidence"]["original"]
    assert shown == {"votes": {"neg": 1, "pos": 4}, "tokens": [["a", 0, 0], ["good", 100, 1], ["film", 50, 0]]}


def test_markdown_has_the_same_tables(tmp_path: Path) -> None:
    Report.from_runs(suite()).save(tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (
        "| textfooler | plain | 75.0 [40.9, 92.9] | 0.0 [0.0, 32.4] | 100.0 [61.0, 100.0] | 10.0 | 25.0 | 8 |" in text
    )
    assert "> - noisy: its answers are random" in text
    for before, line in pairwise(text.splitlines()):
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line
    assert escape("a|b *c* `d`\ne") == "a\\|b \\*c\\* \\`d\\` e"


def test_json_has_all_numbers(tmp_path: Path) -> None:
    Report.from_runs(suite()).save(tmp_path / "new" / "report.json")
    found = json.loads((tmp_path / "new" / "report.json").read_text(encoding="utf-8"))
    (sample,) = found["samples"]
    assert sample["runs"][0]["robustness"]["accuracy"]["count"] == 6
    assert sample["runs"][2]["redrawn"]["mean_flips"]["value"] == pytest.approx(0.625)
    assert sample["comparisons"][0]["result"]["only_second"] == 5
    assert sample["runs"][5]["tries"][2]["count"] == 3
    assert found["runs"][0]["source"] == "plain-textfooler-paper.jsonl"
    assert found["warnings"]


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a file ending in \.html, \.md, \.json, got '\.pdf'"):
        Report.from_runs([run("sf")]).save(tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12.34, "+12.3"), (-12.34, "\u221212.3"), (0.0, "0.0"), (-0.01, "0.0"), (None, "\u2013"), (math.nan, "\u2013")],
)
def test_changes_have_a_sign_and_zeros_have_none(value: float | None, shown: str) -> None:
    assert number(value, sign=True).text == shown


def test_certificates_are_shown_where_they_exist(tmp_path: Path) -> None:
    given = [{"radius": 0.5, "certified": True}, {"radius": 0.0, "certified": False}]
    curve = CertifiedCurve.of("noisy", "L2 after layer 0", given)
    report = Report.from_runs([run("sf")], [curve])
    assert "Certified accuracy" in saved(report, tmp_path).shown
    report.save(tmp_path / "report.md")
    row = "| noisy | L2 after layer 0 | 50.0 [9.5, 90.5] | 0.500 | - | 0 | 0 | 2 |"
    assert row in (tmp_path / "report.md").read_text("utf-8")
    assert "Certified accuracy" not in saved(Report.from_runs([run("sf")]), tmp_path).shown


def test_radii_of_two_spaces_are_not_drawn_on_one_axis(tmp_path: Path) -> None:
    words = [CertifiedCurve.of(name, "words", [{"radius": 3, "certified": True}]) for name in ("a", "b")]
    moved = CertifiedCurve.of("c", "L2 & more", [{"radius": 0.25, "certified": True}])
    report = Report.from_runs([run("sf")], [words[0], moved, words[1]])
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    section = page[page.index('<section id="certified">') :]
    section = section[: section.index("</section>")]
    charts = section.split("<figure>")[1:]
    assert [chart.count('class="band') for chart in charts] == [2, 1]
    assert ["words, with 95 %" in chart for chart in charts] == [True, False]
    assert all(f">{tick}</text>" in charts[0] for tick in (1, 2, 3))
    assert all(f">{tick}</text>" in charts[1] for tick in (0.1, 0.2))
    assert "L2 &amp; more, with 95 %" in charts[1]
    assert "in L2 &amp; more;" in charts[1]


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        Report.from_runs(suite()).save(tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_real_attack_on_a_randomised_target_makes_a_report(tmp_path: Path) -> None:
    data = TextDataset(
        name="toy", split="test", texts=("a good film", "a poor film"), labels=("pos", "neg"), source="t"
    )
    about = {"model": {"name": "coin", "fingerprint": "1"}}
    attack = TableAttack({"good": ["fine", "bad"], "poor": ["low", "good"]})
    target = CoinTarget({"good": 3.0, "bad": -3.0, "poor": -3.0})
    records = list(attack_to_file(target, attack, data, tmp_path / "run.jsonl", about=about))
    report = Report.from_runs([Run.read(tmp_path / "run.jsonl")])
    succeeded = sum(each.outcome == "succeeded" for each in records)
    assert report.samples[0].runs[0].robustness.attack_success.count == succeeded
    assert "coin: its answers are random" in "\n".join(report.warnings)
    assert len(saved(report, tmp_path).data["examples"]) == 2


def test_figures_for_papers_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    curves = [CertifiedCurve.of("noisy", space, [{"radius": 0.5, "certified": True}]) for space in ("L2", "words")]
    files = Report.from_runs([*suite()[:3], suite()[5]], curves).save_figures(tmp_path)
    names = {path.name for path in files}
    assert {"toy-test-paper-queries.svg", "toy-test-protocols.png", "toy-test-tries.svg", "certified.png"} <= names
    assert {"toy-test-paper-words.png", "toy-test-reliability.svg"} <= names
    assert all(path.stat().st_size > 1000 for path in files)
    assert "<text" in (tmp_path / "toy-test-paper-queries.svg").read_text(encoding="utf-8")


def test_figures_without_matplotlib_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *more)

    report = Report.from_runs([run("sf")])
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingResourceError, match=r"pip install 'rsmi\[report\]'"):
        report.save_figures(tmp_path)
    report.save(tmp_path / "report.html")  # needs none


def test_the_code_of_the_page_about_reports_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "runs").mkdir()
    for own in suite():
        write(own, tmp_path / "runs")
    for path in list((tmp_path / "runs").iterdir()):
        path.rename(path.with_name(f"mr-{path.name}"))  # as the page calls them
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "report.md", "exec"), {})
    assert (tmp_path / "report.html").exists()
