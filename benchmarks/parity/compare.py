"""Compare what TextAttack did (oracle.py) with what we did (native.py) to the same inputs: agreement and time.

    python benchmarks/parity/compare.py oracle.jsonl native.jsonl --out parity_pwws_ag

writes parity_pwws_ag.json and parity_pwws_ag.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

COMPARED = ("outcome", "final", "queries")
KINDS = ("seconds", "cpu_seconds")
PARTS = ("total", "victim", "encoder", "masked_lm", "outside")

Record = dict[str, Any]
Pairs = dict[int, tuple[Record, Record]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oracle", type=Path, help="JSONL of TextAttack")
    parser.add_argument("ours", type=Path, help="JSONL of the native engine")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    oracle, ours = read(options.oracle), read(options.ours)
    pairs = {index: (oracle[index], ours[index]) for index in sorted(oracle.keys() & ours.keys())}
    if not pairs:
        raise SystemExit("expected inputs that are in both files, got none")
    result = compared(pairs) | {"only_one_side": sorted(oracle.keys() ^ ours.keys())}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_name(options.out.name + ".json").write_text(
        json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    options.out.with_name(options.out.name + ".md").write_text(page(options.out.name, result), encoding="utf-8")
    print(page(options.out.name, result))


def read(path: Path) -> dict[int, Record]:
    """Return the records of a file by the index of their input; a last line still being written is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return {record["index"]: record for record in records}


def compared(pairs: Pairs) -> dict[str, Any]:
    """Return agreement, differences, rates and times of all inputs that both sides attacked."""
    for index, (oracle, ours) in pairs.items():
        if oracle["original"] != ours["original"]:
            raise SystemExit(f"input {index}: expected the same text on both sides, got two: compare the same sample")
    differences = [
        {"index": index, **{name: [one.get(name), other.get(name)] for name in COMPARED if differ(one, other, name)}}
        for index, (one, other) in pairs.items()
        if any(differ(one, other, name) for name in COMPARED)
    ]
    both = [(one, other) for one, other in pairs.values() if "Error" not in (one["outcome"], other["outcome"])]
    return {
        "n": len(pairs),
        "equal": {name: sum(not differ(*pair, name) for pair in pairs.values()) for name in COMPARED}
        | {"all": len(pairs) - len(differences)},
        "differences": differences,
        "oracle": side([one for one, _ in both]),
        "ours": side([other for _, other in both]),
        "n_timed": len(both),
    }


def differ(one: Record, other: Record, name: str) -> bool:
    """Whether two records differ in a field."""
    return bool(one.get(name) != other.get(name))


def side(records: list[Record]) -> dict[str, Any]:
    """Return the rates and times of one side."""
    outcomes = [record["outcome"] for record in records]
    attacked = [record for record in records if record["outcome"] != "Skipped"]
    failed, succeeded = outcomes.count("Failed"), outcomes.count("Successful")
    return {
        "skipped": outcomes.count("Skipped"),
        "failed": failed,
        "succeeded": succeeded,
        "standard_accuracy": share(len(attacked), len(records)),
        "robust_accuracy": share(failed, len(records)),
        "attack_success_rate": share(succeeded, failed + succeeded),
        "average_queries": share(sum(record["queries"] for record in attacked), len(attacked)),
        "queries": sum(record["queries"] for record in records),
        **{kind: {part: sum(r[kind].get(part, 0.0) for r in records) for part in PARTS} for kind in KINDS},
    }


def share(part: float, whole: float) -> float | None:
    """Return `part / whole`, or None where there is nothing to divide by."""
    return part / whole if whole else None


def page(title: str, result: dict[str, Any]) -> str:
    """Return the comparison as Markdown."""
    n, one, other = result["n"], result["oracle"], result["ours"]
    lines = [f"# TextAttack 0.3.11 against the native engine: {title}", "", "| Equal | inputs |", "|---|---|"]
    names = {"outcome": "outcome", "final": "final text", "queries": "number of queries", "all": "all three"}
    lines += [f"| {what} | {result['equal'][name]} of {n} |" for name, what in names.items()]
    lines += ["", f"| n = {result['n_timed']} | TextAttack | ours | ratio |", "|---|---|---|---|"]
    for name, what in (
        ("standard_accuracy", "accuracy before"),
        ("robust_accuracy", "accuracy under attack"),
        ("attack_success_rate", "attack success rate"),
        ("average_queries", "queries of an attacked input, mean"),
        ("queries", "queries"),
    ):
        lines.append(f"| {what} | {shown(one[name])} | {shown(other[name])} | |")
    for kind, what in (("seconds", "s"), ("cpu_seconds", "CPU s")):
        for part in PARTS:
            before, after = one[kind][part], other[kind][part]
            if before or after:
                lines.append(f"| {part}, {what} | {before:.2f} | {after:.2f} | {shown(share(before, after))} |")
        rates = [share(each["queries"], each[kind]["total"]) for each in (one, other)]
        lines.append(f"| queries / {what} | {shown(rates[0])} | {shown(rates[1])} | |")
    if result["differences"]:
        lines += ["", "Differences (TextAttack, ours):", ""]
        lines += [f"- {json.dumps(difference, ensure_ascii=False)}" for difference in result["differences"]]
    if result["only_one_side"]:
        lines += ["", f"Attacked by one side only: {result['only_one_side']}"]
    return "\n".join(lines) + "\n"


def shown(value: float | None) -> str:
    """Return a number for a table."""
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


if __name__ == "__main__":
    main()
