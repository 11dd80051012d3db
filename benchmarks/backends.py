"""Ways to compute the copies that vote, side by side: time, accuracy, and how many votes differ from float32's.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/backends.py --model runs/demo/rsmi --out benchmarks/results/backends

Two measurements. The forward pass alone, without noise, of a batch of texts of 55 tokens: transformers as it is, layer
by layer (`stages`), 8 bits, bfloat16, torch.compile, ONNX Runtime and OpenVINO where they are installed. And the whole
prediction on the dev sentences of `mr` with the same noise for all: accuracy, the share of votes, masks and decisions
that agree with float32's, and the time of `predict_proba`. Writes OUT.json and OUT.md.
"""

import argparse
import copy
import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from environment import environment, save
from rsmi import RsmiClassifier, load_data
from rsmi.method.backends import open_runner
from rsmi.method.encoder import Encoder, evaluating, open_encoder
from rsmi.method.noise import NoisePlan, noisy_copies, row_noise
from rsmi.method.tokens import Batch
from speed import ratio, spread, timed

TOKENS, ROWS, TIMED, SEED = 55, 37, 64, 0
SILENT = NoisePlan((), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo/rsmi"))
    parser.add_argument("--num", type=int, default=200, help="dev sentences of mr")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    classifier = RsmiClassifier.from_pretrained(options.model, seed=SEED, progress=False)
    result = {
        "forward": forward_times(classifier, options.repeats),
        "votes": agreement(options),
        "repeats": options.repeats,
        "seed": SEED,
        "model": str(options.model),
        "environment": environment(),
    }
    save(options.out, result, page(result))


def forward_times(classifier: RsmiClassifier, repeats: int) -> list[dict[str, Any]]:
    """Time the forward pass of each way against transformers' own."""
    encoder = classifier.engine().loaded.encoder
    random = torch.Generator().manual_seed(SEED)
    ids = torch.randint(1000, 20000, (ROWS, TOKENS), generator=random)
    batch = Batch(ids, torch.ones_like(ids), torch.zeros_like(ids), torch.ones_like(ids).bool(), (TOKENS,) * ROWS)
    ways: dict[str, Callable[[Batch], Any]] = {"transformers": encoder.logits}
    layered = {
        "stages (backend=torch)": encoder,
        "8 bits (backend=int8)": open_runner(encoder, "int8"),
        "8 bits, one scale a batch (torch.ao)": one_scale(encoder),
        "stages, bfloat16": open_encoder(copy.deepcopy(encoder.model).bfloat16()),
        "compiled (backend=compile)": open_runner(encoder, "compile"),
    }
    ways |= {name: partial(staged, own) for name, own in layered.items()}
    with tempfile.TemporaryDirectory() as folder:
        ways |= exported(encoder, batch, Path(folder))
        with torch.inference_mode(), evaluating(encoder.model):
            times = timed({name: partial(way, batch) for name, way in ways.items()}, repeats)
            exact = encoder.logits(batch)
            found = {name: torch.as_tensor(way(batch)) for name, way in ways.items()}
            moved = {
                name: max(
                    float((torch.as_tensor(way(batch.rows([i])))[0] - found[name][i]).abs().max()) for i in range(5)
                )
                for name, way in ways.items()
            }
    base = times["transformers"]
    return [
        {
            "way": name,
            "largest_difference": float((found[name] - exact).abs().max()),
            "mean_difference": float((found[name] - exact).abs().mean()),
            "moved_by_its_batch": moved[name],
        }
        | spread([unit / one for one, unit in zip(own, base, strict=True)])
        for name, own in times.items()
    ]


def one_scale(encoder: Encoder) -> Encoder:
    """Quantise as PyTorch does: all rows of a layer's input share a scale."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces torchao as the successor of these functions
        recipe = torch.ao.quantization.per_channel_dynamic_qconfig
        return open_encoder(torch.ao.quantization.quantize_dynamic(encoder.model, {torch.nn.Linear: recipe}))


def staged(encoder: Encoder, batch: Batch) -> torch.Tensor:
    """Classify layer by layer."""
    rows = range(len(batch.lengths))
    return noisy_copies(encoder, SILENT, batch, rows, row_noise(rows, batch.lengths))


def exported(encoder: Encoder, batch: Batch, folder: Path) -> dict[str, Callable[[Batch], Any]]:
    """Return the same model in other runtimes, those that are installed."""
    if importlib.util.find_spec("onnx") is None:
        return {}
    file = str(folder / "model.onnx")
    inputs = named(batch)
    torch.onnx.export(
        encoder.model,
        tuple(inputs.values()),
        file,
        input_names=list(inputs),
        dynamic_axes={name: {0: "rows", 1: "tokens"} for name in inputs},
        dynamo=False,
    )
    ways: dict[str, Callable[[Batch], Any]] = {}
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
        ways[f"ONNX Runtime {onnxruntime.__version__}"] = lambda own: session.run(None, arrays(own))[0]
    if importlib.util.find_spec("openvino") is not None:
        import openvino

        core = openvino.Core()
        limits = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
        model = core.compile_model(file, "CPU", limits)
        ways[f"OpenVINO {openvino.__version__.split('-')[0]}"] = lambda own: np.array(model(arrays(own))[0])
    return ways


def named(batch: Batch) -> dict[str, torch.Tensor]:
    """Return what an exported model is fed with."""
    ids = batch.input_ids
    return {"input_ids": ids, "attention_mask": batch.attention_mask, "token_type_ids": torch.zeros_like(ids)}


def arrays(batch: Batch) -> dict[str, Any]:
    """Return the same as arrays."""
    return {name: value.numpy() for name, value in named(batch).items()}


def agreement(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare decisions and votes of whole predictions under the same noise."""
    data = load_data("mr", "dev").take(options.num, SEED)
    config = RsmiClassifier.from_pretrained(options.model).config_
    settings: list[tuple[str, dict[str, str]]] = [
        ("float32", {}),
        ("8 bits", {"backend": "int8"}),
        ("bfloat16", {"dtype": "bfloat16"}),
    ]
    # step two for every text, so that each has as many votes to compare
    asked = replace(config, two_step=False, first_votes=20, masking="none")
    found, asking = [], {}
    for name, more in settings:
        whole = RsmiClassifier.from_pretrained(options.model, seed=SEED, progress=False, **more)
        single = RsmiClassifier.from_pretrained(options.model, asked, seed=SEED, progress=False, **more)
        asking[name] = partial(whole.predict_proba, data.texts[:TIMED])
        labels = whole.predict(data.texts)
        masks = [outcome.masks.top for _, _, outcome in whole.engine().outcomes(data.texts, "label")]
        rows = [outcome.decision.first_votes for _, _, outcome in single.engine().outcomes(data.texts)]
        found.append((name, np.array(labels), masks, np.array(rows)))
    _, exact_labels, exact_masks, exact_votes = found[0]
    times = timed(asking, options.repeats)
    return [
        {
            "way": name,
            "n": len(labels),
            "accuracy": float((labels == np.array(data.labels)).mean()),
            "same_decision": float((labels == exact_labels).mean()),
            "same_mask": float(np.mean([own == exact for own, exact in zip(masks, exact_masks, strict=True)])),
            # copies see the same noise: where counts differ by d, at least d votes were cast otherwise
            "votes_moved": float(np.abs(votes - exact_votes).sum() / 2 / exact_votes.sum()),
            "faster": spread(ratio(times, "float32", name)),
        }
        for name, labels, masks, votes in found
    ]


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env = result["environment"]
    lines = [
        "# Backends",
        "",
        f"{env['cores']} cores, {env['threads']} threads, torch {env['versions']['torch']}, commit {env['commit']}, "
        f"seed {result['seed']}. `python benchmarks/backends.py`",
        "",
        f"Forward pass of {ROWS} texts of {TOKENS} tokens, median (least to most) of {result['repeats']} repeats:",
        "",
        "| Way | Faster than transformers by | Difference of a logit: mean | largest | alone and in the batch |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['way']} | {row['median']:.2f} ({row['least']:.2f} to {row['most']:.2f}) "
        f"| {row['mean_difference']:.1e} | {row['largest_difference']:.1e} | {row['moved_by_its_batch']:.1e} |"
        for row in result["forward"]
    ]
    lines += [
        "",
        "Dev sentences of mr, RSMI's prediction; and 20 noisy copies each without masks, the same noise for all ways:",
        "",
        "| Way | n | Accuracy | Same decision as float32 | Same mask in step one | Votes cast otherwise, at least "
        f"| Faster than float32 by ({TIMED} texts) |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['way']} | {row['n']} | {100 * row['accuracy']:.1f} | {100 * row['same_decision']:.1f} % "
        f"| {100 * row['same_mask']:.1f} % | {100 * row['votes_moved']:.2f} % "
        f"| {row['faster']['median']:.2f} ({row['faster']['least']:.2f} to {row['faster']['most']:.2f}) |"
        for row in result["votes"]
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
