"""A tiny saved classifier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rsmi import RsmiClassifier
from toy import CONFIG


@pytest.fixture(scope="session")
def model(tiny_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scoring") / "model"
    base = tiny_folder("bert", num_layers=2, dropout=0.0)
    RsmiClassifier.from_pretrained(base, CONFIG, classes=["neg", "pos"]).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def clf(model: Path) -> RsmiClassifier:
    return RsmiClassifier.from_pretrained(model, seed=0, progress=False)
