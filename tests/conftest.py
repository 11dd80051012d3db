"""Fixtures of all tests: no model hub, two threads, tiny models of every family built once."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads starve whatever shares the machine

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from tiny import Tiny, save_tiny, tiny

torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)  # two workers share two cores
settings.register_profile("rsmi", deadline=None, derandomize=True, max_examples=30, database=None)
settings.load_profile("rsmi")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Built resources go to a folder of this run, neither read from nor written to the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSMI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny_of() -> Callable[..., Tiny]:
    """(family, num_labels=2, num_layers=4, dropout=0.1, seed=0) -> a shared tiny model: do not change it."""
    return cache(tiny)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """(family, num_labels=2, ...) -> a folder with such a model, saved once: do not write to it."""

    @cache
    def folder(family: str, num_labels: int = 2, **choices: Any) -> Path:
        return save_tiny(family, tmp_path_factory.mktemp(family), num_labels, **choices)

    return folder
