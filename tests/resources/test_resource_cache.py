from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rsmi.errors import DataError
from rsmi.resources.cache import cache_folder, entry_folder, has_entry, read_entry, remove_entry, write_entry


def writer(content):
    return lambda path: path.write_bytes(content)


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("RSMI_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("RSMI_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rsmi"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "rsmi"


def test_an_entry_is_read_as_it_was_written(cache):
    assert not has_entry("words")
    write_entry("words", {"a.txt": writer(b"one"), "b.txt": writer(b"two")}, {"source": "here"})
    folder, about = read_entry("words", "make it")
    assert (folder / "a.txt").read_bytes() == b"one"
    assert about == {"source": "here"}
    assert has_entry("words")
    assert folder.stat().st_mode & 0o777 == 0o755
    remove_entry("words")
    assert not has_entry("words")


def test_writing_again_replaces_the_whole_entry(cache):
    write_entry("words", {"a.txt": writer(b"one"), "b.txt": writer(b"two")}, {})
    write_entry("words", {"a.txt": writer(b"three")}, {})
    assert sorted(path.name for path in entry_folder("words").iterdir()) == ["a.txt", "manifest.json"]
    assert [path.name for path in cache.iterdir()] == ["words"]


def test_a_writer_that_fails_leaves_the_old_entry_and_no_rubbish(cache):
    write_entry("words", {"a.txt": writer(b"one")}, {})

    def fail(path):
        path.write_bytes(b"hal")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_entry("words", {"a.txt": fail}, {})
    assert (read_entry("words", "make it")[0] / "a.txt").read_bytes() == b"one"
    assert [path.name for path in cache.iterdir()] == ["words"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"on", r"got 2 bytes: the file was cut short"), (b"two", "another sha256"), (b"longer", "another sha256")],
)
def test_a_changed_file_is_named_with_the_command(cache, content, message):
    folder = write_entry("words", {"a.txt": writer(b"one")}, {})
    (folder / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.txt: expected 3 bytes .*{message}; run: make it$"):
        read_entry("words", "make it")


def test_a_missing_file_is_named_with_the_command(cache):
    folder = write_entry("words", {"a.txt": writer(b"one")}, {})
    (folder / "a.txt").unlink()
    with pytest.raises(DataError, match=r"a\.txt: expected 3 bytes, got No such file.*; run: make it$"):
        read_entry("words", "make it")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"about": {}, "files": {"a": {}}}'])
def test_a_damaged_list_of_files_is_named_with_the_command(cache, content):
    folder = write_entry("words", {"a.txt": writer(b"one")}, {})
    (folder / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json: expected the list.*; run: make it$"):
        read_entry("words", "make it")


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RSMI_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"expected a folder that can be written.*set RSMI_CACHE"):
        write_entry("words", {}, {})


def test_what_a_killed_process_left_is_removed_after_a_day(cache):
    old, new = cache / ".words.abc.part", cache / ".words.def.part"
    for folder in (old, new):
        folder.mkdir(parents=True)
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    write_entry("words", {}, {})
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("name", ["", "../words", "a/b", "A"])
def test_names_that_are_paths_are_refused(cache, name):
    with pytest.raises(ValueError, match="expected lower-case letters"):
        entry_folder(name)
