"""Reproductions on tiny models: every step runs, once, and an interrupted run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rsmi.config import Method
from rsmi.errors import DataError
from rsmi.experiments import running
from rsmi.experiments.items import ITEMS, items_of
from rsmi.experiments.page import judged_items, write_page
from rsmi.experiments.results import Results
from rsmi.experiments.running import Progress, open_steps, reproduce, steps_of
from rsmi.experiments.scale import Scale
from rsmi.experiments.scales import PAPER, SMALL, smoke
from rsmi.experiments.specs import Attacked, Trained, augmenting
from rsmi.experiments.tiny import write_data, write_models

Make = Callable[..., tuple[Results, Path]]
METHODS: tuple[Method, ...] = ("advaug", "finetune")


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scale], Scale]:
    folder = tmp_path_factory.mktemp("smoke")
    models = write_models(folder / "bases", tuple(PAPER.encoders))
    data = write_data(folder / "data")
    return lambda scale: smoke(scale, models, data)


@pytest.fixture
def make(bases: Callable[[Scale], Scale], tmp_path: Path) -> Make:
    def results(scale: Scale = SMALL, folder: str = "results") -> tuple[Results, Path]:
        return Results(bases(scale), tmp_path / folder), tmp_path / f"{folder}-models"

    return results


def run_all(item: str, made: tuple[Results, Path], **more: Any) -> list[Progress]:
    told: list[Progress] = []
    reproduce(items_of(item), made[0], made[1], tell=told.append, **more)
    return told


def page_of(item: str, results: Results) -> Path:
    own = (ITEMS[item],)
    return write_page(own, results, judged_items(own, results))


@pytest.mark.parametrize("item", ["table3", "table4", "table5", "table6", "table8", "table10", "figure2", "figure4"])
def test_an_item_runs_from_nothing_to_its_page(item: str, make: Make) -> None:
    made = make()
    told = run_all(item, made)
    assert [progress.number for progress in told] == list(range(1, len(told) + 1))
    page = page_of(item, made[0]).read_text(encoding="utf-8")
    assert ITEMS[item].title in page
    assert "learning rates 0.01 (RSMI) and 0.01" in page
    assert f"{torch.get_num_threads()} of {os.cpu_count()} cores" in page
    assert (made[0].folder / f"{item}.svg").exists() is item.startswith("figure")
    verdicts = json.loads((made[0].folder / "verdicts.json").read_text(encoding="utf-8"))
    assert {own["status"] for own in verdicts[item]} <= {"reproduced", "not reproduced", "undecided"}


def test_machines_are_told_and_that_older_steps_did_not_note_theirs(make: Make) -> None:
    made = make()
    run_all("table10", made)
    first, *rest = sorted((made[0].folder / "measures").iterdir())
    values = json.loads(first.read_text(encoding="utf-8"))
    del values["machine"]
    first.write_text(json.dumps(values), encoding="utf-8")
    other = json.loads(rest[0].read_text(encoding="utf-8"))
    other["machine"] |= {"processor": "Some CPU", "devices": ["Some GPU"], "threads": 3, "cores": 7}
    rest[0].write_text(json.dumps(other), encoding="utf-8")
    page = page_of("table10", made[0]).read_text(encoding="utf-8")
    assert "Some CPU with Some GPU, 3 of 7 cores, float32 products by " in page
    assert "; of 1 others it was not noted." in page


def test_table_1_runs_with_every_baseline_at_the_papers_scale(make: Make) -> None:
    """One encoder and one seed of the grid that a machine with GPUs runs; AdvAug attacks its own victim first."""
    results, models = make(PAPER)
    made = (Results(replace(results.scale, compared=("bert-base",), seeds=(0,)), results.folder), models)
    told = run_all("table1", made)
    names = [progress.step.name for progress in told]
    victim, attack = "imdb-bert-base-finetune", "imdb-bert-base-finetune.textfooler.paper.augment"
    assert names.index(victim) < names.index(attack) < names.index("imdb-bert-base-advaug")
    added = made[0].trained(Trained(encoder="bert-base", data="imdb", method="advaug"))["added_texts"]
    assert added == sum(
        record.outcome == "succeeded"
        for record in made[0].run(next(p.step for p in told if p.step.name == attack)).records  # type: ignore[arg-type]
    )
    table, again = ITEMS["table1"].tables(made[0])
    rows = table.groups[0][1]
    assert [row[0].text for row in rows][-1] == "RSMI"
    assert "(56.4)" in rows[-1][2].interval  # the paper's RAcc under TextFooler stands beside ours
    random = {row[0].text: row for row in again.groups[0][1]}
    assert list(random) == ["SAFER", "RSMI-NoMask", "RSMI"]
    for row in rows[-2:]:  # what fools on few draws only does not count
        assert float(random[row[0].text][4].text) >= float(row[2].text)


def test_advaug_with_nothing_to_add_is_plain_fine_tuning(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    made = make()
    cell = augmenting(Trained(encoder="bert-base", data="imdb", method="advaug"))
    reproduce((replace(ITEMS["table11"], steps=lambda _scale: (cell,)),), *made)
    file = made[0].file_of(cell)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for record in lines[1:]:
        record.update(outcome="failed") if record["outcome"] == "succeeded" else None
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run_all("table11", made)
    models = [Trained(encoder="bert-base", data="imdb", method=method) for method in METHODS]
    added, plain = (made[0].trained(model) for model in models)
    assert "imdb-bert-base-advaug: none of 24 attacked texts fooled the victim" in caplog.text
    assert added["added_texts"] == 0
    assert added["fingerprint"] == plain["fingerprint"]
    assert "imdb | 24 | 0 (9,583)" in page_of("table11", made[0]).read_text(encoding="utf-8")


def test_the_other_families_train_and_are_attacked(make: Make) -> None:
    made = make()
    told = run_all("table2", made)
    assert {p.step.encoder for p in told if isinstance(p.step, Trained)} == {"roberta-base", "t5-large"}
    assert page_of("table2", made[0]).exists()


class Stop(Exception):
    pass


def test_an_interrupted_run_goes_on_and_ends_with_the_same_records(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = make(folder="whole"), make(folder="broken")
    run_all("figure3", whole)
    done: list[str] = []
    do = running._do

    def failing(step: Any, *rest: Any) -> None:
        if len(done) in (1, 3):
            done.append("stop")
            raise Stop
        do(step, *rest)
        done.append(step.name)

    monkeypatch.setattr(running, "_do", failing)
    for _ in range(2):
        with pytest.raises(Stop):
            run_all("figure3", broken)
    run_all("figure3", broken)
    names = [name for name in done if name != "stop"]
    assert len(names) == len(set(names)) == len(steps_of(items_of("figure3"), broken[0].scale))
    for file in sorted((whole[0].folder / "records").iterdir()):
        paths = (file, broken[0].folder / "records" / file.name)
        lines = [path.read_text(encoding="utf-8").splitlines()[1:] for path in paths]
        assert lines[0] == lines[1]
    assert run_all("figure3", broken) == []


def test_a_half_written_run_of_records_is_finished(make: Make) -> None:
    made = make()
    run_all("figure3", made)
    cell = next(step for step in steps_of(items_of("figure3"), made[0].scale) if isinstance(step, Attacked))
    file = made[0].file_of(cell)
    before = file.read_text(encoding="utf-8")
    file.write_text(before[: len(before) - 40], encoding="utf-8")
    assert [progress.step for progress in run_all("figure3", made)] == [cell]
    assert file.read_text(encoding="utf-8") == before


def test_weights_are_not_needed_where_all_records_are_there(make: Make) -> None:
    import shutil

    made = make()
    run_all("figure3", made)
    shutil.rmtree(made[1])
    assert open_steps(steps_of(items_of("figure3"), made[0].scale), *made) == []
    assert run_all("figure3", made) == []


def test_records_of_other_weights_are_set_aside_and_made_again(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """As on another machine: weights are gone, one attack is left, and training ends elsewhere."""
    import shutil

    made = make()
    run_all("table3", made)
    first, second, *_ = (step for step in steps_of(items_of("table3"), made[0].scale) if isinstance(step, Trained))
    file = made[0].file_of(first)
    file.write_text(json.dumps({**made[0].trained(first), "fingerprint": "of another machine"}), encoding="utf-8")
    shutil.rmtree(made[1])
    resting = [step for step in steps_of(items_of("table3"), made[0].scale) if first in running.needs(step)]
    before = {step: made[0].file_of(step).read_text(encoding="utf-8") for step in resting}
    made[0].file_of(resting[0]).unlink()
    told = [progress.step for progress in run_all("table3", made)]
    assert told == [first, *resting]
    assert second not in told
    aside = made[0].folder / "aside" / "1"
    assert f"is in {aside} now" in caplog.text
    moved = {path.name: path.read_text(encoding="utf-8") for path in aside.rglob("*.jsonl")}
    assert moved == {made[0].file_of(step).name: before[step] for step in resting[1:]}
    assert {step: made[0].file_of(step).read_text(encoding="utf-8") for step in resting} == before


def test_a_folder_of_another_scale_is_refused(make: Make) -> None:
    made = make()
    made[0].check_scale()
    with pytest.raises(DataError, match=r"another scale \(other num\)"):
        Results(replace(made[0].scale, num=3), made[0].folder).check_scale()


def test_time_left_is_told_once_something_was_timed(make: Make) -> None:
    told = run_all("figure3", make())
    assert told[0].seconds_left is None
    assert all(progress.seconds_left is not None and progress.seconds_left > 0 for progress in told[1:])


def test_time_left_follows_the_last_steps_of_a_kind_and_else_those_most_like_it() -> None:
    spent = {
        "bae on rsmi": [(1.0, 90.0), *[(1.0, 2.0)] * 5],  # the first one was done by another machine
        "pwws on finetune": [(1.0, 30.0)],
        "train rsmi": [(1.0, 7.0)],
    }
    assert running._rate("bae on rsmi", spent) == 2.0
    assert running._rate("textfooler on safer", spent) == 2.0  # random, too
    assert running._rate("bae on freelb", spent) == 30.0
    assert running._rate("train freelb", spent) == 7.0
    assert running._rate("stability", spent) == pytest.approx(47 / 7)  # like none of them


def test_what_another_process_is_at_is_left_to_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first steps are held elsewhere: the others are done meanwhile, those only when they are let go undone."""
    from contextlib import ExitStack

    from rsmi.scoring.lock import only_run

    made, elsewhere = make(), ExitStack()
    first, *_ = steps_of(items_of("table3"), made[0].scale)
    elsewhere.enter_context(only_run(made[0].file_of(first)))
    monkeypatch.setattr(running, "_WAIT", 0.01)
    sleep = running.time.sleep

    def let_go(seconds: float) -> None:  # nothing else is left
        elsewhere.close()
        sleep(seconds)

    monkeypatch.setattr(running.time, "sleep", let_go)
    told = [progress.step for progress in run_all("table3", made)]
    assert set(told) == set(steps_of(items_of("table3"), made[0].scale))
    assert len(told) == len(set(told))
    needing = [told.index(step) for step in told if first in running.needs(step)]
    assert told[0] != first
    assert max(needing) > told.index(first) > len(told) // 2 - 1
    assert not list(made[0].folder.rglob("*.lock"))


_SHARING = """
import json, sys
from pathlib import Path
import torch
from rsmi.experiments.items import items_of
from rsmi.experiments.results import Results
from rsmi.experiments.running import reproduce
from rsmi.experiments.scales import SMALL, smoke
torch.set_num_threads(int(sys.argv[3]))
scale, folder = smoke(SMALL, *json.loads(sys.argv[1])), Path(sys.argv[2])
tell = lambda progress: print(progress.step.name, flush=True)
reproduce(items_of("table3"), Results(scale, folder), folder / "weights", tell=tell)
"""


def test_processes_with_the_same_folders_share_the_work(make: Make, tmp_path: Path) -> None:
    alone, folder = make(), tmp_path / "shared"
    scale = alone[0].scale
    given = json.dumps([{role: own.base for role, own in scale.encoders.items()}, dict(scale.sources)])
    threads = str(torch.get_num_threads())  # with another number the last digits of weights differ
    command = [sys.executable, "-c", _SHARING, given, str(folder), threads]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=300)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(told[0] + told[1]) == sorted(step.name for step in steps_of(items_of("table3"), scale))
    run_all("table3", alone)
    for file in sorted((alone[0].folder / "records").iterdir()):
        lines = [path.read_text(encoding="utf-8").splitlines()[1:] for path in (file, folder / "records" / file.name)]
        assert lines[0] == lines[1]
