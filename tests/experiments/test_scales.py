"""Scales: the paper's settings are the paper's, and what is missing is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rsmi.attacks.catalogue import ATTACKS
from rsmi.config import Method
from rsmi.errors import ConfigError, MissingResourceError
from rsmi.experiments.costs import cost_of
from rsmi.experiments.items import items_of
from rsmi.experiments.running import steps_of
from rsmi.experiments.scale import Learning, Scale
from rsmi.experiments.scales import PAPER, SMALL
from rsmi.experiments.specs import Attacked, Trained, changes


def test_the_papers_scale_has_the_papers_numbers() -> None:
    assert (PAPER.num, PAPER.max_words, PAPER.augmented, PAPER.runs) == (1000, 256, 10_000, 1000)
    assert (PAPER.train_texts, PAPER.test_texts, PAPER.seeds) == (None, None, (0, 1, 2))
    assert (PAPER.masks, PAPER.copies) == ((1, 2, 3, 4, 5), (1, 5, 10, 50))


@pytest.mark.parametrize(
    ("encoder", "data", "batch", "rate", "masks", "noise", "layers"),
    [
        ("roberta-base", "imdb", 16, 1e-5, 4, 0.4, 3),
        ("roberta-base", "qnli", 36, 1e-5, 2, 0.2, 3),
        ("bert-base", "imdb", 16, 1e-5, 3, 0.3, 4),
        ("bert-base", "ag_news", 24, 1e-5, 2, 0.2, 3),
        ("t5-large", "imdb", 16, 1e-4, 4, 0.4, 3),
    ],
)
def test_settings_at_the_papers_scale_are_those_of_table_9(
    encoder: str, data: str, batch: int, rate: float, masks: int, noise: float, layers: int
) -> None:
    preset = PAPER.preset(Trained(encoder=encoder, data=data))
    training, config = preset.train_config, preset.config
    assert (training.batch_size, training.learning_rate, training.epochs) == (batch, rate, 10)
    assert (config.num_masks, config.noise_std, config.noise_layers) == (masks, noise, layers)
    assert (config.first_votes, config.second_votes, config.stop_confidence, config.max_length) == (5, 50, 0.98, 256)


@pytest.mark.parametrize("encoder", PAPER.encoders)
def test_the_papers_encoders_are_those_of_the_presets(encoder: str) -> None:
    model = Trained(encoder=encoder, data="imdb")
    assert PAPER.base(model) == PAPER.preset(model).base


@pytest.mark.parametrize("scale", [SMALL, PAPER], ids=lambda scale: scale.name)
def test_every_step_can_be_planned_offline(scale: Scale) -> None:
    for step in steps_of(items_of("all"), scale):
        assert cost_of(step, scale) >= 0
        if isinstance(step, Attacked):
            job = scale.job(step, Path("model"))
            assert job.attack in ATTACKS
            assert job.num == (scale.augmented if step.purpose == "augment" else scale.num)


def test_changes_reach_the_settings_and_masks_bring_their_candidates() -> None:
    preset = SMALL.preset(Trained(encoder="bert-base", data="imdb", changes=changes(num_masks=7, noise_std=0.4)))
    assert (preset.config.num_masks, preset.config.num_candidates, preset.config.noise_std) == (7, 7, 0.4)


def test_only_rsmi_gets_noise_and_masks() -> None:
    for method in ("finetune", "freelb", "infobert", "advaug"):
        config = SMALL.preset(Trained(encoder="roberta-base", data="imdb", method=method)).config
        assert (config.noise_std, config.masking, config.first_votes) == (0.0, "none", 1)
    config = SMALL.preset(Trained(encoder="roberta-base", data="imdb")).config
    assert (config.noise_std, config.noise_unit) == (0.4, "spread")


def test_a_missing_model_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = Trained(encoder="roberta-base", data="imdb")
    monkeypatch.delenv("RSMI_MODELS", raising=False)
    with pytest.raises(MissingResourceError, match=r"roberta-granite-30m .*RSMI_MODELS names, got no such variable"):
        SMALL.base(model)
    monkeypatch.setenv("RSMI_MODELS", str(tmp_path))
    with pytest.raises(MissingResourceError, match="roberta-granite-30m"):
        SMALL.base(model)
    (tmp_path / "roberta-granite-30m").mkdir()
    assert SMALL.base(model) == str(tmp_path / "roberta-granite-30m")


def test_an_encoder_that_a_scale_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="scale small: expected one of bert-base"):
        SMALL.preset(Trained(encoder="bert-large", data="imdb"))


def test_models_read_as_many_words_in_training_as_under_attack(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("text,label\n" + "one two three four five,a\nsix,b\n", encoding="utf-8")
    scale = replace(SMALL, max_words=3, sources={"imdb": str(file)})
    assert scale.load("imdb", "all").texts == ("one two three", "six")


def test_an_encoder_may_have_learning_rates_of_its_own() -> None:
    own = replace(SMALL.encoders["bert-base"], rates=(3e-4, 1e-3))
    scale = replace(SMALL, encoders={**SMALL.encoders, "bert-base": own})
    methods: tuple[Method, ...] = ("rsmi", "finetune", "freelb")
    models = [Trained(encoder="bert-base", data="imdb", method=method) for method in methods]
    assert [scale.preset(model).train_config.learning_rate for model in models] == [3e-4, 1e-3, 1e-3]
    assert [SMALL.preset(model).train_config.learning_rate for model in models] == [1e-4, 5e-5, 5e-5]


def test_a_data_set_may_be_learnt_in_a_way_of_its_own() -> None:
    gentle = {"infobert": {"ascent_radius": 0.02}}
    own = Learning(texts=4000, epochs=3, rates=(2e-4, 1e-4), own_training=gentle)
    scale = replace(SMALL, harder={"qnli": own})
    climbing = [Trained(encoder="bert-base", data=data, method="infobert") for data in ("imdb", "qnli")]
    assert [scale.preset(model).train_config.ascent_radius for model in climbing] == [0.4, 0.02]
    models = [Trained(encoder="bert-base", data=data, method="finetune") for data in ("imdb", "qnli")]
    settings = [scale.preset(model).train_config for model in models]
    assert [(own.learning_rate, own.epochs) for own in settings] == [(5e-5, 2), (1e-4, 3)]
    assert scale.preset(replace(models[1], method="rsmi")).train_config.learning_rate == 2e-4
    assert [scale.texts_of(data) for data in ("imdb", "qnli")] == [2000, 4000]
    assert scale.told_texts() == "2,000 training texts (qnli: 4,000, 3 epochs)"
