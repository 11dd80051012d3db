"""What README and docs say must run, and the pages made from the code must equal it."""

from __future__ import annotations

import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest

from rsmi.app.cli import main
from rsmi.data import TextDataset

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SMALL = {"--limit": "40", "--epochs": "1", "--num": "2", "--attack": "pwws", "--draws": "1", "--samples": "20"}
"""What commands of the pages are run with here instead of their own (TextFooler's vectors take a minute to build)."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def rsmi_commands() -> list[list[str]]:
    names = ("training", "attacks", "evaluation", "speed", "certificates", "scoring")
    pages = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in names)]
    lines = [line for page in pages for block in blocks(page, "bash") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("rsmi ")]


@pytest.fixture
def few_texts(monkeypatch, tmp_path):
    """Run in a folder with nothing but the file that the pages score, on a few texts of each set."""
    take = TextDataset.take
    monkeypatch.setattr(
        TextDataset, "take", lambda self, n, seed, stratified=False: take(self, min(n, 40), seed, stratified)
    )
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("id,text\n1,A joy to watch.\n2,Dull from start to end.\n", encoding="utf-8")


def test_the_readme_has_commands_and_code():
    assert len(rsmi_commands()) >= 3
    assert blocks(ROOT / "README.md", "python")


def test_the_commands_of_the_readme_run_one_after_the_other(few_texts, monkeypatch, capsys):
    for words in rsmi_commands():
        for option, value in SMALL.items():
            if option in words:
                words[words.index(option) + 1] = value
        monkeypatch.setattr(sys, "argv", ["rsmi", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, (words, capsys.readouterr().err)
        assert capsys.readouterr().out.strip(), words


def test_the_python_code_of_the_pages_runs(few_texts):
    names: dict[str, object] = {}
    names_of_pages = ("attacks", "certificates", "guard", "scoring", "monitoring")
    for page in (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in names_of_pages)):
        for code in blocks(page, "python"):
            exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize(
    ("page", "tool", "name"), [("cli", "cli_docs", "markdown"), ("reproduction", "reproduction_docs", "text")]
)
def test_a_generated_page_is_up_to_date(page, tool, name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    made = getattr(import_module(tool), name)()
    assert (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") == made, "run `make docs` and commit the page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_named_in_a_page_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets
