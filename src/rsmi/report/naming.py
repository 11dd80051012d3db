"""Runs -> runs that can be told apart: models and protocols under names of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rsmi.errors import DataError
from rsmi.evaluation.runs import Run

_BY_PROTOCOL = frozenset({"aggregation"})  # `paper` and `vote` differ in it; all other settings make another model
_ORDER = ("paper", "vote", "eot", "fixed-noise", "temperature", "transfer", "white-box", "mask-aware", "persistent")


def check_distinct(runs: Sequence[Run]) -> None:
    """Refuse a run that was given twice: it would count twice in every average."""
    seen: dict[str, str] = {}
    for run in runs:
        key = json.dumps([run.header, *(record.outcome for record in run.records)], sort_keys=True)
        if key in seen:
            raise DataError(
                f"{run.source}: expected different runs, got the one of {seen[key]} again; leave one of them out"
            )
        seen[key] = run.source


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return what to call models: of an absolute path as many last parts as tell it from the others, else the name."""
    wanted = list(dict.fromkeys(names))
    parts = {name: name.rstrip("/").split("/") for name in wanted}

    def tail(name: str, length: int) -> str:
        return "/".join(parts[name][-length:])

    def short(name: str) -> str:
        lengths = range(1, len(parts[name]))
        return next((tail(name, n) for n in lengths if sum(tail(o, n) == tail(name, n) for o in wanted) == 1), name)

    return {name: short(name) if name.startswith("/") else name for name in wanted}


def name_models(runs: Sequence[Run]) -> list[Run]:
    """Return the runs; models that share a name get what sets them apart added to it: weights or settings."""
    identities = list(dict.fromkeys(_identity(run) for run in runs))
    names: dict[tuple[str, str, str], str] = {}
    for name, fingerprint, config in identities:
        alike = [other for other in identities if other[0] == name]
        parts = []
        if len({other[1] for other in alike}) > 1:
            parts.append(fingerprint[:6] or "no fingerprint")
        parts += _differing(config, [other[2] for other in alike if other[1] == fingerprint])
        label = f"{name} ({', '.join(parts)})" if parts else name
        taken = sum(known == label or known.startswith(f"{label} #") for known in names.values())
        names[name, fingerprint, config] = f"{label} #{taken + 1}" if taken else label
    return [run.called(names[_identity(run)]) for run in runs]


def name_protocols(runs: Sequence[Run]) -> list[str]:
    """Return the name of each run's protocol, with the seed or the file where a model was attacked so twice."""
    keys = [(run.data, run.inputs, run.model, run.attack, run.protocol) for run in runs]
    twice = {(key[1], key[4]) for key in keys if keys.count(key) > 1}
    seeded = [(*key, run.header.get("seed")) for key, run in zip(keys, runs, strict=True)]
    names = []
    for run, full in zip(runs, seeded, strict=True):
        if (run.inputs, run.protocol) not in twice:
            names.append(run.protocol)
        elif seeded.count(full) == 1:
            names.append(f"{run.protocol}, seed {run.header.get('seed')}")
        else:
            names.append(f"{run.protocol}, {Path(run.source).stem}")
    return names


def protocol_order(name: str) -> tuple[int, str]:
    """Sort protocols as the design of the evaluation lists them, unknown ones last."""
    known = [place for place, start in enumerate(_ORDER) if name.startswith(start)]
    return (known[0] if known else len(_ORDER), "".join(f"{part:0>9}" for part in name.split("-")))


def _model(run: Run) -> dict[str, Any]:
    return dict(run.header.get("model", {}))


def _identity(run: Run) -> tuple[str, str, str]:
    config = {name: value for name, value in _model(run).get("config", {}).items() if name not in _BY_PROTOCOL}
    return run.model, run.fingerprint, json.dumps(config, sort_keys=True)


def _differing(config: str, others: Sequence[str]) -> list[str]:
    """Return the settings in which a model differs from others with its name and weights, at most three."""
    own, rest = json.loads(config), [json.loads(other) for other in others]
    names = sorted(name for name in own if any(other.get(name) != own[name] for other in rest))
    return [f"{name}={own[name]}" for name in names[:3]]
