"""Records, outputs and machines that are not as they should be: what was done before is kept."""

from __future__ import annotations

import builtins
import errno
import importlib.util
import json
import socket
import sys

import pytest

from command import complaint
from rsmi import RsmiClassifier
from rsmi.app import exits
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.evaluation.attacking import read_run

ATTACK = ("--attack", "deepwordbug", "--num", 4, "--fresh-draws", 0)


@pytest.fixture(scope="module")
def records(model, table, tmp_path_factory):
    """A finished run of four texts, as bytes; made by the command in a process of this test."""
    from typer.testing import CliRunner

    from rsmi.app.cli import app

    out = tmp_path_factory.mktemp("records") / "run.jsonl"
    done = CliRunner().invoke(app, [str(word) for word in ("attack", model, table, *ATTACK, "--out", out)])
    assert done.exit_code == 0, done.output
    return out.read_bytes()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to work in, with a file in the way."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("years of work")
    return tmp_path


def _first_line(records, **changed):
    header = json.loads(records.splitlines()[0])["run"]
    return json.dumps({"run": {**header, **changed}}).encode() + b"\n"


def test_another_run_in_the_file_is_left_alone(run, model, table, place, records):
    out = place / "run.jsonl"
    out.write_bytes(records)
    attack = ("attack", model, table, *ATTACK, "--out", out)
    complaint(run(*attack), 1, "run.jsonl", "exists already", "--resume")
    for other in (("--seed", 3), ("--num", 5), ("--protocol", "vote"), ("--variant", "no-mask")):
        complaint(run(*attack, "--resume", *other), 1, "run.jsonl", "holds another run", "choose another file")
    certify = ("certify", model, table, "--num", 4, "--samples", 20, "--out", out, "--resume")
    complaint(run(*certify), 1, "run.jsonl", "holds another run", "choose another file")
    assert out.read_bytes() == records


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda whole: b"", ("got none", "start again")),
        (lambda whole: b"garbage\n", ("line 1", "rsmi attack")),
        (lambda whole: b"\x00\xff\n", ("line 1", "rsmi attack")),
        (lambda whole: _first_line(whole, format=9), ("format 9", "version of rsmi that wrote them")),
        (lambda whole: b'{"run": {"format": 1}}\n', ("something else", "pass another file")),
        (lambda whole: b"".join(whole.splitlines(keepends=True)[:-1]), ("1 are missing", "--resume")),
        (lambda whole: whole[:-40], ("half-written", "--resume")),
        (lambda whole: whole.replace(b'"place": 1', b'"place": '), ("line 3", "remove the line")),
    ],
    ids=["empty", "text", "binary", "other version", "other kind", "unfinished", "cut off", "broken"],
)
def test_records_that_cannot_be_read(run, model, place, records, content, said):
    (place / "run.jsonl").write_bytes(content(records))
    for words in (("report", "run.jsonl", "--out", "report.md"), ("analyse", "layers", model, "run.jsonl")):
        complaint(run(*words), 1, "run.jsonl", *said)
    assert not (place / "report.md").exists()


def test_places_where_nothing_can_be_written(run, model, table, base, place, records):
    (place / "run.jsonl").write_bytes(records)
    commands = {
        "train": ("train", table, "--base", base, "--noise-layers", 2, "--out", "a_file/new"),
        "attack": ("attack", model, table, *ATTACK, "--out", "a_file/run.jsonl"),
        "certify": ("certify", model, table, "--out", "a_file/run.jsonl"),
        "augment": ("augment", table, "--model", model, "--out", "a_file/added.jsonl"),
        "gate": ("gate", model, table, *ATTACK, "--min-accuracy", 0, "--report", "a_file/report.md"),
        "report": ("report", "run.jsonl", "--out", "a_file/report.md"),
        "figures": ("report", "run.jsonl", "--figures", "a_file"),
        "demo": ("demo", "--out", "a_file/demo"),
        "score": ("predict", model, "--file", table, "--prefix", "p_", "--out", "a_file/scored.csv"),
        "copies": ("analyse", "copies", model, table, "--attack", "deepwordbug", "--num", 2, "--out", "a_file/copies"),
        "suite": ("evaluate", model, table, "--suite", "standard", "--num", 2, "--out", "a_file/suite"),
        "reproduce": ("reproduce", "table1", "--out", "a_file"),
    }
    for name, words in commands.items():
        message = complaint(run(*words), 1, "a_file")
        assert "a_file" in message, name
    assert (place / "a_file").read_text() == "years of work"
    (place / "folder").mkdir()
    complaint(run("attack", model, table, *ATTACK, "--out", "folder"), 1, "got a folder", "folder/run.jsonl")
    complaint(run("train", table, "--base", base, "--out", "."), 1, "expected a new or empty folder", "choose another")
    augment = ("augment", table, "--model", model, "--attack", "deepwordbug", "--out", table)
    complaint(run(*augment), 1, str(table), "something else", "choose another file")


def test_a_place_without_permission(run, model, table, place, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", "/root/run.jsonl")

    monkeypatch.setattr(exits, "TemporaryFile", denied)
    ended = run("attack", model, table, *ATTACK, "--out", "run.jsonl")
    complaint(ended, 1, "run.jsonl", "Permission denied", "choose a place that you may write to")


def test_a_full_disk_keeps_the_records_written_before(run, model, table, place, monkeypatch):
    search, attacked = DeepWordBug.search, []

    def full(self, *args, **kwargs):
        attacked.append(1)
        if len(attacked) > 2:
            raise OSError(errno.ENOSPC, "No space left on device", "run.jsonl")
        return (yield from search(self, *args, **kwargs))

    attack = ("attack", model, table, *ATTACK, "--num", 12, "--together", 1, "--out", "run.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(DeepWordBug, "search", full)
        complaint(run(*attack), 1, "run.jsonl", "No space left", "make room", "--resume")
    assert 2 <= len(read_run("run.jsonl")[1]) < 12
    assert run(*attack, "--resume")[0] == 0
    assert len(read_run("run.jsonl")[1]) == 12


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")])
def test_too_little_memory(run, model, monkeypatch, error):
    def empty(*args, **kwargs):
        raise error

    monkeypatch.setattr(RsmiClassifier, "explain_iter", empty)
    complaint(run("predict", model, "good"), 1, "memory", "--token-budget")


def test_an_error_that_is_ours_is_not_hidden(run, model, monkeypatch):
    def wrong(*args, **kwargs):
        raise RuntimeError("a mistake in the library")

    monkeypatch.setattr(RsmiClassifier, "explain_iter", wrong)
    with pytest.raises(RuntimeError, match="a mistake in the library"):
        run("predict", model, "good")


def test_an_endpoint_that_cannot_be_reached(run, table, place):
    words = (*ATTACK, "--classes", "neg,pos", "--retries", 0, "--timeout", 2, "--out", "run.jsonl")
    for seed in (0, 1):  # the second try is not in the way of the first, which came to nothing
        ended = run("attack", "http://127.0.0.1:9/", table, *words, "--seed", seed)
        complaint(ended, 1, "http://127.0.0.1:9/", "check the address")


def test_a_port_in_use(run, model):
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint(run("serve", model, "--port", port), 1, f"port {port}", "choose another --host or --port")


def test_extras_that_are_not_installed(run, model, table, base, place, records, monkeypatch):
    find_spec, found = importlib.util.find_spec, builtins.__import__
    blocked = ("fastapi", "uvicorn", "matplotlib", "peft", "ray")

    def missing(name, *args, **kwargs):
        return None if name.split(".")[0] in blocked else find_spec(name, *args, **kwargs)

    def refused(name, *args, **kwargs):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, *args, **kwargs)

    (place / "run.jsonl").write_bytes(records)
    for name in [name for name in sys.modules if name.split(".")[0] in blocked]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("rsmi.app.serve.find_spec", missing)
    monkeypatch.setattr(builtins, "__import__", refused)
    complaint(run("serve", model), 1, "fastapi", "pip install 'rsmi[serve]'")
    complaint(run("report", "run.jsonl", "--figures", "figures"), 1, "matplotlib", "pip install", "rsmi[report]")
    complaint(
        run("attack", model, table, *ATTACK, "--out", "r", "--cluster", "auto"), 1, "pip install", "rsmi[cluster]"
    )
    lora = ("train", table, "--base", base, "--noise-layers", 2, "--lora-rank", 2, "--out", "new")
    complaint(run(*lora), 1, "peft", "rsmi[lora]")
