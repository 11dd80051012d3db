"""What it costs that glibc hands freed memory back at once: `rsmi attack` as it is, and as glibc would have it.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/heap.py --model runs/demo/rsmi --out benchmarks/results/heap

Commands of rsmi let the C library keep what a batch frees for the next (`rsmi.memory`), unless the environment says
how it shall behave; an empty GLIBC_TUNABLES is such a word, and changes nothing else. The same attack runs both ways by
turns, each in a process of its own: time on the processor, how much of it in the system, and the largest resident
memory. Writes OUT.json and OUT.md.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from environment import environment, save
from speed import shown, spread

WAYS = {"rsmi": {}, "glibc alone": {"GLIBC_TUNABLES": ""}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="runs/demo/rsmi", help="classifier, by default the demo's")
    parser.add_argument("--data", default="mr")
    parser.add_argument("--num", type=int, default=8, help="texts attacked")
    parser.add_argument("--max-words", type=int, default=40)
    parser.add_argument("--backend", default="int8")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for number in range(options.repeats):
        for name in WAYS if number % 2 == 0 else reversed(WAYS):
            runs[name].append(attacked(options, WAYS[name]))
    asked = {name: value for name, value in vars(options).items() if name != "out"}
    result = {**asked, "seed": 0, "runs": runs, "environment": environment()}
    save(options.out, result, page(result))


def attacked(options: argparse.Namespace, settings: dict[str, str]) -> dict[str, float]:
    """Attack some texts in a new process, and return what it took."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rsmi", "attack", options.model, options.data, "--attack", "textfooler"]
        command += ["--num", str(options.num), "--max-words", str(options.max_words), "--backend", options.backend]
        command += ["--seed", "0", "--out", f"{folder}/records.jsonl"]
        process = os.posix_spawn(sys.executable, command, {**os.environ, **settings})
        _, status, used = os.wait4(process, 0)
        if status != 0:
            sys.exit(f"{' '.join(command)}: expected exit code 0, got {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": round(used.ru_utime + used.ru_stime, 2),
        "system": round(used.ru_stime, 2),
        "peak_mib": round(used.ru_maxrss / 1024),
    }


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    runs, where = result["runs"], result["environment"]
    ours, alone = runs["rsmi"], runs["glibc alone"]
    gain = spread([one["seconds"] / own["seconds"] for one, own in zip(alone, ours, strict=True)])
    lines = [
        "# Freed memory: kept for the next batch, or handed back at once",
        "",
        f"`python benchmarks/heap.py --model {result['model']} --data {result['data']}`: TextFooler, {result['num']} "
        f"texts of at most {result['max_words']} words, backend {result['backend']}, seed {result['seed']}, "
        f"{len(ours)} repeats by turns; {where['cores']} cores, torch {where['versions']['torch']}, commit "
        f"{where['commit']}. Left alone, glibc takes {shown(gain)} times as long.",
        "",
        "| | Seconds on the processor | of these in the system | Largest resident memory, MiB |",
        "|---|--:|--:|--:|",
    ]
    for name, own in runs.items():
        cells = (statistics.median(run[key] for run in own) for key in ("seconds", "system", "peak_mib"))
        lines.append(f"| {name} | " + " | ".join(f"{cell:g}" for cell in cells) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
