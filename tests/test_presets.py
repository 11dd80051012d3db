from __future__ import annotations

from typing import get_args

import pytest

from rsmi.config import Method
from rsmi.errors import ConfigError
from rsmi.presets import PRESETS, load_preset

# model, data: batch, learning rate of RSMI and of the fine-tuned model, M, sigma, noise layers (the paper's Table 9)
TABLE = {
    ("roberta-base", "imdb"): (16, 1e-5, 5e-5, 4, 0.4, 3),
    ("roberta-base", "ag_news"): (24, 1e-5, 5e-5, 4, 0.4, 3),
    ("roberta-base", "qnli"): (36, 1e-5, 1e-5, 2, 0.2, 3),
    ("bert-base", "imdb"): (16, 1e-5, 5e-5, 3, 0.3, 4),
    ("bert-base", "ag_news"): (24, 1e-5, 5e-5, 2, 0.2, 3),
    ("bert-base", "qnli"): (36, 1e-5, 1e-5, 2, 0.2, 3),
}


@pytest.mark.parametrize(("model", "data"), TABLE)
def test_the_settings_are_the_papers(model, data):
    batch, rate, finetune_rate, masks, std, layers = TABLE[model, data]
    rsmi, plain = (load_preset(f"paper/{model}/{data}", method) for method in ("rsmi", "finetune"))
    assert (rsmi.data, plain.data) == (data, data)
    for preset, expected in ((rsmi, rate), (plain, finetune_rate)):
        train = preset.train_config
        assert (train.batch_size, train.learning_rate, train.epochs) == (batch, expected, 10)
        assert (train.weight_decay, train.warmup_ratio, train.max_grad_norm) == (0.0, 0.0, 1.0)
    config = rsmi.config
    assert (config.num_masks, config.noise_std, config.noise_layers) == (masks, std, layers)
    assert (config.first_votes, config.second_votes, config.stop_confidence) == (5, 50, 0.98)
    assert (config.saliency_samples, config.max_length, rsmi.train_config.embedding_step) == (1, 256, 1.0)
    assert (plain.config.noise_std, plain.config.masking) == (0.0, "none")


def test_t5_large_differs_from_roberta_by_its_learning_rate_alone():
    t5, roberta = load_preset("paper/t5-large/imdb"), load_preset("paper/roberta-large/imdb")
    assert t5.train_config.learning_rate == 1e-4
    assert t5.config == roberta.config
    assert t5.base == "t5-large"


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", get_args(Method))
def test_every_preset_is_valid_for_every_method(name, method):
    preset = load_preset(name, method)
    assert preset.name == name
    assert preset.train_config.method == method


def test_small_models_get_settings_of_their_own():
    short, news = load_preset("minilm/mr"), load_preset("minilm/ag_news")
    assert (short.base, short.config.masking, short.config.noise_std) == ("minilm", "none", 0.2)
    assert (news.config.masking, news.config.num_masks, news.config.max_length) == ("gradient", 1, 64)
    assert load_preset("minilm/ag_news", "finetune").config.max_length == 64
    assert load_preset("minilm/mr").train_config.learning_rate == 1e-4
    assert load_preset("minilm/mr", "finetune").train_config.learning_rate == 5e-5


def test_infobert_gets_its_authors_ascent():
    settings = load_preset("paper/roberta-base/imdb", "infobert").train_config
    assert (settings.ascent_step_size, settings.ascent_start, settings.ascent_steps) == (0.04, 0.08, 3)


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="paper/roberta-base/imdb"):
        load_preset("paper/gpt/imdb")
