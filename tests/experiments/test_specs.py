"""Specs: names, order, and what needs what."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from rsmi.errors import ConfigError
from rsmi.experiments import grids
from rsmi.experiments.items import ITEMS, items_of
from rsmi.experiments.running import steps_of
from rsmi.experiments.scale import Scale
from rsmi.experiments.scales import PAPER, SCALES, SMALL
from rsmi.experiments.specs import Attacked, Measured, Trained, augmenting, changes, needs, rests_on, variant


@pytest.mark.parametrize("scale", [SMALL, PAPER], ids=lambda scale: scale.name)
def test_every_step_has_a_name_of_its_own_that_a_file_system_takes(scale: Scale) -> None:
    steps = steps_of(items_of("all"), scale)
    names = [(type(step).__name__, step.name) for step in steps]
    assert len(set(names)) == len(steps)
    assert all(len(name) < 200 and "/" not in name for _, name in names)


@pytest.mark.parametrize("scale", [SMALL, PAPER], ids=lambda scale: scale.name)
@pytest.mark.parametrize("item", ITEMS)
def test_a_step_comes_after_what_it_needs(item: str, scale: Scale) -> None:
    steps = steps_of(items_of(item), scale)
    for place, step in enumerate(steps):
        assert set(needs(step)) <= set(steps[:place])


def test_a_model_is_trained_once_whatever_number_of_tables_needs_it() -> None:
    steps = steps_of(items_of("all"), SMALL)
    own = Trained(encoder="bert-base", data="imdb")
    assert sum(step == own for step in steps) == 1
    assert sum(isinstance(step, Attacked) and step.model == own for step in steps) >= 3


@pytest.mark.parametrize("scale", [SMALL, PAPER], ids=lambda scale: scale.name)
def test_all_that_a_model_is_attacked_for_is_done_before_the_next_is_trained(scale: Scale) -> None:
    used = [step if isinstance(step, Trained) else step.model for step in steps_of(items_of("all"), scale)
            if not isinstance(step, Measured)]  # fmt: skip
    changes_of_model = sum(first != second for first, second in pairwise(used))
    assert changes_of_model == len(set(used)) - 1


@pytest.mark.parametrize("scale", [SMALL, PAPER], ids=lambda scale: scale.name)
def test_as_many_copies_as_usual_are_the_cell_of_table_1(scale: Scale) -> None:
    encoder = scale.compared[0]
    first, *fewer, most = grids.copied(scale, encoder, two_step=True)
    assert (most,) == grids.cells(encoder, "ag_news", "rsmi", "textfooler", (0,))
    once, *more = grids.copied(scale, encoder, two_step=False)
    assert first == once  # a single copy has nobody to disagree with
    assert len({*fewer, most, once, *more}) == 2 * len(scale.counts) - 1


def test_advaug_needs_an_attack_on_training_texts_of_the_fine_tuned_model() -> None:
    model = Trained(encoder="bert-base", data="imdb", method="advaug", seed=2)
    (attack,) = needs(model)
    assert attack == augmenting(model)
    assert needs(attack) == (Trained(encoder="bert-base", data="imdb", method="finetune", seed=2),)
    assert SMALL.job(augmenting(model), Path("m")).split == "train"


def test_settings_are_chosen_on_dev_texts() -> None:
    model = Trained(encoder="bert-base", data="imdb")
    chosen, tested = Attacked(model=model, purpose="choose"), Attacked(model=model)
    assert [SMALL.job(cell, Path("m")).split for cell in (chosen, tested)] == ["dev", "test"]
    assert chosen.name == f"{tested.name}.choose"
    measured = [Measured(what="accuracy", models=(model,), split=split) for split in ("dev", "test")]
    assert measured[0].name == f"{measured[1].name}.dev"


def test_what_rests_on_a_model_goes_all_the_way() -> None:
    victim = Trained(encoder="bert-base", data="imdb", method="finetune")
    added = Trained(encoder="bert-base", data="imdb", method="advaug")
    assert rests_on(Attacked(model=added), victim)
    assert not rests_on(Attacked(model=victim), added)
    assert not rests_on(victim, victim)


def test_names_tell_the_variant_that_fits_best() -> None:
    model = Trained(encoder="bert-base", data="imdb", changes=variant("gm", num_masks=2))
    assert model.name == "imdb-bert-base-rsmi-gm-num_masks=2"
    assert Attacked(model=model, changes=changes(masking="none")).name.endswith(".no-mask.textfooler.paper")


def test_an_unknown_item_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"table1, .*figure4; got 'table12'"):
        items_of("table12")


def test_every_item_of_the_issue_is_there() -> None:
    wanted = {f"table{number}" for number in range(1, 12)} | {"figure2", "figure3", "figure4"}
    assert set(ITEMS) == wanted
    assert set(SCALES) == {"small", "paper"}
