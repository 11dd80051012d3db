"""Records -> numbers."""

import json
import math
from dataclasses import replace

import pytest

from rsmi.errors import InputError
from rsmi.evaluation.robustness import Robustness, Share
from toy import FAILED

FOOLED = replace(FAILED, outcome="succeeded", num_words=4, words_changed=1, queries=20, fresh_draws=4, fresh_flips=3)
SKIPPED = replace(FAILED, outcome="skipped", queries=1)


def test_numbers_follow_their_definitions() -> None:
    result = Robustness.of([FAILED, FOOLED, replace(FOOLED, words_changed=3, fresh_flips=2), SKIPPED, SKIPPED])
    assert (result.accuracy.count, result.accuracy.total) == (3, 5)
    assert (result.robust_accuracy.count, result.robust_accuracy.total) == (1, 5)
    assert (result.attack_success.count, result.attack_success.total) == (2, 3)
    assert result.queries == pytest.approx(50 / 3)  # skipped texts do not count
    assert result.words_changed == 0.5
    assert (result.fresh_flips.count, result.fresh_flips.total) == (5, 8)
    assert result.majority_flips == 1  # two of four draws are no majority
    assert json.loads(json.dumps(result.to_dict()))["robust_accuracy"]["value"] == 0.2


def test_intervals_are_those_of_the_design_notes() -> None:
    assert str(Share(count=63, total=100)) == "63.0 [53.2, 71.8]"


def test_nothing_attacked_gives_no_number() -> None:
    result = Robustness.of([SKIPPED])
    assert math.isnan(result.attack_success.value)
    assert math.isnan(result.queries)
    assert result.to_dict()["queries"] is None
    with pytest.raises(InputError, match="at least one record"):
        Robustness.of([])
