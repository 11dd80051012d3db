from __future__ import annotations

import gzip

import numpy as np
import pytest

from rsmi.errors import ConfigError, DataError, MissingResourceError
from rsmi.resources.vector_files import make_table, read_vectors
from rsmi.resources.vectors import BUILT, NEIGHBOURS, WordVectors, fetch_vectors, store_vectors

WORDS = ["good", "great", "bad", "film"]
ROWS = [[3.0, 0.0, 4.0], [3.0, 0.1, 4.0], [-3.0, 0.0, -4.0], [0.0, 1.0, 0.0]]


def text_of(words=WORDS, rows=ROWS):
    return "".join(" ".join([word, *map(str, row)]) + "\n" for word, row in zip(words, rows, strict=True))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "counter-fitted-vectors.txt"
    path.write_text(text_of(), encoding="utf-8")
    return path


def test_a_text_file_becomes_unit_rows_with_neighbours(cache, file):
    vectors = WordVectors.open(file)
    assert vectors.words == tuple(WORDS)
    assert np.allclose(vectors.vectors[0], [0.6, 0.0, 0.8])
    assert np.allclose(np.linalg.norm(vectors.vectors, axis=1), 1)
    assert [word for word, _ in vectors.neighbours("good")] == ["great", "film", "bad"]
    assert vectors.neighbours("good", 1)[0] == ("great", pytest.approx(5 / np.sqrt(25.01), abs=1e-6))
    assert vectors.neighbours("bad", 2)[0][0] == "film"
    assert (len(vectors), "good" in vectors, "Good" in vectors) == (4, True, False)
    assert vectors.name == "counter-fitted-vectors.txt"


def test_cosines_are_those_of_the_vectors_and_none_for_unknown_words(cache, file):
    vectors = WordVectors.open(file)
    assert vectors.cosine("good", "bad") == pytest.approx(-1)
    assert vectors.cosine("good", "film") == pytest.approx(0)
    assert vectors.cosine("good", "none") is None
    assert vectors.cosine("none", "good") is None
    assert vectors.similarities("bad", ["good", "none", "bad"]) == [pytest.approx(-1), None, pytest.approx(1)]
    assert vectors.similarities("none", ["good"]) == [None]
    assert vectors.similarities("good", []) == []
    assert vectors.neighbours("none") == []


def test_neighbours_are_the_nearest_by_euclidean_distance_as_in_textattack(cache, tmp_path):
    rows = np.random.default_rng(0).standard_normal((80, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    words = [f"w{i}" for i in range(80)]
    np.savez(tmp_path / "v.npz", words=words, vectors=rows)
    vectors = WordVectors.open(tmp_path / "v.npz")
    for i, word in enumerate(words):
        order = np.argsort(np.linalg.norm(rows - rows[i], axis=1))[1 : NEIGHBOURS + 1]
        assert [other for other, _ in vectors.neighbours(word)] == [words[k] for k in order]


@pytest.mark.parametrize("count", [-1, NEIGHBOURS + 1])
def test_more_neighbours_than_are_kept_are_refused(cache, file, count):
    with pytest.raises(ConfigError, match="expected 0 to 50 neighbours"):
        WordVectors.open(file).neighbours("good", count)


def test_text_npz_gzip_and_a_header_give_the_same_vectors(cache, file, tmp_path):
    np.savez(tmp_path / "v.npz", words=WORDS, vectors=np.array(ROWS, dtype=np.float32))
    with gzip.open(tmp_path / "v.txt.gz", "wt") as packed:
        packed.write(text_of())
    (tmp_path / "header.txt").write_text("4 3\n" + text_of())
    (tmp_path / "crlf.txt").write_text(text_of().replace("\n", "\r\n"), newline="")
    names = (file.name, "v.npz", "v.txt.gz", "header.txt", "crlf.txt")
    assert len({WordVectors.open(tmp_path / name).fingerprint for name in names}) == 1


def test_half_precision_is_read(tmp_path):
    np.savez(tmp_path / "v.npz", words=WORDS, vectors=np.array(ROWS, dtype=np.float16))
    assert read_vectors(tmp_path / "v.npz").vectors.dtype == np.float32


def test_a_file_is_parsed_once(cache, file, monkeypatch):
    first = WordVectors.open(file)

    def fail(path):
        raise AssertionError(f"{path} was parsed again")

    monkeypatch.setattr("rsmi.resources.vectors.read_vectors", fail)
    again = WordVectors.open(str(file))
    assert again.fingerprint == first.fingerprint
    assert again.neighbours("film") == first.neighbours("film")


def test_a_changed_file_is_another_one(cache, file):
    first = WordVectors.open(file)
    file.write_text(text_of().replace("3.0", "2.0"))
    assert WordVectors.open(file).fingerprint != first.fingerprint


def test_vectors_stay_on_disk_until_they_are_used(cache, file):
    assert isinstance(WordVectors.open(file).vectors.base, np.memmap)


def test_the_variable_comes_first_then_the_fetched_file_then_the_built_ones(cache, file, tmp_path, monkeypatch):
    with pytest.raises(MissingResourceError, match=r"got none; run: rsmi resources build vectors"):
        WordVectors.open()
    table = make_table(["one", "two"], np.eye(2), "here, word")
    store_vectors(BUILT, table, "built", "built here")
    assert WordVectors.open().name == "built"
    fetch_vectors(file)
    assert WordVectors.open().words == tuple(WORDS)
    file.unlink()
    assert WordVectors.open().words == tuple(WORDS)
    own = tmp_path / "own.txt"
    own.write_text("a 1 0\nb 0 1\n")
    monkeypatch.setenv("RSMI_COUNTERFITTED", str(own))
    assert WordVectors.open().words == ("a", "b")
    assert WordVectors.open_built().words == ("one", "two")


def test_a_variable_that_names_no_file_is_an_error(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("RSMI_COUNTERFITTED", str(tmp_path / "none.txt"))
    with pytest.raises(DataError, match=r"none\.txt: expected a file of word vectors, got no such file"):
        WordVectors.open()


@pytest.mark.parametrize("name", ["words.txt", "vectors.npy", "neighbours.npy", "cosines.npy"])
def test_a_cache_cut_short_is_named_with_the_command(cache, file, name):
    entry = next(iter(fetch_vectors(file) and [folder for folder in cache.iterdir() if (folder / name).exists()]))
    (entry / name).write_bytes((entry / name).read_bytes()[:-5])
    message = rf"{name}: expected \d+ bytes .*cut short; run: rsmi resources fetch vectors --from {file}$"
    with pytest.raises(DataError, match=message):
        WordVectors.open()
    assert fetch_vectors(file).words == tuple(WORDS)  # the command repairs it
    assert WordVectors.open().words == tuple(WORDS)


def test_built_vectors_cut_short_name_their_own_command(cache):
    store_vectors(BUILT, make_table(["one", "two"], np.eye(2), "here, word"), "built", "built here")
    (cache / BUILT / "vectors.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"vectors\.npy: .*cut short; run: rsmi resources build vectors$"):
        WordVectors.open()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("good 1 2 3\ngreat 1 2\n", r"line 2 \('great'\): expected 3 numbers .*got 2: the line was cut short"),
        ("good 1 2 3\ngreat 1 2 3 4\n", r"line 2 \('great'\): expected 3 numbers .*got 4"),
        ("good 1 2 3\ngre", "line 2: expected a word and its numbers, got 'gre'"),
        ("good 1 2 3\n\nbad 1 2 3\n", "line 2: expected a word and its numbers, got ''"),
        ("good 1 2 3\ngreat 1 x 3\n", r"line 2 \('great'\): expected numbers after the word, got .*'x'"),
        ("good 1 2 3\ngreat 1 nan 3\n", r"line 2 \('great'\): expected finite numbers, got NaN or infinity"),
        ("good 1 2 3\ngreat 1 inf 3\n", r"line 2 \('great'\): expected finite numbers, got NaN or infinity"),
        ("good 1 2 3\ngreat 0 0 0\n", r"line 2 \('great'\): expected finite numbers, got only zeros"),
        ("2 3\ngood 1 2 3\ngreat 0 0 0\n", r"line 3 \('great'\): expected finite numbers, got only zeros"),
        ("good 1 2 3\ngood 3 2 1\n", "line 2: expected each word once, got 'good' again"),
        ("", "expected a word and its numbers on each line, got an empty file"),
        ("2 3\n", "expected a word and its numbers on each line, got an empty file"),
    ],
)
def test_broken_text_files_name_the_line_and_the_way_out(cache, tmp_path, content, message):
    path = tmp_path / "v.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"v\.txt.*{message}.*run: rsmi resources build vectors$"):
        WordVectors.open(path)
    assert not cache.exists()


def test_bytes_that_are_no_text_name_the_line(cache, tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(b"good 1 2\nb\xffd 3 4\n")
    with pytest.raises(DataError, match=r"v\.txt, line 2: expected UTF-8, got the byte 0xff"):
        WordVectors.open(path)


def test_gzip_cut_short_is_named(cache, tmp_path):
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(text_of().encode() * 50)[:-20])
    with pytest.raises(DataError, match=r"v\.txt\.gz, line \d+: the gzip data end too early"):
        WordVectors.open(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"vocab": WORDS, "vectors": ROWS}, "expected the arrays words and vectors, got vectors, vocab"),
        ({"words": WORDS[:3], "vectors": ROWS}, "expected as many vectors as words, got 3 words and .*shape 4x3"),
        ({"words": WORDS, "vectors": ROWS[0]}, "expected as many vectors as words, got 4 words and .*shape 3"),
        ({"words": [], "vectors": np.zeros((0, 3))}, "expected words as strings"),
        ({"words": [1, 2, 3, 4], "vectors": ROWS}, "expected words as strings and vectors as numbers, got int64"),
        ({"words": WORDS, "vectors": [WORDS] * 4}, "expected words as strings and vectors as numbers, got <U5 and <U5"),
        ({"words": WORDS, "vectors": np.full((4, 3), np.nan)}, r"word 1 \('good'\): expected finite numbers, got NaN"),
        ({"words": ["a", "b", "a", "c"], "vectors": ROWS}, "word 3: expected each word once, got 'a' again"),
        ({"words": ["a", "b", "", "c"], "vectors": ROWS}, "word 3: expected each word once, got '' again or no word"),
        ({"words": ["a", "b", "x\ny", "c"], "vectors": ROWS}, "word 3: expected each word once"),
    ],
)
def test_broken_npz_files_are_named(cache, tmp_path, arrays, message):
    path = tmp_path / "v.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=rf"v\.npz.*{message}.*run: rsmi resources build vectors$"):
        WordVectors.open(path)


def test_damaged_and_pickled_npz_files_are_refused(cache, tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, words=WORDS, vectors=ROWS)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"v\.npz: expected a \.npz file, got a damaged one"):
        WordVectors.open(path)
    np.savez(path, words=np.array([{"a": 1}], dtype=object), vectors=np.ones((1, 2)))
    with pytest.raises(DataError, match=r"v\.npz: expected a \.npz file, got a damaged one \(Object arrays cannot"):
        WordVectors.open(path)


def test_one_word_is_not_enough(cache, tmp_path):
    (tmp_path / "v.txt").write_text("one 1 2\n")
    with pytest.raises(DataError, match="expected at least two words, got 1"):
        WordVectors.open(tmp_path / "v.txt")
