"""Packaged text + the embedded encoder -> the small head that makes it a masked language model.

A head on the frozen encoder (rank 0) does hardly better than word frequencies: what tells words apart at a masked place
was lost when MiniLM was tuned to average its tokens. A low-rank change of its layers brings it back, stays small enough
to ship, and is added to the weights on loading, so the result is an ordinary `BertForMaskedLM`.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from tqdm.auto import tqdm
from transformers import AutoModelForMaskedLM, PreTrainedModel

from rsmi.data.embedded import encoder_folder
from rsmi.data.packages import sha256_of
from rsmi.errors import ConfigError, DataError
from rsmi.method.pretrained import as_device
from rsmi.resources.hub_models import Opened, open_model
from rsmi.resources.masked_lm_corpus import Corpus, Hidden, Hider, batches, corpora, mixture
from rsmi.resources.masked_lm_snapshot import Snapshot
from rsmi.resources.masked_lm_weights import BUILD, DOWN, HEAD_FILE, RECORD_FILE, UP, apply_head
from rsmi.resources.stopwords import NLTK_ENGLISH
from rsmi.seeds import derive, generator

_GAIN: Final = 2.0  # of the low-rank change while it is learnt; part of `up` once it is saved
_WARM_UP: Final = 0.06
_HEAD: Final = "cls.predictions."


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """How a head is trained."""

    num_tokens: int = 400_000
    """Tokens read, once each."""
    rank: int = 6
    """Rank of the change of each matrix; 0 leaves the encoder as it is and trains the head alone."""
    learning_rate: float = 2e-3
    """Peak, of the low-rank change; the head has half of it."""
    batch_tokens: int = 1024
    """Tokens of a batch, padding included."""
    hidden_share: float = 0.2
    """Words hidden in training."""
    review_share: float = 0.8
    """Passages that are reviews; the others are from books."""
    num_judged: int = 1000
    """Held-out passages of each kind it is judged on, one hidden word each."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.num_tokens, self.batch_tokens, self.num_judged) < 1 or self.rank < 0 or self.learning_rate <= 0:
            raise ConfigError(f"expected counts and a learning rate above 0 and a rank from 0 on, got {self}")


def build_head(
    out: str | Path, *, progress: bool = True, device: str | None = None, save_every: int = 100, **settings: Any
) -> dict[str, Any]:
    """Train a head and write it to the folder `out` with a record of how it was made.

    A run that was stopped goes on where it last saved if it is started again with the same settings.

    Args:
        out: Folder for `minilm_mlm_head.safetensors` and `.json`; `MaskedLM.open(out)` reads them.
        progress: Show a bar.
        device: Where to train.
        save_every: Batches between two saves.
        **settings: Fields of `HeadSettings`, such as `seed`.

    Returns:
        The record.
    """
    chosen, folder, start = HeadSettings(**settings), Path(out), time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{out}: expected a folder that can be written, got {error.strerror or error}") from error
    opened, parts = _encoder(device), corpora(chosen.seed)
    hider = Hider(opened.tokenizer)
    judged = {part.name: _judged(part, hider, chosen) for part in parts}
    model = opened.encoder.model
    untrained = {name: judge(model, hider, sets, model.get_output_embeddings()) for name, sets in judged.items()}
    rows = _training_rows(parts, hider, chosen)
    counts = hider.counts(rows)
    snapshot = Snapshot(folder / ".training.safetensors", {**asdict(chosen), "torch": torch.__version__}, save_every)
    tensors = train_head(model, hider, rows, chosen, snapshot, progress)
    _write(folder / HEAD_FILE, lambda path: save_file(tensors, path))

    fresh = _encoder(device).encoder.model  # what is judged is what the file holds, rounded as it is
    apply_head(fresh, tensors)
    record: dict[str, Any] = {
        "command": BUILD,
        "what": "low-rank change of all-MiniLM-L6-v2 and a masked-LM head with tied embeddings; not stock BERT",
        "sha256": sha256_of(folder / HEAD_FILE),
        "encoder_sha256": sha256_of(encoder_folder() / "model.safetensors"),
        **asdict(chosen),
        "tokens_read": sum(map(len, rows)),
        "passages_read": len(rows),
        "corpora": {part.name: part.source for part in parts},
        "held_out": {name: judge(fresh, hider, sets) for name, sets in judged.items()},
        "unigram": {name: judge_unigram(counts, hider, sets) for name, sets in judged.items()},
        "untrained": untrained,
        "seconds": round(time.monotonic() - start),
        "threads": torch.get_num_threads(),  # another number rounds otherwise
        "versions": {name: version(name) for name in ("rsmi", "torch", "transformers", "tokenizers")},
    }
    _write(folder / RECORD_FILE, lambda path: path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8"))
    snapshot.remove()
    return record


def train_head(
    model: PreTrainedModel,
    hider: Hider,
    rows: Sequence[Sequence[int]],
    settings: HeadSettings,
    snapshot: Snapshot | None = None,
    progress: bool = False,
) -> dict[str, Tensor]:
    """Train the head of a `BertForMaskedLM`, and a low-rank change of its layers, on tokenized passages.

    Returns:
        What `masked_lm_weights.apply_head` adds to the untrained model, in float16.
    """
    plan = batches(rows, settings.batch_tokens, settings.seed)
    device = model.device
    _start_head(model, hider.counts(rows))
    factors = _factors(model, settings)
    vectors = {name: p for name, p in model.named_parameters() if p.dim() == 1 and ".encoder." in name}
    head = {name: p for name, p in model.named_parameters() if name.startswith(_HEAD) and "decoder" not in name}
    change = {**factors, **(vectors if settings.rank else {})}
    model.requires_grad_(False)
    for parameter in (trained := {**change, **head}).values():
        parameter.requires_grad_(True)
    rates = [settings.learning_rate] * len(change) + [settings.learning_rate / 2] * len(head)
    groups = [{"params": [p], "lr": rate} for p, rate in zip(trained.values(), rates, strict=True)]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0)
    done = snapshot.load(trained, optimizer) if snapshot else 0
    with (
        _low_rank(model, factors),
        tqdm(total=len(plan), initial=done, desc="masked-LM head", unit="batch", disable=not progress) as bar,
    ):
        for step in range(done, len(plan)):
            hidden = hider.hide([rows[i] for i in plan[step]], settings.hidden_share, derive(settings.seed, step))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * _schedule(step, len(plan))
            if len(hidden.targets):
                loss = functional.cross_entropy(logits_at(model, hidden), hidden.targets.to(device))
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(trained.values(), 1.0)
                optimizer.step()
                bar.set_postfix(loss=f"{loss.item():.2f}")
            bar.update()
            if snapshot:
                snapshot.save(step + 1, trained, optimizer)
    for name, factor in factors.items():
        trained[name] = factor * (_GAIN if name.endswith(UP) else 1.0)
    return {name: p.detach().to("cpu", torch.float16).contiguous() for name, p in trained.items()}


def logits_at(model: PreTrainedModel, hidden: Hidden, head: nn.Module | None = None) -> Tensor:
    """Return logits over the vocabulary for each hidden word, (hidden words, vocabulary), by its own head or `head`."""
    ids, attention = hidden.input_ids.to(model.device), hidden.attention_mask.to(model.device)
    states = model.base_model(input_ids=ids, attention_mask=attention).last_hidden_state
    logits: Tensor = (head or model.cls)(states[hidden.places.to(model.device)])
    return logits


@torch.no_grad()
def judge(
    model: PreTrainedModel, hider: Hider, sets: Sequence[Hidden], head: nn.Module | None = None
) -> dict[str, float]:
    """Return how well held-out hidden words are guessed."""
    scores = [logits_at(model, hidden, head).float().log_softmax(-1).cpu() for hidden in sets]
    return _scores(torch.cat(scores), torch.cat([hidden.targets for hidden in sets]), hider)


def judge_unigram(counts: Tensor, hider: Hider, sets: Sequence[Hidden]) -> dict[str, float]:
    """Return how well the frequencies of words alone guess them."""
    targets = torch.cat([hidden.targets for hidden in sets])
    smoothed = (counts + 0.5 * hider.is_word).clamp_min(1e-6)
    return _scores((smoothed / smoothed.sum()).log().expand(len(targets), -1), targets, hider)


def _scores(log_probs: Tensor, targets: Tensor, hider: Hider) -> dict[str, float]:
    hits = log_probs.topk(5, dim=-1).indices == targets[:, None]
    words = hider.tokenizer.convert_ids_to_tokens(targets.tolist())
    content = torch.tensor([word not in NLTK_ENGLISH for word in words])
    loss = functional.nll_loss(log_probs, targets).item()
    figures = {
        "perplexity": math.exp(min(loss, 50.0)),
        "top1": hits[:, 0].float().mean().item(),
        "top5": hits.any(1).float().mean().item(),
        "top5_no_stopwords": hits[content].any(1).float().mean().item(),
    }
    return {"n": len(targets), "n_no_stopwords": int(content.sum()), **{k: round(v, 4) for k, v in figures.items()}}


def _encoder(device: str | None) -> Opened:
    return open_model(AutoModelForMaskedLM, encoder_folder(), as_device(device), "install the package again")


def _training_rows(parts: Sequence[Corpus], hider: Hider, settings: HeadSettings) -> list[list[int]]:
    """Tokenize passages until there are enough tokens."""
    rows: list[list[int]] = []
    passages, total = mixture(parts, settings.review_share, settings.seed), 0
    while total < settings.num_tokens and (some := list(islice(passages, 200))):
        for row in hider.encode(some):
            if total < settings.num_tokens:
                rows.append(row)
                total += len(row)
    return rows


def _judged(part: Corpus, hider: Hider, settings: HeadSettings) -> list[Hidden]:
    rows = hider.encode(part.held_out[: settings.num_judged])
    plan = batches(rows, settings.batch_tokens, settings.seed)
    return [hider.hide_one([rows[i] for i in group], derive(settings.seed, "judged", group[0])) for group in plan]


@torch.no_grad()
def _start_head(model: PreTrainedModel, counts: Tensor) -> None:
    """Begin at word frequencies, with a transform that changes nothing but the scale."""
    transform, bias = model.cls.predictions.transform, model.cls.predictions.bias
    nn.init.eye_(transform.dense.weight)
    transform.dense.bias.zero_()
    bias.copy_(((counts + 0.3) / (counts + 0.3).sum()).log().to(bias))


def _factors(model: PreTrainedModel, settings: HeadSettings) -> dict[str, nn.Parameter]:
    """Return the two factors for each matrix of the layers; the second is zero, so nothing is changed yet."""
    found: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if settings.rank and parameter.dim() == 2 and ".encoder." in name:
            out, width = parameter.shape
            rng = generator(derive(settings.seed, name))
            down = torch.randn(settings.rank, width, generator=rng) / math.sqrt(width)
            found[name + DOWN] = nn.Parameter(down.to(model.device))
            found[name + UP] = nn.Parameter(torch.zeros(out, settings.rank, device=model.device))
    return found


@contextmanager
def _low_rank(model: PreTrainedModel, factors: dict[str, nn.Parameter]) -> Iterator[None]:
    """Add the low-rank change to the layers' outputs while the block runs: cheaper than adding it to their weights."""

    def adding(down: Tensor, up: Tensor) -> Any:
        return lambda _layer, args, output: output + _GAIN * functional.linear(functional.linear(args[0], down), up)

    modules = {name: module for name, module in model.named_modules() if f"{name}.weight{DOWN}" in factors}
    handles = [
        module.register_forward_hook(adding(factors[f"{name}.weight{DOWN}"], factors[f"{name}.weight{UP}"]))
        for name, module in modules.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _schedule(step: int, steps: int) -> float:
    """Rise, then fall in a straight line."""
    return min(1.0, (step + 1) / (_WARM_UP * steps)) * max(0.02, 1 - step / steps)


def _write(path: Path, write: Any) -> None:
    """Write a file beside `path` and put it in its place in one step."""
    partial = path.with_name(f".{path.name}.part")
    try:
        write(partial)
        partial.chmod(0o644)  # safetensors writes private files
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
