"""One JSONL file a run: a line about it, then a line for each text; an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rsmi.errors import DataError
from rsmi.writing import write_text

FORMAT = 1


class Record(Protocol):
    """What a line holds."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        ...


R = TypeVar("R", bound=Record)


def records_to_file(
    about: Mapping[str, Any],
    num: int,
    out: str | Path,
    run: Callable[[Sequence[int]], Iterator[tuple[int, R]]],
    parse: Callable[[dict[str, Any]], R],
) -> Iterator[R]:
    """Append the records of a run to a file as they are made and yield them.

    Records that the file holds already are yielded first and not made again. At the end the file is put in the order of
    the texts, so that an interrupted run ends with the same file as an uninterrupted one.

    Args:
        about: What the records depend on; a file that says otherwise is left alone.
        num: Texts of the run.
        out: The file.
        run: Makes the records of the places it is given, in any order.
        parse: Reads a record.
    """
    path = Path(out)
    header = json.loads(json.dumps(about))
    done = _begin(path, header, parse)
    yield from (done[place] for place in sorted(done))
    with path.open("a", encoding="utf-8") as file:
        for place, record in run([place for place in range(num) if place not in done]):
            file.write(_line({"place": place, **record.to_dict()}))
            file.flush()
            done[place] = record
            yield record
    write_records(path, header, done)


def write_records(path: str | Path, header: Mapping[str, Any], records: Mapping[int, Record]) -> None:
    """Write a whole file at once."""
    lines = [_line({"run": header})] + [_line({"place": i, **records[i].to_dict()}) for i in sorted(records)]
    write_text(Path(path), "".join(lines))


def read_header(path: str | Path) -> dict[str, Any]:
    """Return the line about the run."""
    header, _, _ = _read(Path(path), None)
    return header


def read_records(path: str | Path, parse: Callable[[dict[str, Any]], R]) -> tuple[dict[str, Any], dict[int, R]]:
    """Return the description of a run and its records by their place.

    A last line that was cut off by a crash is left out.
    """
    header, records, _ = _read(Path(path), parse)
    return header, records


def check_complete(path: str | Path, num: int, places: Mapping[int, Any], command: str) -> None:
    """Refuse a file that ends in the middle of a line, or lacks records."""
    raw = Path(path).read_bytes()
    if raw and not raw.endswith(b"\n"):
        number = raw.count(b"\n") + 1
        raise DataError(
            f"{path}, line {number}: expected a whole record, got a half-written one; finish the run with {command} "
            "--resume"
        )
    missing = [place for place in range(num) if place not in places]
    if missing:
        raise DataError(
            f"{path}: expected {num} records, {len(missing)} are missing (the first: {missing[0]}); "
            f"finish the run with {command} --resume"
        )


def unstarted(path: str | Path) -> bool:
    """Whether a file holds the description of a run and no whole record yet, so that nothing is lost without it."""
    try:
        with Path(path).open("rb") as file:
            first, second = file.readline(), file.readline()
    except OSError:
        return False
    return first.startswith(b'{"run": {') and first.endswith(b"}}\n") and not second.endswith(b"\n")


def _begin(path: Path, header: dict[str, Any], parse: Callable[[dict[str, Any]], R]) -> dict[int, R]:
    if not path.exists() or path.stat().st_size == 0 or unstarted(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, _line({"run": header}))
        return {}
    found = read_header(path)  # before the records: those of another kind of run would look damaged
    differing = [name for name in {**found, **header} if found.get(name) != header.get(name)]
    if differing:
        raise DataError(
            f"{path}: holds another run (other {', '.join(sorted(differing))}); choose another file, or remove this one"
        )
    _, records, complete = _read(path, parse)
    with path.open("r+b") as file:
        file.truncate(complete)
    return records


def _read(path: Path, parse: Callable[[dict[str, Any]], R] | None) -> tuple[dict[str, Any], dict[int, R], int]:
    """Return header, records (none without `parse`) and the length of the complete lines in bytes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise DataError(
            f"{path}: cannot read the records of a run: {reason}; check the path, or make them with rsmi attack"
        ) from error
    complete = raw.rfind(b"\n") + 1
    header: dict[str, Any] | None = None
    records = {}
    for number, line in enumerate(raw[:complete].splitlines(), 1):
        try:
            values = json.loads(line)
            if number == 1:
                header = values["run"]
                _check_format(path, header["format"])
            elif parse is None:
                break
            else:
                place = values.pop("place")
                records[place] = parse(values)
        except DataError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}, line {number}: expected {'the description of a run' if number == 1 else 'a record'} as "
                f"rsmi attack or rsmi certify writes it, got {line[:60]!r} ({type(error).__name__}); remove the line "
                "or the file"
            ) from error
    if header is None:
        raise DataError(f"{path}: expected a line about the run, got none; remove the file and start again")
    return header, records, complete


def _check_format(path: Path, found: object) -> None:
    if found != FORMAT:
        raise DataError(
            f"{path}, line 1: expected records of format {FORMAT}, got format {found!r}; read them with the version "
            "of rsmi that wrote them"
        )


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
