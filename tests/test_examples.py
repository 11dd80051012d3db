"""Every example runs, small and without a network; outputs, data and notebooks are what they claim to be."""

from __future__ import annotations

import ast
import csv
import json
import re
import runpy
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyword_model import keyword_texts
from rsmi import RsmiClassifier, RsmiConfig, TrainConfig
from tiny import save_tiny

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example as a user does, from a folder of its own; returns what it printed."""

    def run_example(name: str, *words: object) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        capsys.readouterr()
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example


@pytest.fixture(scope="module")
def keyword_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that tells good words from bad ones; the examples put noise into three layers, so it has four."""
    folder = tmp_path_factory.mktemp("keywords")
    base = save_tiny("bert", folder / "base", num_layers=4, dropout=0.0)
    settings = TrainConfig(method="finetune", epochs=4, learning_rate=1e-3, dev_fraction=0.0)
    classifier = RsmiClassifier(str(base), RsmiConfig.variant("plain", max_length=32), settings, seed=0)
    classifier.fit(*keyword_texts(400, seed=0)).save_pretrained(folder / "trained")
    return folder / "trained"


def write_csv(path: Path, texts: list[str], labels: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_spam_filter_guards_a_file_of_ones_own(run: Run, keyword_folder: Path, tmp_path: Path) -> None:
    mail = write_csv(tmp_path / "mail.csv", *keyword_texts(280, seed=3))
    words = ("--data", mail, "--positive", "neg", "--base", keyword_folder, "--epochs", 1, "--attacked", 3)
    out = run("spam_filter.py", *words, "--out", "filter")
    thresholds = json.loads((tmp_path / "filter" / "rsmi_guard.json").read_text(encoding="utf-8"))
    block, review = thresholds["block"]["value"], thresholds["review"]["value"]
    assert f"block above {block:.3f}" in out
    assert f"review above {review:.3f}" in out
    rulings = lines_of(tmp_path / "filter" / "rulings.jsonl")
    for ruling in rulings:
        expected = "block" if ruling["score"] > block else "review" if ruling["score"] > review else "pass"
        assert ruling["action"] == expected
    harmful = [ruling["action"] for ruling in rulings if ruling["label"] == "neg"]
    told = Counter(harmful)
    assert told["pass"] <= 0.2 * len(harmful)  # a model that knows the words catches most
    listed = f"{told['block']} block, {told['review']} review, {told['pass']} pass (n = {len(harmful)})"
    assert f"neg among the messages to judge: {listed}" in out
    assert "on the allow-list: pass (allow-list)" in out
    long = re.search(r"read in [2-9] windows: (pass|review), worst score ([\d.]+)$", out, re.MULTILINE)  # nothing bad
    longer = re.search(r"one more message at its end: \w+, worst score ([\d.]+); ", out)
    assert long is not None
    assert longer is not None
    assert float(longer[1]) > float(long[2])  # what stands where the classifier alone does not read counts
    assert re.search(r"DeepWordBug misspelled 3 spam messages and fooled the classifier with [0-3]\n", out)


def test_a_stricter_spam_filter_blocks_less(run: Run, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    values = []
    for rate in (0.1, 0.4):
        words = ("--base", tiny_folder("bert"), "--epochs", 1, "--attacked", 1, "--out", f"filter-{rate}")
        run("spam_filter.py", *words, "--max-fpr", rate, "--max-review", 0.5)
        saved = json.loads((tmp_path / f"filter-{rate}" / "rsmi_guard.json").read_text(encoding="utf-8"))
        values.append(saved["block"])
    strict, lax = values
    assert strict["max_rate"] < lax["max_rate"]
    assert strict["value"] > lax["value"]
    assert strict["false_positives"] < lax["false_positives"]


def test_the_review_classifier_writes_a_page_about_both_models(
    run: Run, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    words = ("--base", tiny_folder("bert"), "--limit", 24, "--epochs", 1, "--tested", 12, "--attacked", 3)
    out = run("review_classifier.py", *words, "--out", "reviews")
    for name in ("plain", "rsmi"):
        assert re.search(rf"^{name}: \d+ of 12 test sentences right, 95 % interval \[", out, re.MULTILINE)
        header, *records = lines_of(tmp_path / "reviews" / f"{name}.jsonl")
        assert (header["run"]["num"], len(records)) == (3, 3)
        assert header["run"]["randomised"] == (name == "rsmi")
        assert f"reviews/{name} under pwws" in out
    page = (tmp_path / "reviews" / "report.html").read_text(encoding="utf-8")
    assert "reviews/plain" in page
    assert "reviews/rsmi" in page
    assert "its answers are random" in out


def test_the_pair_classifier_is_attacked_in_its_answers_only(
    run: Run, tiny_folder: Callable[..., Path], tmp_path: Path
):
    words = ("--base", tiny_folder("bert"), "--limit", 40, "--epochs", 1, "--tested", 20, "--attacked", 8)
    out = run("pair_classifier.py", *words, "--out", "pairs")
    assert re.search(r"trained on 40 pairs; \d+ of 20 test pairs right", out)
    assert out.count("most salient: ") == 4
    records = lines_of(tmp_path / "pairs" / "pwws.jsonl")
    assert len(records) == 8
    assert all(record["adversarial"][0] == record["original"][0] for record in records)
    assert any(record["adversarial"][1] != record["original"][1] for record in records)
    clf = RsmiClassifier.from_pretrained(tmp_path / "pairs", seed=0)
    assert sorted(clf.classes_) == ["answers", "does not answer"]


@pytest.mark.parametrize("siblings", [False, True])
def test_neither_text_of_a_pair_gives_its_label_away(siblings: bool) -> None:
    names = runpy.run_path(str(EXAMPLES / "pair_classifier.py"))
    nouns = names["nouns"]()
    kinds = {noun.word: noun.kind for noun in nouns}
    defined = {noun.definition: noun.kind for noun in nouns}
    sets = names["pairs"](nouns, siblings)
    assert len(sets["train"]) >= 4000
    assert min(len(sets["dev"]), len(sets["test"])) >= 200
    questions: defaultdict[str, set[str]] = defaultdict(set)
    for split, data in sets.items():
        for place in (0, 1):
            labels: defaultdict[str, Counter[Any]] = defaultdict(Counter)
            for text, label in zip(data.texts, data.labels, strict=True):
                labels[text[place]][label] += 1
            assert all(own["answers"] == own["does not answer"] for own in labels.values())
        for (question, definition), label in zip(data.texts, data.labels, strict=True):
            word = question.split()[4]
            questions[word].add(split)
            if siblings and label == "does not answer":
                assert kinds[word] == defined[definition]
    assert all(len(splits) == 1 for splits in questions.values())


def test_scikit_learn_tools_take_the_classifier(run: Run, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    out = run("sklearn_pipeline.py", "--base", tiny_folder("bert"), "--limit", 24, "--epochs", 1, "--out", "sklearn")
    scores = re.search(r"^accuracy in 3 folds of 24 sentences: (.*)$", out, re.MULTILINE)
    assert scores is not None
    assert len(scores[1].split(", ")) == 3
    tried = dict(re.findall(r"^\{'rsmi__config__noise_std': ([\d.]+)\}: mean accuracy ([\d.]+)$", out, re.MULTILINE))
    assert set(tried) == {"0.1", "0.3"}
    best = re.search(r"^best: \{'rsmi__config__noise_std': ([\d.]+)\}", out, re.MULTILINE)
    assert best is not None
    assert float(tried[best[1]]) == max(map(float, tried.values()))
    assert f"a clone is untrained and has noise_std {best[1]}" in out
    assert "read back from joblib, the same answer to 10 sentences" in out
    assert (tmp_path / "sklearn" / "pipeline.joblib").exists()
    saved = RsmiClassifier.from_pretrained(tmp_path / "sklearn" / "model", seed=0)
    assert saved.config_.noise_std == float(best[1])


def test_the_pipeline_answers_in_the_shapes_of_transformers(run: Run, tiny_folder: Callable[..., Path]) -> None:
    words = ("--base", tiny_folder("bert"), "--limit", 24, "--epochs", 1, "--tested", 20)
    out = run("transformers_pipeline.py", *words, "--out", "pipeline")
    answers: defaultdict[str, list[Any]] = defaultdict(list)
    for kind, answer in re.findall(r"^  (a text|two texts|all classes) +(\[.*\])$", out, re.MULTILINE):
        answers[kind].append(ast.literal_eval(answer))
    assert {kind: [len(own) for own in both] for kind, both in answers.items()} == {
        "a text": [1, 1],
        "two texts": [2, 2],
        "all classes": [2, 2],
    }
    for theirs, ours in answers.values():
        assert [set(own) for own in theirs] == [set(own) for own in ours] == [{"label", "score"}] * len(ours)
    assert sum(own["score"] for own in answers["all classes"][1]) == pytest.approx(1)
    for name in ("transformers", "rsmi"):
        assert re.search(rf"^{name} on a data set of 20 sentences: \d+ right$", out, re.MULTILINE)
    assert "streaming 400 sentences from a generator: 0 read before" in out
    read = re.search(r"^(\d+) when it is there", out, re.MULTILINE)
    assert read is not None
    assert 0 < int(read[1]) < 400


def test_a_trained_model_can_be_put_into_the_pipeline(run: Run, keyword_folder: Path) -> None:
    out = run("transformers_pipeline.py", "--model", keyword_folder, "--tested", 8)
    assert "trained on" not in out
    assert out.count("'label': 'pos'") >= 2  # it knows the word joy


def test_the_made_up_messages_are_as_their_readme_says() -> None:
    with (EXAMPLES / "data" / "spam.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["label"] for row in rows) == {"spam": 140, "ham": 140}
    assert len({row["text"] for row in rows}) == 280
    for row in rows:
        hosts = re.findall(r"(?:https?://|@)([\w.-]+\w)", row["text"])
        assert all(re.search(r"(^|\.)example\.(com|net|org)$", host) for host in hosts), row["text"]
        assert all(number.startswith("555-01") for number in re.findall(r"\d{3}-\d{4}", row["text"])), row["text"]
    about = (EXAMPLES / "data" / "README.md").read_text(encoding="utf-8")
    assert "280 messages" in about
    assert "CC0" in about


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_says_how_to_run_it(script: Path) -> None:
    about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    assert f"python examples/{script.name}\n" in about
    assert f"({script.name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_a_kept_output_is_that_of_an_example_and_says_what_it_was_made_with() -> None:
    for output in (EXAMPLES / "outputs").glob("*.txt"):
        kept = output.read_text(encoding="utf-8")
        assert (EXAMPLES / f"{output.stem}.py").exists()
        assert kept.startswith(f"$ python examples/{output.stem}.py\n")
        assert re.search(r"^versions: .*\brsmi \d", kept, re.MULTILINE)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_its_outputs_and_no_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert notebook["nbformat"] == 4
    assert notebook["cells"][0]["cell_type"] == "markdown"
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in codes] == list(range(1, len(codes) + 1))  # run once, from the top
    for cell in codes:
        source = "".join(cell["source"])
        last = ast.parse(source).body[-1]
        shown = "print(" in source or (isinstance(last, ast.Expr) and not source.rstrip().endswith(";"))
        assert bool(cell["outputs"]) == shown, source
        assert all(output["output_type"] != "error" for output in cell["outputs"]), source
        assert all(output.get("name") != "stderr" for output in cell["outputs"]), source
    outputs = json.dumps([cell["outputs"] for cell in codes])
    assert not re.search(r"/(?:home|tmp|work|root|usr|opt)/|\\\\Users\\\\", outputs)  # nobody's folders
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
