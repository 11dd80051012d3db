"""The files of a WordNet 3 database -> lemmas, synsets and irregular forms, checked against one another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rsmi.errors import DataError
from rsmi.resources.nltk_data import read_all

PARTS: Final = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
"""Parts of speech in NLTK's order, and the endings of their files."""
FILES: Final = tuple(name for part in PARTS.values() for name in (f"data.{part}", f"index.{part}", f"{part}.exc"))
"""The files that are read."""
_MARKER: Final = re.compile(rb"\([^()]*\)$")  # where an adjective may stand: "galore(ip)"


@dataclass(frozen=True, slots=True)
class Synset:
    """One meaning: the names of its lemmas and their antonyms."""

    names: tuple[str, ...]
    """Lemmas, as spelled: `Bible`, `motion_picture`."""
    antonyms: tuple[tuple[int, str, int, int], ...]
    """(place of the lemma in `names`, part of speech, offset and place of its antonym)."""
    similar: tuple[int, ...]
    """Offsets of the synsets of similar meaning; adjectives have them."""


class WordNetFiles:
    """A WordNet database in memory; synsets are parsed when they are asked for."""

    def __init__(self, place: Path, fix: str) -> None:
        """Read and check the files.

        Args:
            place: Folder, or zip archive holding one.
            fix: The command that gets sound files, for messages.

        Raises:
            DataError: If a file is missing, broken or cut short.
        """
        self.place = place
        self._fix = fix
        contents = read_all(place, FILES, fix)
        self._data: dict[str, bytes] = {}
        self._synsets: dict[tuple[str, int], Synset] = {}
        self.index: dict[str, dict[str, tuple[int, ...]]] = {}
        self.exceptions: dict[str, dict[str, tuple[str, ...]]] = {}
        for pos, part in PARTS.items():
            for name in (f"data.{part}", f"index.{part}", f"{part}.exc"):
                if not contents[name].endswith(b"\n"):
                    raise self._broken(name, "whole lines", "a file that was cut short")
            self._data[pos] = contents[f"data.{part}"]
            self.index[pos] = self._read_index(f"index.{part}", contents[f"index.{part}"])
            self.exceptions[pos] = self._read_exceptions(f"{part}.exc", contents[f"{part}.exc"])
            self._compare(pos, part)

    def synset(self, pos: str, offset: int) -> Synset:
        """Return the synset that starts at a byte of a data file; it is parsed when it is first asked for."""
        known = self._synsets.get((pos, offset))
        if known is None:
            known = self._synsets[pos, offset] = self._parse(pos, offset)
        return known

    def _parse(self, pos: str, offset: int) -> Synset:
        data = self._data[pos]
        fields = data[offset : data.find(b"\n", offset)].split(b" | ", 1)[0].split()
        try:
            if int(fields[0]) != offset:
                raise ValueError("another offset")
            count = int(fields[3], 16)
            names = tuple(_MARKER.sub(b"", fields[4 + 2 * i]).decode() for i in range(count))
            start = 5 + 2 * count
            pointers = [fields[start + 4 * i : start + 4 * i + 4] for i in range(int(fields[start - 1]))]
            antonyms = tuple(
                (int(ends[:2], 16) - 1, "a" if other == b"s" else other.decode(), int(target), int(ends[2:], 16) - 1)
                for symbol, target, other, ends in pointers
                if symbol == b"!" and ends != b"0000"
            )
            similar = tuple(int(target) for symbol, target, _, _ in pointers if symbol == b"&")
        except (ValueError, IndexError) as error:
            raise self._broken(f"data.{PARTS[pos]}", f"a synset at byte {offset}", "none") from error
        return Synset(names, antonyms, similar)

    def _read_index(self, name: str, content: bytes) -> dict[str, tuple[int, ...]]:
        index = {}
        for number, line in enumerate(content.splitlines(), 1):
            if line.startswith(b" "):  # the licence
                continue
            fields = line.split()
            try:
                count = int(fields[2])
                if count < 1 or len(fields) != 6 + int(fields[3]) + count:
                    raise ValueError("another number of fields")
                index[fields[0].decode()] = tuple(map(int, fields[-count:]))
            except (ValueError, IndexError) as error:
                raise self._broken(name, f"a lemma and its synsets on line {number}", "another line") from error
        return index

    def _read_exceptions(self, name: str, content: bytes) -> dict[str, tuple[str, ...]]:
        exceptions = {}
        for number, line in enumerate(content.splitlines(), 1):
            fields = line.decode("utf-8", "replace").split()
            if len(fields) < 2:
                raise self._broken(name, f"a form and its lemma on line {number}", "another line")
            exceptions[fields[0]] = tuple(fields[1:])
        return exceptions

    def _compare(self, pos: str, part: str) -> None:
        """Every synset has a lemma in the index: so a file cut at the end of a line is found out, too."""
        listed = len({offset for offsets in self.index[pos].values() for offset in offsets})
        data = self._data[pos]
        held = data.count(b"\n") - data.count(b"\n  ") - data.startswith(b"  ")
        if listed != held:
            short = f"index.{part}" if listed < held else f"data.{part}"
            raise self._broken(short, f"{max(listed, held)} synsets", f"{min(listed, held)}: the file was cut short")

    def _broken(self, name: str, expected: str, got: str) -> DataError:
        return DataError(f"{self.place / name}: expected {expected}, got {got}; run: {self._fix}")
