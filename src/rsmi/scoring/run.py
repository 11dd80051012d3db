"""`score_file`: a file and a classifier -> a file with the predictions; an interrupted run goes on where it stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Set
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tqdm.auto import tqdm

from rsmi.classifier import RsmiClassifier
from rsmi.data.columns import Columns
from rsmi.errors import ConfigError, DataError
from rsmi.method.inputs import as_count
from rsmi.method.monitoring import WEIGHTS
from rsmi.scoring.answers import Answering, Cells, Part, added_columns, answer, check_names, rows_of
from rsmi.scoring.formats import ending_of, prepare
from rsmi.scoring.lock import only_run
from rsmi.scoring.parts import Parts
from rsmi.scoring.source import Chunk, Source
from rsmi.workers import in_processes, on_ray

_FORMAT = 1
_Run: TypeAlias = Callable[[Iterator[Part]], Generator[tuple[Part, list[Cells]], None, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What became of a file."""

    out: str
    """The result."""
    rows: int
    skipped: int
    """Rows without a prediction; the column `error` says why."""
    resumed: int
    """Rows that an earlier, interrupted run had done."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def score_file(
    classifier: RsmiClassifier,
    file: str | Path,
    out: str | Path,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    prefix: str = "",
    chunk_rows: int = 1024,
    resume: bool = False,
    workers: int = 1,
    cluster: str | None = None,
) -> Scored:
    """Classify every row of a file, which may be bigger than memory, and write all its columns and the predictions.

    Added are `label`, `probability_<class>` for each class, `escalated`, `abstained`, `truncated`, `copies` and
    `under_attack` (see `rsmi.under_attack`), in the order of the rows. The file is read and checked once before its
    first text is classified. Chunks that are done are kept in the folder `OUT.parts` until all are; a run that was
    killed and is resumed ends with the same file as one that was not, if the classifier has a seed.

    Args:
        classifier: What classifies. For workers: one loaded from a folder or hub id.
        file: CSV, TSV, JSONL (each also with .gz) or Parquet.
        out: The result: CSV, TSV, JSONL or Parquet by the ending of its name.
        text_column: The text, or the first of a pair; found by its name if None.
        pair_column: The second text of a pair; needs `text_column`.
        on_error: What to do about rows without a usable text: "stop" before anything is classified, or "skip" them,
            which leaves their predictions empty and says why in a column `error`.
        prefix: Put before the names of the added columns.
        chunk_rows: Rows that are read, classified and kept together.
        resume: Go on with a run that was interrupted, if there is one.
        workers: Processes that share the chunks.
        cluster: Address of a Ray cluster to run on: "auto" or "ray://host:port".

    Raises:
        DataError: If the file cannot be read, a row is bad, a name is taken, `out` holds something else, or another run
            is writing it.
        WorkerError: If workers cannot be reached, have another model, or are lost again and again.
    """
    if on_error not in ("stop", "skip"):
        raise ConfigError(f"on_error: expected 'stop' or 'skip', got {on_error!r}")
    rows, num_workers = as_count(chunk_rows, "chunk_rows", 1), as_count(workers, "workers", 1)
    path, target = Path(file), Path(out)
    ending, parts = ending_of(target), Parts(target)
    with only_run(parts.folder):
        parts.check_free(resume)
        classifier.engine()  # raises if it is not trained
        run = _runner(classifier, num_workers, cluster)
        added = added_columns(classifier.classes_.tolist(), prefix, on_error == "skip")
        source = Source.open(path, Columns(text=text_column, pair=pair_column), rows)
        before = _stamp(path)
        with _bar(classifier, "check") as bar:
            found, form = prepare(source, ending, added, on_error == "stop", lambda chunk: bar.update(len(chunk)))
        check_names(found.names, added, str(path))
        asked = {"on_error": on_error, "prefix": prefix, "columns": asdict(source.columns)}
        parts.claim({**_about(classifier, source), **asked})
        num = -(-found.rows // rows)
        left = parts.missing(num)
        resumed = found.rows - sum(min(rows, found.rows - number * rows) for number in left)
        with _bar(classifier, "score", found.rows, resumed) as bar:
            for chunk, answers in _classified(source, left, run):
                if _stamp(path) != before:  # what was read may be neither the old file nor the new one
                    raise DataError(f"{path}: changed while it was scored; the chunks done before that are kept")
                cells = rows_of(answers, chunk.errors, added)
                parts.save(chunk.number, partial(form.write, chunk=chunk, added=cells))
                bar.update(len(chunk))
        parts.finish(num, form.join)
        return Scored(out=str(target), rows=found.rows, skipped=found.bad, resumed=resumed)


def _classified(source: Source, left: Set[int], run: _Run) -> Iterator[tuple[Chunk, list[Cells]]]:
    """Yield the chunks that are left with their answers, in any order; in memory are those that are being worked at."""
    pending: dict[int, Chunk] = {}

    def tasks() -> Iterator[Part]:
        for chunk in source.chunks() if left else ():
            if chunk.number in left:
                pending[chunk.number] = chunk
                yield chunk.number, chunk.good

    with closing(run(tasks())) as done:
        for (number, _), answers in done:
            yield pending.pop(number), answers


def _about(classifier: RsmiClassifier, source: Source) -> dict[str, Any]:
    """Return what the result depends on. Workers, device and token budget are not among it: they may change."""
    engine = classifier.engine()
    return {
        "format": _FORMAT,
        "rsmi": version("rsmi"),
        "model": classifier.fingerprint,
        "config": engine.config.to_dict(),
        "synonyms": None if engine.synonyms is None else engine.synonyms.fingerprint,
        "seed": engine.seed,
        "dtype": classifier.dtype,
        "backend": classifier.backend,
        "monitoring": WEIGHTS.to_dict(),
        "input": {"name": source.path.name, "bytes": source.path.stat().st_size, "digest": source.digest()},
        "chunk_rows": source.rows,
    }


def _runner(classifier: RsmiClassifier, workers: int, cluster: str | None) -> _Run:
    """Return what classifies chunks: here, in processes, or on a cluster."""
    if cluster is not None:
        work = Answering.of(classifier)
        return lambda tasks: on_ray(work, lambda _: tasks, cluster, workers if workers > 1 else None)
    if workers > 1:
        work = Answering.of(classifier)
        return lambda tasks: in_processes(work, lambda _: tasks, workers)
    quiet = classifier.with_config(classifier.config_)  # the same weights; only the bar of this run is shown
    quiet.progress = False
    return lambda tasks: ((task, answer(quiet, task[1])) for task in tasks)


def _bar(classifier: RsmiClassifier, name: str, total: int | None = None, done: int = 0) -> Any:
    shown = sys.stderr.isatty() if classifier.progress is None else classifier.progress
    return tqdm(desc=name, total=total, initial=done, unit="row", disable=not shown, dynamic_ncols=True)


def _stamp(path: Path) -> tuple[int, int]:
    facts = os.stat(path)
    return facts.st_size, facts.st_mtime_ns
