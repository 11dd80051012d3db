"""The same attack run three times: twice undisturbed and once killed again and again. Are the files the same?

    python benchmarks/repeated.py --model runs/demo/rsmi --out benchmarks/results/repeated

`rsmi attack` runs on test sentences of `mr`; the third run gets SIGKILL as soon as it has written a further record or
two, `--kills` times, and goes on with `--resume` each time. The files are compared byte by byte; where they differ, the
page says in how many records and by how much scores differ. Writes OUT.json and OUT.md.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import environment, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo/rsmi"), help="classifier, by default the demo's")
    parser.add_argument("--attack", default="textfooler")
    parser.add_argument("--num", type=int, default=20)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    about = ("--attack", options.attack, "--num", options.num, "--fresh-draws", 20)
    words = [sys.executable, "-m", "rsmi", "attack", options.model, "mr", *about]
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.jsonl" for name in ("first", "second", "killed")}
        for name in ("first", "second"):
            subprocess.run([*map(str, words), "--out", files[name]], check=True)
        kept = killed(list(map(str, words)), files["killed"], options.kills)
        found = {name: compared(files["first"], file) for name, file in files.items()}
    result = {"files": found, "records_at_each_kill": kept, "num": options.num, "attack": options.attack}
    result |= {"model": str(options.model), "environment": environment()}
    save(options.out, result, page(result))
    if not all(own["same_bytes"] for own in found.values()):
        sys.exit("the files differ")


def killed(words: list[str], out: Path, kills: int) -> list[int]:
    """Run to the end in spite of so many kills; return how many records there were at each."""
    kept: list[int] = []
    for _ in range(kills):
        before = records(out)
        process = subprocess.Popen([*words, "--out", str(out), "--resume"], start_new_session=True)
        while records(out) <= before + 1 and process.poll() is None:
            time.sleep(0.05)
        if process.poll() is not None:
            raise SystemExit(f"expected a run that is killed {kills} times, got one that ended after {len(kept)} kills")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kept.append(records(out))
    subprocess.run([*words, "--out", str(out), "--resume"], check=True)
    return kept


def records(file: Path) -> int:
    """Return how many records a file has, without its first line."""
    return max(0, file.read_bytes().count(b"\n") - 1) if file.exists() else 0


def compared(first: Path, other: Path) -> dict[str, Any]:
    """Return how a file differs from the first."""
    ours, theirs = ([json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in (first, other))
    return {
        "sha256": hashlib.sha256(other.read_bytes()).hexdigest(),
        "same_bytes": first.read_bytes() == other.read_bytes(),
        "records": len(theirs) - 1,
        "different_records": sum(a != b for a, b in zip(ours[1:], theirs[1:], strict=True)),
        "different_fields": sorted({key for a, b in zip(ours, theirs, strict=True) for key in a if a[key] != b[key]}),
    }


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env = result["environment"]
    lines = [
        "# The same attack, run again and killed",
        "",
        f"{result['attack']}, protocol paper, {result['num']} test sentences of mr; {env['cores']} cores, torch "
        f"{env['versions']['torch']}, commit {env['commit']}. `python benchmarks/repeated.py`",
        "",
        "| Run | Records | Same bytes as the first | Records that differ | sha256 |",
        "|---|---|---|---|---|",
    ]
    for name, own in result["files"].items():
        same = "yes" if own["same_bytes"] else "no"
        lines.append(f"| {name} | {own['records']} | {same} | {own['different_records']} | `{own['sha256'][:16]}` |")
    kept = ", ".join(map(str, result["records_at_each_kill"]))
    return "\n".join([*lines, "", f"Killed (SIGKILL) with {kept} records written.", ""])


if __name__ == "__main__":
    main()
