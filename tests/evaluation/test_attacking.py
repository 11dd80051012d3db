"""Attacks written to a file: interrupted, resumed, damaged."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from keywords import KeywordTarget, TableAttack
from rsmi.data import TextDataset
from rsmi.errors import DataError
from rsmi.evaluation.attacking import attack_to_file, read_run

WORDS = {"good": ["fine", "bad"], "great": ["big"], "poor": ["low", "fine"]}
WEIGHTS = {"good": 2.0, "great": 1.0, "fine": 0.5, "bad": -2.0, "big": 0.2, "poor": -1.5}
TEXTS = ("a good film", "a great film", "a poor film", "good and great", "poor but great and good", "none")
DATA = TextDataset(
    name="toy", split="test", texts=TEXTS, labels=("pos", "pos", "neg", "pos", "pos", "pos"), source="a test"
)


def attack_all(out: Path, together: int = 2, attack: TableAttack | None = None, data: TextDataset = DATA) -> list[str]:
    target = KeywordTarget(WEIGHTS)
    records = attack_to_file(target, attack or TableAttack(WORDS), data, out, together=together, about={"model": "toy"})
    return [str(record.original) for record in records]


def test_the_file_holds_the_run_and_every_record_in_the_order_of_the_data(tmp_path: Path) -> None:
    out = tmp_path / "new" / "run.jsonl"
    assert sorted(attack_all(out)) == sorted(TEXTS)
    run, records = read_run(out)
    assert run["model"] == "toy"
    assert run["attack"] == {
        "name": "table", "max_queries": None, "fresh_draws": 20, "tries": 1, "rank_all_words": False
    }  # fmt: skip
    assert run["data"]["fingerprint"] == DATA.fingerprint
    assert [json.loads(line).get("place") for line in out.read_text().splitlines()] == [None, *range(6)]
    assert [records[place].original for place in range(6)] == list(TEXTS)
    assert {record.outcome for record in records.values()} == {"succeeded", "failed", "skipped"}


@pytest.mark.parametrize("stopped", range(7))
@pytest.mark.parametrize("cut", [0, 25])
def test_an_interrupted_run_ends_with_the_same_file(tmp_path: Path, stopped: int, cut: int) -> None:
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    attack_all(whole, together=1)
    records = attack_to_file(KeywordTarget(WEIGHTS), TableAttack(WORDS), DATA, broken, about={"model": "toy"})
    list(itertools.islice(records, stopped))
    records.close()  # type: ignore[attr-defined]
    if cut and stopped:
        broken.write_bytes(broken.read_bytes()[:-cut])  # killed in the middle of a line
    target = KeywordTarget(WEIGHTS)
    list(attack_to_file(target, TableAttack(WORDS), DATA, broken, about={"model": "toy"}))
    assert broken.read_bytes() == whole.read_bytes()
    asked = {text for call in target.calls for text in call}
    assert len(asked & set(TEXTS)) <= 6 - stopped + (1 if cut and stopped else 0)


def test_another_run_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    attack_all(out)
    before = out.read_bytes()
    with pytest.raises(DataError, match=r"run\.jsonl: holds another run \(other attack\)"):
        attack_all(out, attack=TableAttack(WORDS, max_queries=5))
    with pytest.raises(DataError, match=r"other data, num"):
        attack_all(out, data=DATA.head(3))
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (1, "{}", "line 1: expected the description of a run"),
        (3, "not json", "line 3: expected a record"),
        (2, '{"place": 0}', "line 2: expected a record"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, number: int, line: str, message: str) -> None:
    out = tmp_path / "run.jsonl"
    attack_all(out)
    lines = out.read_text().splitlines()
    lines[number - 1] = line
    out.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=message):
        attack_all(out)


def test_a_missing_file_of_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.jsonl: cannot read"):
        read_run(tmp_path / "no.jsonl")
