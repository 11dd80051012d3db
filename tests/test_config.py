"""Claims about the settings: what is refused, and that they survive JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi import RsmiConfig, TrainConfig
from rsmi.config import PROFILES, VARIANTS
from rsmi.errors import ConfigError
from rsmi.settings import by_owner, updated

ROOT = Path(__file__).resolve().parent.parent
NAN, INF = float("nan"), float("inf")
BAD_METHOD = [
    *[{name: value} for name in ("noise_std", "embedding_noise_std") for value in (-0.1, NAN, INF, True, "0.2", None)],
    *[
        {name: value}
        for name in ("num_masks", "num_candidates", "saliency_samples", "first_votes", "second_votes", "max_length")
        for value in (0, -1, True, 2.0, "2", None, NAN)
    ],
    *[{"noise_layers": value} for value in (0, -1, True, 1.5, "3", (), (0, 0), (-1,), (True,), ("0",), [0], None)],
    *[{"stop_confidence": value} for value in (0, 1, -0.5, 1.5, NAN, True, "0.9")],
    *[{"two_step": value} for value in (0, 1, "yes", None)],
    *[{name: value} for name in ("masking", "aggregation", "stop") for value in ("other", None, 1, ["gradient"])],
    {"mask_token": 3},
    {"mask_token": True},
    {"num_masks": 6},
    {"num_candidates": 1},
    {"stop": "sequential", "aggregation": "logit-average"},
]
BAD_TRAINING = [
    *[{name: value} for name in ("epochs", "batch_size") for value in (0, -1, True, 2.0, "2", None, NAN)],
    *[{name: value} for name in ("learning_rate", "max_grad_norm") for value in (0, -1e-5, NAN, INF, True, "1e-5")],
    *[{name: value} for name in ("weight_decay", "embedding_step") for value in (-1, NAN, INF, True, None)],
    *[{name: value} for name in ("warmup_ratio", "dev_fraction") for value in (-0.1, 1, 2.0, NAN, True)],
    *[{"micro_batch_size": value} for value in (0, -1, 3, 32, True, 2.0, "2")],
    *[{"gradient_checkpointing": value} for value in (0, 1, "no", None)],
    *[{name: value} for name in ("method", "precision") for value in ("other", None, 1)],
]


@pytest.mark.parametrize("wrong", BAD_METHOD, ids=str)
def test_a_wrong_setting_of_the_method_is_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RsmiConfig(**wrong)


@pytest.mark.parametrize("wrong", BAD_TRAINING, ids=str)
def test_a_wrong_setting_of_training_is_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TrainConfig(**wrong)


@pytest.mark.parametrize("kind", [RsmiConfig, TrainConfig])
def test_unknown_names_are_refused(kind):
    with pytest.raises(ConfigError, match="got noise_sdt"):
        kind.from_dict({"noise_sdt": 0.2})
    with pytest.raises(ConfigError, match="noise_sdt"):
        updated(kind(), noise_sdt=0.2)
    with pytest.raises(TypeError):
        kind(noise_sdt=0.2)


@given(
    noise_std=st.floats(0, 10),
    noise_layers=st.one_of(st.integers(1, 12), st.sets(st.integers(0, 11), min_size=1).map(tuple)),
    num_masks=st.integers(1, 5),
    masking=st.sampled_from(["gradient", "random", "none"]),
    two_step=st.booleans(),
    stop_confidence=st.floats(0.01, 0.99),
    mask_token=st.one_of(st.none(), st.text()),
)
def test_settings_of_the_method_survive_json(**settings):
    config = RsmiConfig(**settings)
    assert RsmiConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@given(
    epochs=st.integers(1, 100),
    learning_rate=st.floats(1e-9, 1),
    batch_size=st.sampled_from([4, 8]),
    micro_batch_size=st.sampled_from([None, 1, 2, 4]),
    method=st.sampled_from(["rsmi", "finetune"]),
    embedding_step=st.one_of(st.just(0), st.floats(0, 10)),
)
def test_settings_of_training_survive_json(**settings):
    config = TrainConfig(**settings)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        RsmiConfig().noise_std = 0.3


def test_whole_numbers_are_numbers():
    assert RsmiConfig(noise_std=1).noise_std == 1
    assert TrainConfig(learning_rate=1).learning_rate == 1


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_changes_only_its_own_fields(name):
    config = RsmiConfig(num_masks=3, max_length=99, second_votes=7).as_variant(name)
    assert (config.num_masks, config.max_length, config.second_votes) == (3, 99, 7)
    assert all(getattr(RsmiConfig.variant(name), field) == value for field, value in VARIANTS[name].items())
    assert RsmiConfig.variant(name, num_candidates=9).num_candidates == 9


def test_an_unknown_variant_is_refused():
    with pytest.raises(ConfigError, match="no-mask"):
        RsmiConfig.variant("nomask")


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_counts_noise_in_spreads_and_gives_way_to_what_is_asked(name):
    config = RsmiConfig.profile(name)
    assert config.noise_unit == "spread"
    assert all(getattr(config, field) == value for field, value in PROFILES[name].items())
    assert RsmiConfig.profile(name, max_length=99, noise_std=0.3) == replace(config, max_length=99, noise_std=0.3)


def test_profiles_are_those_that_the_benchmark_chose():
    chosen = json.loads((ROOT / "results" / "profiles" / "profiles.json").read_text(encoding="utf-8"))["profiles"]
    assert list(chosen) == list(PROFILES)
    assert {name: RsmiConfig(**own) for name, own in chosen.items()} == {
        name: RsmiConfig.profile(name) for name in PROFILES
    }


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match=r"fast, balanced, robust.*did you mean 'balanced'"):
        RsmiConfig.profile("balance")


def test_the_defaults_are_the_papers():
    config = RsmiConfig()
    assert (config.first_votes, config.second_votes, config.stop_confidence) == (5, 50, 0.98)
    assert (config.saliency_samples, config.num_masks, config.noise_std, config.noise_layers) == (1, 2, 0.2, 3)
    assert (TrainConfig().embedding_step, TrainConfig().max_grad_norm, TrainConfig().weight_decay) == (1.0, 1.0, 0.0)


def test_nested_names_are_sorted_by_owner():
    assert by_owner({"config__a": 1, "seed": 2}, ("config",)) == {"config": {"a": 1}}
    with pytest.raises(ConfigError, match=r"config__\.\.\."):
        by_owner({"other__a": 1}, ("config",))


@pytest.mark.parametrize("kind", [RsmiConfig, TrainConfig])
def test_every_field_is_explained(kind):
    import inspect

    source = inspect.getsource(kind)
    for field in fields(kind):
        after = source.split(f"    {field.name}: ", 1)[1].split("\n", 1)[1].lstrip()
        assert after.startswith('"""'), field.name
