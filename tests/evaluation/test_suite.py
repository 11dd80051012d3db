from __future__ import annotations

import pytest

from keywords import CoinTarget, KeywordTarget
from rsmi.errors import ConfigError
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.suite import file_name, jobs_of

JOB = Job(model="runs/mine", data="mr", num=7)


class Defended(CoinTarget):
    uses_gradients = True


def names(suite: str, target: KeywordTarget) -> list[str]:
    return [file_name(job).removesuffix(".jsonl") for job in jobs_of(suite, JOB, target)]


def test_the_standard_suite_has_the_papers_attacks_and_what_a_random_model_needs():
    assert names("standard", KeywordTarget({})) == [
        "textfooler.paper", "pwws.paper", "bae.paper", "hotflip.white-box"
    ]  # fmt: skip
    extra = {"textfooler.eot-20", "textfooler.fixed-noise", "textfooler.transfer", "textfooler.persistent"}
    assert set(names("standard", Defended({}))) - set(names("standard", KeywordTarget({}))) == extra


def test_the_full_suite_has_every_protocol_that_says_something():
    full = names("full", Defended({}))
    assert len(full) == len(set(full)) == 3 * 11 + 2
    assert {f"pwws.eot-{draws}" for draws in (1, 5, 20, 50)} <= set(full)
    assert {"bae.mask-aware", "bae.vote", "hotflip.white-box", "gbda.white-box"} <= set(full)
    assert len(names("full", KeywordTarget({}))) == 3 * 2 + 2


def test_all_jobs_share_model_data_and_sample():
    assert {(job.model, job.data, job.num) for job in jobs_of("full", JOB, Defended({}))} == {("runs/mine", "mr", 7)}
    with pytest.raises(ConfigError, match="suite: expected one of standard, full; got 'huge'"):
        jobs_of("huge", JOB, Defended({}))
