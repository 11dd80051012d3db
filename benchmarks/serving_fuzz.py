"""Ten thousand hostile requests: no answer of status 500 or above, and flat memory (`make bench`).

    OMP_WAIT_POLICY=PASSIVE python benchmarks/serving_fuzz.py --out benchmarks/results/serving_fuzz

The bodies are those of `tests/server_inputs.py`: broken JSON, other types, lone surrogates, NUL, NaN, deep nesting, a
megabyte of text. Writes OUT.json and OUT.md.

Memory is the largest seen in each 500 requests. The first of these parts is warm-up: allocators, caches and the
buffers of the largest batch reach their size. From the second part on it must not grow; a run that is too short to tell
says so and fails.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

from environment import ROOT, environment, save
from serving_process import ServerProcess

sys.path.insert(0, str(ROOT / "tests"))
from server_inputs import hostile

LIMITS = ("--max-samples", "50", "--attack-queries", "10", "--max-tokens", "2000")
SEED = 1
PART = 500  # requests
LEAST_PARTS = 4  # warm-up, what the end is compared with, something between, the end
MOST_GROWTH = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo/rsmi"), help="classifier, by default the demo's")
    parser.add_argument("--num", type=int, default=10_000, help="requests")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    with ServerProcess(options.model, *LIMITS) as server:
        result = bombard(server, options.num)
        result["still_ready"] = httpx2.get(f"{server.address}/readyz").status_code == 200
        result["exit_code"] = server.stop()
    result |= {"num": options.num, "seed": SEED, "limits": " ".join(LIMITS), "environment": environment()}
    save(options.out, result, page(result))
    if result["server_errors"] or result["broken"] or not result["still_ready"]:
        sys.exit("the server failed")
    if result["growth"] is None:
        sys.exit(f"expected at least {LEAST_PARTS * PART} requests to tell a leak from warm-up, got {options.num}")
    if result["growth"] > MOST_GROWTH:
        sys.exit(f"memory grew by more than {MOST_GROWTH:.0%} after the first {PART} requests")


def bombard(server: ServerProcess, num: int) -> dict[str, Any]:
    """Send hostile requests one after the other."""
    statuses: Counter[int] = Counter()
    broken: Counter[str] = Counter()
    parts = [0.0] * max(1, num // PART)  # the last one takes what is left over
    start = time.monotonic()
    with httpx2.Client(base_url=server.address, timeout=300) as client:
        for number, (path, headers, body) in enumerate(hostile(num, SEED)):
            raw = {name: value.encode("latin-1") for name, value in headers.items()}
            try:
                statuses[client.post(path, content=body, headers=raw).status_code] += 1
            except httpx2.TransportError as error:
                broken[type(error).__name__] += 1
            place = min(number // PART, len(parts) - 1)
            parts[place] = max(parts[place], server.resident_mib)
    return {
        "statuses": dict(sorted(statuses.items())),
        "server_errors": sum(count for status, count in statuses.items() if status >= 500),
        "broken": dict(broken),
        "seconds": time.monotonic() - start,
        "part": PART,
        "by_part_mib": [round(mib, 1) for mib in parts],
        "growth": growth(parts),
    }


def growth(parts: list[float]) -> float | None:
    """Return by how much the last part's memory exceeds the second's; None where there are too few to tell."""
    return round(parts[-1] / parts[1] - 1, 4) if len(parts) >= LEAST_PARTS else None


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env = result["environment"]
    told = result["growth"]
    grown = "too few to tell growth" if told is None else f"growth from the second to the last {100 * told:.1f} %"
    lines = [
        "# Hostile requests",
        "",
        f"{result['num']} requests one after the other, seed {result['seed']}, {result['seconds']:.0f} s; server "
        f"options `{result['limits']}`; commit {env['commit']}. `python benchmarks/serving_fuzz.py`",
        "",
        "| Status | Answers |",
        "|---|---|",
        *(f"| {status} | {count} |" for status, count in result["statuses"].items()),
        "",
        f"Answers of status 500 or above: {result['server_errors']}; connections that broke: "
        f"{sum(result['broken'].values())}; ready afterwards: {'yes' if result['still_ready'] else 'no'}.",
        "",
        f"Largest resident memory in each {result['part']} requests, MiB: "
        f"{', '.join(f'{mib:.0f}' for mib in result['by_part_mib'])} ({grown}).",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
