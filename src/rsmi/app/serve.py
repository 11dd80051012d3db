"""`rsmi serve`: a model -> an HTTP server with a playground."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from rsmi.app.completion import ATTACKS, among
from rsmi.app.options import Backend, Device, Dtype, Seed, TokenBudget, Variant

_PACKAGES = ("fastapi", "prometheus_client", "uvicorn")
_KEY = "RSMI_API_KEY"


def serve(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any checkpoint.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8000,
    max_batch: Annotated[int, typer.Option("--max-batch", min=1, help="Texts classified at once.")] = 32,
    latency_budget: Annotated[
        float, typer.Option("--latency-budget", min=0, help="Milliseconds a request waits for others, at most.")
    ] = 5.0,
    max_queue: Annotated[int, typer.Option("--max-queue", min=1, help="Texts waiting; beyond it: 429.")] = 512,
    max_texts: Annotated[int, typer.Option("--max-texts", min=1, help="Texts of one request.")] = 64,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens of one request.")] = 16_384,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="Bytes of one request.")] = 524_288,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds until a request is given up: 504.")] = 30.0,
    certify_timeout: Annotated[
        float, typer.Option("--certify-timeout", help="The same for requests that certify.")
    ] = 300.0,
    max_samples: Annotated[int, typer.Option("--max-samples", min=1, help="Draws of one certificate.")] = 10_000,
    drain: Annotated[
        float, typer.Option("--drain", min=0, help="Seconds to go on listening after SIGTERM, for load balancers.")
    ] = 0.0,
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", help=f"File with the key that clients must send; or set {_KEY}."),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="Attack that the playground offers; repeatable. Default: deepwordbug.",
            autocompletion=among(ATTACKS),
        ),
    ] = None,
    no_attack: Annotated[bool, typer.Option("--no-attack", help="Offer no attacks.")] = False,
    attack_queries: Annotated[int, typer.Option("--attack-queries", min=1, help="Queries of one attack.")] = 500,
    no_playground: Annotated[bool, typer.Option("--no-playground", help="No page at /.")] = False,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write texts into the log.")] = False,
    variant: Variant = None,
    seed: Seed = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
) -> None:
    """Serve a model over HTTP: /v1/predict, /v1/explain, /v1/certify, a playground at /, metrics at /metrics."""
    from rsmi.errors import MissingResourceError

    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingResourceError(f"rsmi serve: expected {', '.join(missing)}, got none; pip install 'rsmi[serve]'")
    from functools import partial

    from rsmi.app.server.process import run_server
    from rsmi.app.server.settings import ServeConfig
    from rsmi.opening import open_classifier

    usual = ServeConfig()
    settings = ServeConfig(
        max_batch=max_batch,
        latency_budget=latency_budget / 1000,
        max_queue=max_queue,
        max_windows=min(usual.max_windows, max_queue),
        max_texts=max_texts,
        max_tokens=max_tokens,
        max_body=max_body,
        max_samples=max_samples,
        default_samples=min(usual.default_samples, max_samples),
        timeout=timeout,
        certify_timeout=certify_timeout,
        drain_seconds=drain,
        api_key=_api_key(api_key_file),
        attacks=() if no_attack else tuple(attack or usual.attacks),
        attack_queries=attack_queries,
        playground=not no_playground,
        log_texts=log_texts,
    )
    load = partial(
        open_classifier,
        model,
        variant,
        seed=seed,
        device=device,
        dtype=dtype,
        backend=backend,
        token_budget=token_budget,
        progress=False,
    )
    run_server(load, settings, host=host, port=port, name=Path(model).name or "model")


def _api_key(file: Path | None) -> str | None:
    """Return the key from a file or the environment: on the command line everybody on the machine could read it."""
    from rsmi.errors import ConfigError

    if file is None:
        return os.environ.get(_KEY) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-key-file: expected a text file with a key, got {file} ({error})") from error
