"""Fixtures of the resources: a cache of their own, and no NLTK data but those of a test."""

from __future__ import annotations

import pytest

from rsmi.resources import nltk_data


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of an empty cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RSMI_CACHE", str(folder))
    monkeypatch.delenv("RSMI_COUNTERFITTED", raising=False)
    return folder


@pytest.fixture
def nltk_root(tmp_path, monkeypatch):
    """The only folder searched for NLTK data, empty."""
    root = tmp_path / "nltk_data"
    root.mkdir()
    monkeypatch.setattr(nltk_data, "nltk_folders", lambda: iter([root]))
    return root
