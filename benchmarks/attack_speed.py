r"""Attacks end to end: TextAttack and the native engine on the same inputs with the same resources, in one run.

    python benchmarks/attack_speed.py --textattack .venv-textattack/bin/python --victim runs/parity/ag_news \
        --defended runs/demo/rsmi --vectors runs/parity/vectors.npz --work runs/attack_speed --out attack_speed

Runs benchmarks/parity/oracle.py and native.py by turns, once a repeat, and divides seconds by seconds. `plain` is a
fine-tuned victim on AG News: TextAttack's wrapper padded to 512 tokens (its default) and to the longest text, against
ours in float32 and in 8 bits. `rsmi` is a defended victim on `mr`: TextAttack driving our classifier, or the authors'
algorithm on the same weights, against the native engine driving our classifier. TextAttack runs in one process with all
cores; so does `ours` of `rsmi`, whose predictions share the cores out themselves (decision 012). `ours` of `plain` is a
process for each core, as `rsmi attack --workers` does, and for comparison one process, too. RSMI_DATA names the data,
which TextAttack's environment does not have. Writes OUT.json and OUT.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from environment import environment, save

PARITY = Path(__file__).resolve().parent / "parity"
ROOT = PARITY.parent.parent

Side = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--textattack", type=Path, required=True, help="Python with TextAttack: see parity/")
    parser.add_argument("--victim", type=Path, required=True, help="fine-tuned classifier of ag_news")
    parser.add_argument("--defended", type=Path, required=True, help="RSMI classifier of mr")
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--num", type=int, default=8, help="inputs; of the two slowest ways only --few")
    parser.add_argument("--few", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="of the two slowest ways one")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=["plain", "rsmi"])
    parser.add_argument("--work", type=Path, required=True, help="folder for records")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    sets = {"plain": plain(options), "rsmi": rsmi(options)}
    results = {name: measured(name, ways, options) for name, ways in sets.items() if options.only in (None, name)}
    found = {"results": results, "threads": options.threads, "environment": environment()}
    save(options.out, found, page(found))


def plain(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the commands of the fine-tuned victim; all are compared with `ours`."""
    inputs = ["--attack", "textfooler", "--data", "ag_news", "--victim", str(options.victim)]
    inputs += ["--vectors", str(options.vectors), "--threads", str(options.threads)]
    theirs = ["--special-tokens", "split", "--padding"]
    num, few = ["--num", str(options.num)], ["--num", str(options.few)]
    return {
        "TextAttack, padded to 512": ["oracle", *inputs, *few, *theirs, "max", "--max-length", "512"],
        "TextAttack, padded to the longest": [
            "oracle",
            *inputs,
            *num,
            *theirs[:-1],
            "--max-length",
            "96",
            "--padding",
            "dynamic",
        ],
        "ours": ["workers", *inputs, *num, "--max-length", "96"],
        "ours, one process": ["native", *inputs, *num, "--max-length", "96"],
        "ours, 8 bits": ["workers", *inputs, *num, "--max-length", "96", "--backend", "int8"],
    }


def rsmi(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the commands of the defended victim."""
    inputs = ["--attack", "textfooler", "--data", "mr", "--victim", str(options.defended), "--max-length", "256"]
    inputs += ["--vectors", str(options.vectors), "--threads", str(options.threads)]
    num, few = ["--num", str(options.num)], ["--num", str(options.few)]
    return {
        "TextAttack, the authors' algorithm": ["oracle", *inputs, *few, "--as", "authors"],
        "TextAttack, our classifier": ["oracle", *inputs, *num, "--as", "rsmi"],
        "ours": ["native", *inputs, *num, "--variant", "own"],
        "ours, 8 bits": ["native", *inputs, *num, "--variant", "own", "--backend", "int8"],
    }


def measured(name: str, ways: dict[str, list[str]], options: argparse.Namespace) -> list[Side]:
    """Run all ways by turns and return what each took."""
    runs: dict[str, list[dict[int, Any]]] = {way: [] for way in ways}
    for repeat in range(options.repeats):
        for number, (way, command) in enumerate(ways.items()):
            if number == 0 and repeat > 0:
                continue
            out = options.work / f"{name}-{number}-{repeat}.jsonl"
            if not out.exists() or len(out.read_text().splitlines()) < int(command[command.index("--num") + 1]):
                out.unlink(missing_ok=True)
                out.with_suffix(".settings.json").unlink(missing_ok=True)
                call(command, out, options)
            runs[way].append({line["index"]: line for line in map(json.loads, out.read_text().splitlines())})
    return [side(way, own, runs["ours"]) for way, own in runs.items()]


def call(command: list[str], out: Path, options: argparse.Namespace) -> None:
    """Run one command of parity/."""
    if command[0] == "workers":
        return call_workers(command, out, options)
    python = str(options.textattack) if command[0] == "oracle" else sys.executable
    script = str(PARITY / f"{command[0]}.py")
    subprocess.run([python, script, *command[1:], "--out", str(out)], check=True, env=surroundings(), cwd=ROOT)


def call_workers(command: list[str], out: Path, options: argparse.Namespace) -> None:
    """Run native.py in one process a core, all at once, and write one file whose seconds add up to the slowest's."""
    own = [*command[1:]]
    own[own.index("--threads") + 1] = "1"
    files = [out.with_suffix(f".{part}.jsonl") for part in range(options.threads)]
    running = [
        subprocess.Popen(
            [sys.executable, str(PARITY / "native.py"), *own, "--part", f"{i}/{len(files)}", "--out", str(file)],
            env=surroundings(),
            cwd=ROOT,
        )
        for i, file in enumerate(files)
    ]
    if any([process.wait() for process in running]):
        raise SystemExit("a worker failed; see above")
    parts = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    totals = [sum(line["seconds"]["total"] for line in part) for part in parts]
    lines = [line for part in parts for line in part]
    for line in lines:
        line["seconds"] = {name: value * max(totals) / sum(totals) for name, value in line["seconds"].items()}
    lines.sort(key=lambda line: line["index"])
    out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def surroundings() -> dict[str, str]:
    """Return the environment of every command."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_WAIT_POLICY": "PASSIVE"}


def side(way: str, runs: list[dict[int, Any]], ours: list[dict[int, Any]]) -> Side:
    """Compare a way with ours on the inputs both attacked, repeat by repeat."""
    ratios = []
    for run, other in zip(runs, ours, strict=False):
        shared = sorted(run.keys() & other.keys())
        ratios.append(per_query(run, shared) / per_query(other, shared))
    first, other = runs[0], ours[0]
    equal = [
        all(first[i].get(name) == other[i].get(name) for name in ("outcome", "final", "queries"))
        for i in sorted(first.keys() & other.keys())
    ]
    seconds = [sum(line["seconds"]["total"] for line in run.values()) for run in runs]
    return {
        "way": way,
        "inputs": len(first),
        "repeats": len(runs),
        "queries": sum(line["queries"] for line in first.values()),
        "seconds": seconds,
        "ours_faster": ratios,
        "equal_results": sum(equal),
    }


def per_query(run: dict[int, Any], places: list[int]) -> float:
    """Return seconds a query."""
    return sum(run[i]["seconds"]["total"] for i in places) / sum(run[i]["queries"] for i in places)


def page(found: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env = found["environment"]
    lines = [
        "# TextFooler end to end",
        "",
        f"{found['threads']} threads, {env['cores']} cores, torch {env['versions']['torch']}, commit {env['commit']}. "
        "`python benchmarks/attack_speed.py`. Ratio: seconds a query, divided by those of `ours` on the same inputs, "
        "median (least to most) over repeats.",
        "",
        "| Victim | Way | Inputs | Repeats | Queries | s, median | Slower than ours by | Same results as ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, sides in found["results"].items():
        for own in sides:
            ratios = own["ours_faster"]
            lines.append(
                f"| {name} | {own['way']} | {own['inputs']} | {own['repeats']} | {own['queries']} | "
                f"{statistics.median(own['seconds']):.1f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
                f"{max(ratios):.2f}) | {own['equal_results']} of {own['inputs']} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
