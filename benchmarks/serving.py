"""Throughput and latency of `rsmi serve` with and without batching, a soak, and SIGTERM under load (`make bench`).

    OMP_WAIT_POLICY=PASSIVE python benchmarks/serving.py --model runs/demo/rsmi --out benchmarks/results/serving

Clients on the same machine ask about one sentence of `mr` at a time, each as soon as it has its last answer. Both
servers run all the time and are asked in turn, so that they are measured next to each other; the one without batching
has `--max-batch 1 --latency-budget 0`. Server and clients share the cores. The soak keeps the largest number of clients
at it and counts what was not answered with 200. At the end SIGTERM is sent under that load: what the server says it
accepted and answered must be what the clients got. Writes OUT.json and OUT.md.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from environment import environment, save
from rsmi import load_data
from serving_process import ServerProcess

UNBATCHED = ("--max-batch", "1", "--latency-budget", "0")
SEED = 0

Row = dict[str, Any]


@dataclass
class Traffic:
    """What clients sent and got."""

    seconds: list[float] = field(default_factory=list)
    """Of every answer."""
    statuses: Counter[int] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """Connections that ended without an answer."""
    took: float = 0.0

    @property
    def lost(self) -> int:
        """Requests without an answer of status 200."""
        return sum(self.broken.values()) + sum(count for status, count in self.statuses.items() if status != 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo/rsmi"), help="classifier, by default the demo's")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--soak", type=float, default=600.0, help="seconds at the largest number of clients")
    parser.add_argument("--max-batch", type=int, default=32, help="of the server with batches")
    parser.add_argument("--backend", default="torch", choices=["torch", "int8"], help="of both servers")
    parser.add_argument("--quality", default="standard", choices=["fast", "standard"])
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    texts = load_data("mr", "test").take(500, SEED).texts
    most = max(options.clients)
    backend = ("--backend", options.backend)
    batches = ("--max-batch", str(options.max_batch))
    with (
        ServerProcess(options.model, *backend, *batches) as batched,
        ServerProcess(options.model, *backend, *UNBATCHED) as alone,
    ):
        rows = measure({"batched": batched, "one by one": alone}, texts, options)
        alone.stop()
        soak = soaked(batched, texts, most, options)
        killed = stopped_under_load(batched, texts, most, options)
    result = {
        "rows": rows,
        "soak": soak,
        "sigterm": killed,
        "quality": options.quality,
        "backend": options.backend,
        "max_batch": options.max_batch,
        "seconds": options.seconds,
        "repeats": options.repeats,
        "seed": SEED,
        "model": str(options.model),
        "environment": environment(),
    }
    save(options.out, result, page(result))


def measure(servers: dict[str, ServerProcess], texts: Sequence[Any], options: argparse.Namespace) -> list[Row]:
    """Ask both servers in turn, for every number of clients."""
    found: dict[tuple[int, str], list[Row]] = {}
    for server in servers.values():
        run(server.address, texts, 2, min(5.0, options.seconds), options.quality)  # warm
    for _, clients in itertools.product(range(options.repeats), options.clients):
        for name, server in servers.items():
            sums = [server.metric(f"rsmi_batch_texts_{part}") for part in ("sum", "count")]
            traffic = run(server.address, texts, clients, options.seconds, options.quality)
            more = [server.metric(f"rsmi_batch_texts_{part}") for part in ("sum", "count")]
            batch = (more[0] - sums[0]) / max(1.0, more[1] - sums[1])
            p50, p95, p99 = (1000 * float(np.percentile(traffic.seconds, share)) for share in (50, 95, 99))
            row = {"requests": len(traffic.seconds), "a_second": len(traffic.seconds) / traffic.took, "batch": batch}
            row |= {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "lost": traffic.lost}
            found.setdefault((clients, name), []).append(row)
    return [summary(clients, name, own, found) for (clients, name), own in found.items()]


def summary(clients: int, name: str, own: list[Row], found: dict[tuple[int, str], list[Row]]) -> Row:
    """Put repeats together: medians, and the gain over the server without batches repeat by repeat."""
    row: Row = {"clients": clients, "server": name, "requests": sum(each["requests"] for each in own)}
    row["lost"] = sum(each["lost"] for each in own)
    for key in ("a_second", "p50_ms", "p95_ms", "p99_ms", "batch"):
        values = [each[key] for each in own]
        row[key] = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    other = found[clients, "one by one"]
    gains = [mine["a_second"] / theirs["a_second"] for mine, theirs in zip(own, other, strict=True)]
    row["gain"] = {"median": statistics.median(gains), "least": min(gains), "most": max(gains)}
    return row


def soaked(server: ServerProcess, texts: Sequence[Any], clients: int, options: argparse.Namespace) -> Row:
    """Keep the server busy for long, and see whether anything is lost and whether its memory stays flat."""
    early: list[float] = []

    def note(elapsed: float) -> None:
        if not early and elapsed > 0.2 * options.soak:
            early.append(server.resident_mib)

    traffic = run(server.address, texts, clients, options.soak, options.quality, note)
    late = server.resident_mib
    return {
        "seconds": traffic.took,
        "clients": clients,
        "requests": len(traffic.seconds),
        "statuses": dict(traffic.statuses),
        "broken": dict(traffic.broken),
        "lost": traffic.lost,
        "resident_mib_after_a_fifth": early[0] if early else None,
        "resident_mib_at_the_end": late,
    }


def stopped_under_load(server: ServerProcess, texts: Sequence[Any], clients: int, options: argparse.Namespace) -> Row:
    """Send SIGTERM under load and compare what the server has answered with what the clients got."""
    before = len([line for line in list(server.lines) if line["event"] == "request" and line["status"] == 200])
    codes: list[int] = []

    async def kill() -> None:
        await asyncio.sleep(min(5.0, options.seconds))
        codes.append(await asyncio.to_thread(server.stop))

    async def both() -> Traffic:
        end = time.monotonic() + 10 * options.seconds + 60
        traffic, _ = await asyncio.gather(ask(server.address, texts, clients, end, options.quality, stop=True), kill())
        return traffic

    traffic = asyncio.run(both())
    told = server.event("stopped")
    answered = [line for line in server.lines if line["event"] == "request" and line["status"] == 200]
    predicted = [line for line in answered[before:] if line["route"] == "/v1/predict"]
    return {
        "clients": clients,
        "exit_code": codes[0],
        "accepted_and_not_answered": told["accepted"] - told["answered"],
        "answered_with_200": len(predicted),
        "received_with_200": traffic.statuses[200],
        "other_statuses": {status: count for status, count in traffic.statuses.items() if status != 200},
        "not_accepted_any_more": dict(traffic.broken),
    }


def run(
    address: str,
    texts: Sequence[Any],
    clients: int,
    seconds: float,
    quality: str,
    note: Callable[[float], None] = lambda elapsed: None,
) -> Traffic:
    """Let clients ask for some time."""
    return asyncio.run(ask(address, texts, clients, time.monotonic() + seconds, quality, note))


async def ask(
    address: str,
    texts: Sequence[Any],
    clients: int,
    end: float,
    quality: str,
    note: Callable[[float], None] = lambda elapsed: None,
    stop: bool = False,
) -> Traffic:
    """Let clients ask until `end`; with `stop` a client ends with its first broken connection."""
    traffic, start = Traffic(), time.monotonic()
    numbers = itertools.count()
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)

    async def client(session: httpx2.AsyncClient) -> None:
        while (begun := time.monotonic()) < end:
            body = {"text": texts[next(numbers) % len(texts)], "quality": quality}
            try:
                answer = await session.post("/v1/predict", json=body)
            except httpx2.TransportError as error:
                traffic.broken[type(error).__name__] += 1
                if stop:
                    return
                continue
            traffic.statuses[answer.status_code] += 1
            traffic.seconds.append(time.monotonic() - begun)
            note(time.monotonic() - start)

    async with httpx2.AsyncClient(base_url=address, timeout=120, limits=limits) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))
    traffic.took = time.monotonic() - start
    return traffic


def page(result: Row) -> str:
    """Return the result as Markdown."""
    env, soak, killed = result["environment"], result["soak"], result["sigterm"]
    lines = [
        "# Serving: throughput and latency of `rsmi serve`",
        "",
        f"Median (least to most) of {result['repeats']} repeats of {result['seconds']:g} s; "
        f"quality {result['quality']}, backend {result['backend']}, up to {result['max_batch']} texts a batch; "
        f"one sentence of mr a request; {env['cores']} cores shared by server and "
        f"clients, {env['threads']} threads, "
        f"torch {env['versions']['torch']}, commit {env['commit']}. `python benchmarks/serving.py`",
        "",
        "| Clients | Server | Requests a second | p50 ms | p95 ms | p99 ms | Texts a batch | Gain | n | Lost |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        cells = [shown(row["a_second"], 1), *(shown(row[name], 0) for name in ("p50_ms", "p95_ms", "p99_ms"))]
        cells += [shown(row["batch"], 1), shown(row["gain"], 2), str(row["requests"]), str(row["lost"])]
        lines.append(f"| {row['clients']} | {row['server']} | " + " | ".join(cells) + " |")
    early, late = soak["resident_mib_after_a_fifth"], soak["resident_mib_at_the_end"]
    memory = "" if early is None else f"; resident memory {early:.0f} MiB after a fifth of it, {late:.0f} at the end"
    lines += [
        "",
        f"Soak: {soak['clients']} clients for {soak['seconds']:.0f} s, {soak['requests']} requests, "
        f"{soak['lost']} without an answer of status 200{memory}.",
        "",
        f"SIGTERM under the load of {killed['clients']} clients: exit code {killed['exit_code']}; "
        f"{killed['accepted_and_not_answered']} accepted and not answered; {killed['answered_with_200']} answered "
        f"with 200 by the server's log, {killed['received_with_200']} received by the clients. Their next requests "
        f"found nobody: {killed['not_accepted_any_more']}.",
    ]
    return "\n".join(lines) + "\n"


def shown(spread: dict[str, float], digits: int) -> str:
    """Return a median with its range."""
    return f"{spread['median']:.{digits}f} ({spread['least']:.{digits}f} to {spread['most']:.{digits}f})"


if __name__ == "__main__":
    main()
