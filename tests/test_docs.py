"""What README and docs say must run, and the pages made from the code must equal it."""

from __future__ import annotations

import glob
import json
import re
import shlex
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest
from transformers import AutoTokenizer, BertConfig, BertModel

from rsmi import RsmiClassifier, RsmiConfig
from rsmi.app.cli import main
from rsmi.data import TextDataset
from rsmi.data.embedded import encoder_folder

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
SMALL = {"--limit": "40", "--epochs": "1", "--num": "2", "--draws": "1", "--samples": "20"}
SMALL |= {"--min-accuracy": "0", "--min-robust-accuracy": "0"}
"""Options of the pages' commands, and what they are run with here instead: few texts, gates that any model passes."""
QUICK = {"textfooler": "deepwordbug"}
"""TextFooler's vectors take a minute to build."""
FILES = {
    "reviews.csv": "id,text\n1,A joy to watch.\n2,Dull from start to end.\n",
    "mine.csv": "text,label\n" + "Win a phone now,spam\nSee you at six,ham\n" * 10,
    "pairs.csv": "asked,found,fits\n" + "Who wrote it?,Kyd wrote it.,yes\nWho wrote it?,It rains.,no\n" * 10,
    "pairs-test.csv": "asked,found,fits\nWho came?,Anna came.,yes\nWho came?,It snowed.,no\n",
}
"""What the pages take for granted: a reader's own files."""


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """The code of a page in its order, with its language. `bash` is run here, `sh` needs what is not here."""
    pattern = rf"^```({'|'.join(languages)})\n(.*?)^```"
    return re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[list[str]]:
    """The commands of a block that are ours, with names of files written out and smaller numbers."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("rsmi "):
            words = [name for word in shlex.split(line, comments=True) for name in sorted(glob.glob(word)) or [word]]
            small = [SMALL.get(before, own) for before, own in zip(["", *words], words, strict=False)]
            found.append([QUICK.get(word, word) for word in small[1:]])
    return found


def run(words: list[str], monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["rsmi", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 0, (words, said.err)
    assert said.out.strip(), words


def execute(code: str, page: Path, names: dict[str, object]) -> None:
    exec(compile(code, str(page.relative_to(ROOT)), "exec"), names)


@pytest.fixture
def few_texts(monkeypatch, tmp_path):
    """Run in a folder with nothing but a reader's own files, on a few texts of each set."""
    take = TextDataset.take
    monkeypatch.setattr(
        TextDataset, "take", lambda self, n, seed, stratified=False: take(self, min(n, 40), seed, stratified)
    )
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content, encoding="utf-8")


@pytest.fixture
def small_encoder(monkeypatch, tmp_path_factory):
    """In the place of MiniLM a random encoder with its tokenizer, three thin layers deep."""
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder())
    shape = {"num_hidden_layers": 3, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    monkeypatch.setattr("rsmi.method.pretrained.encoder_folder", lambda: folder)


def test_the_readme_has_commands_and_code():
    assert sum(len(commands(block)) for _, block in blocks(README, "bash")) >= 3
    assert blocks(README, "python")


def test_the_commands_of_the_readme_run_one_after_the_other(few_texts, monkeypatch, capsys):
    for _, block in blocks(README, "bash"):
        for words in commands(block):
            run(words, monkeypatch, capsys)


def test_the_python_code_of_the_readme_runs(few_texts):
    names: dict[str, object] = {}
    for _, code in blocks(README, "python"):
        execute(code, README, names)


@pytest.mark.timeout(1200)
def test_the_pages_can_be_followed_and_write_what_is_documented(few_texts, small_encoder, monkeypatch, capsys):
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    in_order = [DOCS / name for name in re.findall(r"[\w/-]+\.md", nav)]
    others = [page for page in PAGES if page not in (README, *in_order)]
    done: list[list[str]] = []
    for page in [README, *in_order, *others]:
        names: dict[str, object] = {}
        for language, code in blocks(page, "bash", "python"):
            if language == "python":
                execute(code, page, names)
                continue
            for words in commands(code):
                if words not in done:
                    run(words, monkeypatch, capsys)
                    done.append(words)
    assert len(done) > 20
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    documented = import_module("records_docs")
    page = (DOCS / "reference" / "records.md").read_text(encoding="utf-8")
    for file, header, title in (
        ("mr-pwws", documented.RUN, "Attack records"),
        ("certificates", documented.CERTIFIED_RUN, "Certificates"),
    ):
        first, second, *_ = map(json.loads, Path(f"runs/{file}.jsonl").read_text(encoding="utf-8").splitlines())
        assert set(first["run"]) == set(header)
        assert list(second) == _fields(page, title)
    added = Path("scored.csv").read_text(encoding="utf-8").splitlines()[0].split(",")[2:]
    shown = [name.replace("_CLASS", "_neg") for name in _fields(page, "Scored files") if name != "error"]
    assert [name for name in added if name != "probability_pos"] == shown
    run(["predict", "runs/mr", "A joy to watch.", "--json", "--explain"], monkeypatch, capsys)


def _fields(page: str, title: str) -> list[str]:
    """The names in the table of a section whose rows have types."""
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    table = section.partition("| Field | Type | Meaning |\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "tool", "name"),
    [
        ("cli", "cli_docs", "markdown"),
        ("reproduction", "reproduction_docs", "text"),
        ("reference/configuration", "configuration_docs", "markdown"),
        ("reference/records", "records_docs", "markdown"),
    ],
)
def test_a_generated_page_is_up_to_date(page, tool, name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    made = getattr(import_module(tool), name)()
    assert (DOCS / f"{page}.md").read_text(encoding="utf-8") == made, "run `make docs` and commit the page"


def test_the_readme_counts_the_claims_as_they_were_judged():
    folder = ROOT / "results" / "reproduction" / "small"
    verdicts = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    found = Counter(own["status"] for item in verdicts.values() for own in item)
    told = ", ".join(f"{found[status]} {status}" for status in ("reproduced", "not reproduced", "undecided"))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{found.total()} claims were judged: {told}" in readme


def test_what_profiles_cost_and_protect_is_what_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    table = "\n".join(import_module("configuration_docs").profiles())
    page = (DOCS / "howto" / "noise-and-masks.md").read_text(encoding="utf-8")
    assert f"\n{table}\n" in page, "copy the table of docs/reference/configuration.md"


def test_the_pages_of_the_api_are_up_to_date_and_leave_no_module_out(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    api = import_module("api_docs")
    written = {page.stem: page.read_text(encoding="utf-8") for page in api.TARGET.glob("*.md")}
    assert written == api.pages(), "run `make docs` and commit the pages"
    top = {f"rsmi.{path.stem}" for path in (ROOT / "src" / "rsmi").glob("*") if not path.stem.startswith("__")}
    listed = {module for _, modules in api.PARTS.values() for module in modules}
    assert top - {"rsmi.py"} <= listed | set(api.ELSEWHERE), "name the new module in tools/api_docs.py"


def test_figures_are_drawn_from_any_model_and_their_words_are_the_pages(monkeypatch, small_encoder):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    drawings = import_module("figures").figures(
        RsmiClassifier("minilm", RsmiConfig(num_masks=1), seed=0).fit(["a joy", "a bore"] * 4, ["pos", "neg"] * 4)
    )
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    for name, drawing in drawings.items():
        assert ElementTree.fromstring(drawing).get("aria-label")
        committed = ElementTree.parse(DOCS / "figures" / f"{name}.svg").getroot()
        assert f"![{committed.get('aria-label')}](figures/{name}.svg)" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_named_in_a_page_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets
