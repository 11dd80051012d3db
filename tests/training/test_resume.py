"""A run that was interrupted goes on as if nothing had happened, or says why it cannot."""

from __future__ import annotations

import json
import resource
from dataclasses import replace

import pytest
import torch

from rsmi import RsmiClassifier, TrainConfig
from rsmi.errors import CheckpointError, TrainingError
from rsmi.training import keeping, loop
from rsmi.training.objective_finetune import FinetuneObjective
from toy import CONFIG, LABELS, SYNONYMS, TEXTS

# 44 training texts are 6 updates of 8, the last one of 4, an epoch
SETTINGS = TrainConfig(epochs=3, learning_rate=1e-3, batch_size=8, dev_fraction=0.1, save_every=2, warmup_ratio=0.2)
METHODS = ("rsmi", "finetune", "freelb", "infobert", "safer")


class Crash(Exception):
    """Stands for a power cut."""


@pytest.fixture
def base(tiny_folder):
    return str(tiny_folder("bert", num_layers=2, dropout=0.2))


def _classifier(base, method="rsmi", seed=0, **settings):
    config = CONFIG.as_variant("safer" if method == "safer" else "rsmi")
    return RsmiClassifier(
        base, config, replace(SETTINGS, method=method, **settings), synonyms=SYNONYMS, seed=seed, progress=True
    )


def _fit(base, folder=None, **choices):
    return _classifier(base, **choices).fit(TEXTS, LABELS, folder=folder)


def _crash_at(monkeypatch, update):
    """Make the next runs stop before `update` is saved, whatever is due then."""

    class Bar(keeping.TrainerCallback):
        def __init__(self, _title):
            pass

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == update:
                raise Crash

    monkeypatch.setattr(loop, "ProgressBar", Bar)


def _weights(classifier):
    return {name: value.clone() for name, value in classifier._loaded.encoder.model.state_dict().items()}


def _same(one, two):
    assert one.keys() == two.keys()
    return all(torch.equal(value, two[name]) for name, value in one.items())


@pytest.mark.parametrize("method", METHODS)
def test_weights_and_history_are_those_of_a_run_never_interrupted(base, tmp_path, monkeypatch, method):
    whole = _fit(base, method=method)
    for update in (5, 6, 7, 13, 18):  # within an epoch, at its end, just after it, in the third, at the very end
        _crash_at(monkeypatch, update)
        with pytest.raises(Crash):
            _fit(base, tmp_path / "run", method=method)
    monkeypatch.undo()
    resumed = _fit(base, tmp_path / "run", method=method)
    assert _same(_weights(whole), _weights(resumed))
    for mine, theirs in zip(resumed.training_["history"], whole.training_["history"], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("settings", [{"micro_batch_size": 2}, {"group_by_length": True}, {"lora_rank": 2}])
def test_it_holds_with_accumulation_grouping_and_adapters(base, tmp_path, monkeypatch, settings):
    whole = _fit(base, **settings)
    _crash_at(monkeypatch, 9)
    with pytest.raises(Crash):
        _fit(base, tmp_path / "run", **settings)
    monkeypatch.undo()
    assert _same(_weights(whole), _weights(_fit(base, tmp_path / "run", **settings)))


def test_a_resumed_run_does_not_train_anew(base, tmp_path, monkeypatch):
    _crash_at(monkeypatch, 13)
    with pytest.raises(Crash):
        _fit(base, tmp_path / "run", method="finetune")
    monkeypatch.undo()
    steps = []
    original = FinetuneObjective.loss
    monkeypatch.setattr(FinetuneObjective, "loss", lambda self, step: steps.append(1) or original(self, step))
    _fit(base, tmp_path / "run", method="finetune")
    assert len(steps) == 18 - 12


def test_saving_does_not_change_the_weights(base, tmp_path):
    assert _same(_weights(_fit(base)), _weights(_fit(base, tmp_path / "run")))


def test_patience_counts_on(base, tmp_path, monkeypatch):
    settings = {"epochs": 9, "patience": 1, "learning_rate": 1e-9, "method": "finetune"}
    whole = _fit(base, **settings)
    assert len(whole.training_["history"]) == 2  # nothing is learnt, so the first epoch stays the best
    _crash_at(monkeypatch, 8)
    with pytest.raises(Crash):
        _fit(base, tmp_path / "run", **settings)
    monkeypatch.undo()
    assert len(_fit(base, tmp_path / "run", **settings).training_["history"]) == 2


def test_only_the_newest_snapshot_and_the_best_weights_are_kept(base, tmp_path):
    _fit(base, tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert [name.split("-")[0] for name in names] == ["best", "run.json", "update"]
    files = {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert files == {".json", ".safetensors"}


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"seed": 1}, "key"),
        ({"learning_rate": 1e-4}, "but learning_rate was 0.001, is 0.0001;"),
        ({"method": "finetune"}, "but method was 'rsmi', is 'finetune';"),
    ],
)
def test_a_run_of_other_settings_is_refused_and_kept(base, tmp_path, choices, named):
    _fit(base, tmp_path / "run")
    before = sorted((tmp_path / "run").rglob("*"))
    with pytest.raises(CheckpointError, match=named):
        _fit(base, tmp_path / "run", **choices)
    assert sorted((tmp_path / "run").rglob("*")) == before


def test_a_run_on_other_texts_is_refused(base, tmp_path):
    _fit(base, tmp_path / "run")
    with pytest.raises(CheckpointError, match="texts was"):
        _classifier(base).fit(TEXTS[:-1], LABELS[:-1], folder=tmp_path / "run")


def test_how_often_it_saves_may_change(base, tmp_path):
    _fit(base, tmp_path / "run")
    _fit(base, tmp_path / "run", save_every=5)


def test_a_folder_of_something_else_is_left_alone(base, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="new or empty folder"):
        _fit(base, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("name", ["model.safetensors", "tensors.safetensors", "trainer_state.json", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_snapshot_is_named(base, tmp_path, name, damage):
    _fit(base, tmp_path / "run", epochs=1)
    (path,) = (tmp_path / "run").glob(f"update-*/{name}")
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    else:
        path.unlink()
    if (name, damage) == ("state.json", "flipped"):
        path.write_text(json.dumps({"digests": {}, "stale": {}}))
    with pytest.raises(CheckpointError, match="damaged or missing"):
        _fit(base, tmp_path / "run", epochs=1)


def test_a_nan_names_update_and_texts_and_keeps_the_run(base, tmp_path, monkeypatch):
    original = FinetuneObjective.loss
    calls = []

    def breaks_at_nine(self, step):
        calls.append(step)
        return original(self, step) * (float("nan") if len(calls) == 9 else 1.0)

    monkeypatch.setattr(FinetuneObjective, "loss", breaks_at_nine)
    with pytest.raises(TrainingError, match=r"loss is nan at update 9 of 18 \(texts \d+, .*update-00000008 holds"):
        _fit(base, tmp_path / "run", method="finetune")
    monkeypatch.undo()
    resumed = _fit(base, tmp_path / "run", method="finetune")
    assert _same(_weights(_fit(base, method="finetune")), _weights(resumed))


def test_a_weight_that_is_not_finite_is_never_saved(base, tmp_path, monkeypatch):
    class Bar(keeping.TrainerCallback):
        def __init__(self, _title):
            pass

        def on_step_end(self, args, state, control, model=None, **kwargs):
            if state.global_step == 4:
                next(model.parameters()).data[0] = float("inf")

    monkeypatch.setattr(loop, "ProgressBar", Bar)
    with pytest.raises(TrainingError, match="a weight is not finite at update 4"):
        _fit(base, tmp_path / "run", method="finetune")
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "run").glob("update-*")] == ["update-00000002"]
    assert _same(_weights(_fit(base, method="finetune")), _weights(_fit(base, tmp_path / "run", method="finetune")))


def test_a_full_disk_is_one_sentence_and_loses_nothing(base, tmp_path, monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Bar(keeping.TrainerCallback):
        """From update 5 on no file may grow beyond 10,000 bytes: a real failure to write."""

        def __init__(self, _title):
            pass

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 5:
                resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))

    monkeypatch.setattr(loop, "ProgressBar", Bar)
    try:
        with pytest.raises(CheckpointError, match=r"cannot save the training run: .*update-00000004 is kept"):
            _fit(base, tmp_path / "run", method="finetune")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob(".fresh-*"))
    assert _same(_weights(_fit(base, method="finetune")), _weights(_fit(base, tmp_path / "run", method="finetune")))
