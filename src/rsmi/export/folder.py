"""A classifier -> a folder for ONNX Runtime: graphs, weights, tokenizer, and a JSON that says what to do with them.

votes.onnx       token ids and noise -> logits
saliency.onnx    the same and the gradient norm of every token, where masks follow the gradient
weights.bin      what both read
tokenizer.json   for the package tokenizers
rsmi_onnx.json   settings of the vote, classes, noise, special tokens
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from transformers import PreTrainedTokenizerBase

from rsmi.classifier import RsmiClassifier
from rsmi.errors import CheckpointError, ConfigError, MissingResourceError, UnsupportedModelError
from rsmi.export.graphs import LOGITS, Graph, split, traced
from rsmi.method.engine import Engine
from rsmi.method.tokens import special_ids

FILE_NAME = "rsmi_onnx.json"
_FORMAT = 1
_PACKAGES = ("onnx", "onnx_ir", "onnxscript")


def export_onnx(classifier: RsmiClassifier, folder: str | Path) -> None:
    """Write a classifier for ONNX Runtime: `docs/deploy.md` says what for, `examples/onnx/predict.py` how it is used.

    Nothing random is in the graphs: noise comes in as tensors, one for every noisy layer, so that whoever runs them
    chooses where it comes from and the same noise gives the same logits as torch.

    Args:
        classifier: A trained classifier of a family with a fast path, on the CPU, in float32. Its backend does not
            matter: what is exported are the weights themselves.
        folder: A new or empty folder.

    Raises:
        MissingResourceError: If the packages of `rsmi[onnx]` are not installed.
        UnsupportedModelError: If its family has no fast path.
        ConfigError: If its settings or device cannot be exported.
        CheckpointError: If the folder cannot be written.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingResourceError(f"export: expected {', '.join(missing)}, got none; pip install 'rsmi[onnx]'")
    engine = classifier.engine()
    graph = _graph(engine)
    target = Path(folder).resolve()
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise CheckpointError(f"{folder}: expected a new or empty folder, got one with files; choose another")
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot write there: {error.strerror or error}") from error
    try:
        with engine.lock:
            _write_graphs(fresh, graph)
            tokens = _write_tokenizer(fresh, engine)
        about = {**_about(classifier, graph), "tokens": tokens}
        (fresh / FILE_NAME).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        os.chmod(fresh, 0o755)  # mkdtemp makes folders private
        os.replace(fresh, target)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot write there: {error.strerror or error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _graph(engine: Engine) -> Graph:
    """Return what to trace, or say why it cannot be exported."""
    encoder, config = engine.loaded.encoder, engine.config
    if encoder.stages is None:
        raise UnsupportedModelError(
            f"export: expected a family with a fast path (BERT, RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA or "
            f"DistilBERT), got {type(encoder.model).__name__}; serve it with torch (rsmi serve)"
        )
    dtype = str(encoder.model.dtype)
    if encoder.device.type != "cpu" or dtype != "torch.float32":
        raise ConfigError(
            f"export: expected a model on the CPU in float32, got {dtype} on {encoder.device}; load it with "
            "device='cpu', dtype='float32'"
        )
    by_gradient = config.masking == "gradient"
    if by_gradient and config.saliency_samples > 1:
        raise ConfigError(
            f"export: expected saliency_samples=1, got {config.saliency_samples}; the exported gradient is that of one "
            "draw: set saliency_samples=1"
        )
    return Graph(encoder, engine.plan, by_gradient)


def _write_graphs(folder: Path, graph: Graph) -> None:
    import onnx
    import onnx_ir

    model = traced(graph)
    name = "saliency.onnx" if graph.with_saliency else "votes.onnx"
    onnx_ir.save(model, folder / name, external_data="weights.bin")
    if graph.with_saliency:  # without the gradient a runtime can fuse more, and needs not keep what that reads
        whole = onnx.load(folder / name, load_external_data=False)
        (folder / "votes.onnx").write_bytes(split(whole, [LOGITS]).SerializeToString())


def _write_tokenizer(folder: Path, engine: Engine) -> dict[str, Any]:
    """Write tokenizer.json, and return what is not in it."""
    tokenizer: PreTrainedTokenizerBase = engine.loaded.tokenizer
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    backend.no_truncation()  # of the latest call
    backend.no_padding()
    backend.save(str(folder / "tokenizer.json"))
    return {
        "file": "tokenizer.json",
        "max_length": engine.max_tokens,
        "pad_id": int(tokenizer.pad_token_id),
        "mask_id": engine.mask_token_id,
        "unknown_id": int(tokenizer.unk_token_id),
        "special_ids": sorted(special_ids(tokenizer, len(tokenizer))),
    }


def _about(classifier: RsmiClassifier, graph: Graph) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "rsmi_version": version("rsmi"),
        "model": type(graph.encoder.model).__name__,
        "fingerprint": classifier.fingerprint,
        "classes": classifier.classes_.tolist(),
        "config": classifier.config_.to_dict(),
        "graphs": {"votes": "votes.onnx", "saliency": "saliency.onnx" if graph.with_saliency else None},
        "inputs": list(graph.token_inputs),
        "noise": [asdict(own) for own in graph.noise_inputs],
    }
