"""What is released: one version, a wheel with everything in it, and the files that people look for in a repository."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from rsmi import __version__

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rsmi"
DATA = sorted(
    str(path.relative_to(PACKAGE.parent))
    for path in PACKAGE.rglob("*")
    if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
)
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, made from the sdist as `make release` does, of a copy: leftovers of other builds cannot slip in."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(PACKAGE, copy / "src" / "rsmi", ignore=shutil.ignore_patterns("__pycache__"))
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in out.glob("*.tar.gz")] == [f"rsmi-{__version__}.tar.gz"]
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _python(unpacked, *words):
    """Run Python with the unpacked wheel before whatever else is installed, and no working directory on its path."""
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return subprocess.run(
        [sys.executable, *safe, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=unpacked.parent,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
    )


def test_the_version_is_written_in_one_place():
    declared = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared == [__version__], "pip install --editable . again: the installed metadata are of another version"
    quoted = re.compile(rf"""["']{re.escape(__version__)}["']""")
    assert [path for path in PACKAGE.rglob("*.py") if quoted.search(path.read_text(encoding="utf-8"))] == []


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"rsmi-{__version__}.dist-info/")}
    modules = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")}
    assert {"rsmi/py.typed", "rsmi/report/page.css", "rsmi/app/server/page/frame.html"} <= set(DATA)
    assert names == modules | set(DATA)


def test_the_wheel_tells_version_licence_types_and_command(unpacked):
    about = unpacked / f"rsmi-{__version__}.dist-info"
    metadata = email.message_from_string((about / "METADATA").read_text(encoding="utf-8"))
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == (
        "rsmi",
        __version__,
        "Apache-2.0",
    )
    assert metadata["Requires-Python"] == ">=3.10"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert {"serve", "cluster", "report", "lora", "textattack"} <= set(metadata.get_all("Provides-Extra"))
    assert metadata.get_payload().startswith("# rsmi")
    assert "rsmi = rsmi.app.cli:main" in (about / "entry_points.txt").read_text(encoding="utf-8")
    assert (about / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_runs_without_the_checkout(unpacked):
    where = _python(unpacked, "-c", "import rsmi; print(rsmi.__file__)")
    assert Path(where.stdout.strip()) == unpacked / "rsmi" / "__init__.py", where.stderr
    told = _python(unpacked, "-m", "rsmi", "--version")
    assert (told.returncode, told.stdout) == (0, f"{__version__}\n"), told.stderr


def test_the_wheel_trains_predicts_attacks_certifies_and_reports(unpacked):
    done = _python(unpacked, ROOT / "tools" / "smoke.py", "--inside", unpacked)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"smoke: rsmi {__version__} from {unpacked / 'rsmi'} works\n")


def test_the_smoke_test_fails_where_rsmi_is_another_one(unpacked, tmp_path):
    done = _python(unpacked, ROOT / "tools" / "smoke.py", "--inside", tmp_path)
    assert (done.returncode, done.stderr) == (1, f"smoke: rsmi comes from {unpacked / 'rsmi' / '__init__.py'}\n")


def test_the_citation_names_this_version_and_the_paper():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for name in ("cff-version", "message", "title", "authors"):  # those that CFF 1.2.0 requires
        assert cited[name], name
    assert cited["cff-version"] == "1.2.0"
    assert cited["type"] == "software"
    assert cited["version"] == __version__
    paper = cited["preferred-citation"]
    for name in ("type", "title", "authors"):  # those that it requires of a reference
        assert paper[name], name
    assert paper["title"] in (ROOT / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    assert [author["family-names"] for author in paper["authors"]] == ["Moon", "Joty", "Zhao", "Thakkar", "Xu"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_of_issues_is_one(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": False}
        return
    assert {"name", "description", "body"} <= set(form)
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in fields)
    assert len({part["id"] for part in fields}) == len(fields)
    kinds = {"textarea", "input", "dropdown", "checkboxes", "markdown"}
    assert {part["type"] for part in form["body"]} <= kinds


def test_there_is_a_template_for_every_kind_of_issue():
    assert [path.name for path in TEMPLATES] == ["bug.yml", "config.yml", "feature.yml", "robustness_break.yml"]


def test_the_security_page_names_no_address_that_does_not_exist():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a vulnerability" in text
    assert "@" not in text
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
