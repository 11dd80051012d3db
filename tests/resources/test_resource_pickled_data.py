from __future__ import annotations

import pickle
from collections import OrderedDict

import pytest

from rsmi.errors import DataError
from rsmi.resources.pickled_data import read_pickled_data

SHARED = ["shared"]
PLAIN = ({"the": {"DT": 1.5, "NN": -2}, "empty": {}}, {"a": "b"}, {"x", "y"})


@pytest.mark.parametrize("value", [PLAIN, [1, 2.5, "three"], (SHARED, SHARED), {"one": 1}, (), ("a", "b")])
def test_plain_data_are_read_as_pickle_reads_them(value):
    assert read_pickled_data(pickle.dumps(value, protocol=2), "here") == value


class Call:
    def __reduce__(self):
        return (print, ("called",))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Call(), protocol=2),
        pickle.dumps(OrderedDict(a=1), protocol=2),
        pickle.dumps(print, protocol=2),
        pickle.dumps(Call(), protocol=4),
        pickle.dumps(frozenset("a"), protocol=2),
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
    ],
)
def test_anything_that_names_code_is_refused(content, capsys):
    with pytest.raises(DataError, match=r"here: expected a pickle of plain data, got '\w+.*at byte \d+$"):
        read_pickled_data(content, "here")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("length", [0, 1, 10, 60, 100])
def test_a_file_cut_short_is_refused(length):
    content = pickle.dumps(PLAIN, protocol=2)
    assert length < len(content)
    with pytest.raises(DataError, match="here: expected a pickle of plain data"):
        read_pickled_data(content[:length], "here")


def test_a_set_of_something_that_was_not_pickled_as_one_is_refused():
    with pytest.raises(DataError):
        read_pickled_data(b"\x80\x02c__builtin__\nset\nX\x01\x00\x00\x00aR.", "here")
