"""Ten thousand hostile requests: no answer of status 500 or above, and flat memory (`make bench`).

    OMP_WAIT_POLICY=PASSIVE python benchmarks/serving_fuzz.py --out benchmarks/results/serving_fuzz

The bodies are those of `tests/server_inputs.py`: broken JSON, other types, lone surrogates, NUL, NaN, deep nesting, a
megabyte of text. Memory is the largest seen in each tenth of the run. Writes OUT.json and OUT.md.
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
    if result["growth"] > 0.05:
        sys.exit("memory grew by more than 5 % from the second to the last tenth of the run")


def bombard(server: ServerProcess, num: int) -> dict[str, Any]:
    """Send hostile requests one after the other."""
    statuses: Counter[int] = Counter()
    broken: Counter[str] = Counter()
    tenths = [0.0] * 10
    start = time.monotonic()
    with httpx2.Client(base_url=server.address, timeout=300) as client:
        for number, (path, headers, body) in enumerate(hostile(num, SEED)):
            raw = {name: value.encode("latin-1") for name, value in headers.items()}
            try:
                statuses[client.post(path, content=body, headers=raw).status_code] += 1
            except httpx2.TransportError as error:
                broken[type(error).__name__] += 1
            place = 10 * number // num
            tenths[place] = max(tenths[place], server.resident_mib)
    return {
        "statuses": dict(sorted(statuses.items())),
        "server_errors": sum(count for status, count in statuses.items() if status >= 500),
        "broken": dict(broken),
        "seconds": time.monotonic() - start,
        "by_tenth_mib": [round(mib, 1) for mib in tenths],
        "growth": round(tenths[-1] / tenths[1] - 1, 4),
    }


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env = result["environment"]
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
        f"Resident memory by tenth of the run, MiB: {', '.join(f'{mib:.0f}' for mib in result['by_tenth_mib'])} "
        f"(growth from the second to the last {100 * result['growth']:.1f} %).",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
