"""RSMI's vote on what `rsmi export` wrote, without torch: numpy, onnxruntime and tokenizers.

rsmi export runs/mr --out runs/mr-onnx
python examples/onnx/predict.py runs/mr-onnx "A joy to watch."
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Draws:
    """Where noise and masks come from: by default from the system's entropy, so that nobody can foresee them."""

    def __init__(self, seed: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)

    def noise(self, _step: str, _layer: int, shape: tuple[int, int, int]) -> np.ndarray:
        """Return standard normal noise for the copies of a step, (copies, tokens, width)."""
        return self.rng.standard_normal(shape, dtype=np.float32)

    def masks(self, _step: str, pool: list[int], num: int, copies: int) -> list[list[int]]:
        """Return `num` distinct places of the pool for each copy, all of them where it has fewer."""
        return [list(self.rng.permutation(pool)[:num]) for _ in range(copies)]


class OnnxClassifier:
    """A folder written by `rsmi export`."""

    def __init__(self, folder: Path) -> None:
        self.about = json.loads((folder / "rsmi_onnx.json").read_text(encoding="utf-8"))
        self.config, self.tokens = self.about["config"], self.about["tokens"]
        random_words = any(self.config[name] for name in ("substitution", "word_mask_rate", "word_deletion_rate"))
        if self.config["stop"] != "paper" or random_words:
            sys.exit("expected the two-step vote over masks and noise; this model votes in another way")
        self.tokenizer = Tokenizer.from_file(str(folder / self.tokens["file"]))
        self.tokenizer.encode_special_tokens = True  # what a user types is text, never a special token
        self.tokenizer.enable_truncation(self.tokens["max_length"])
        files = {name: folder / file for name, file in self.about["graphs"].items() if file is not None}
        self.graphs = {name: onnxruntime.InferenceSession(path) for name, path in files.items()}

    def predict(self, text: str | tuple[str, str], draws: Draws) -> dict[str, Any]:
        """Vote in two steps about a text or a pair."""
        row = self.tokenizer.encode(*((text,) if isinstance(text, str) else text))
        free = [place for place, special in enumerate(row.special_tokens_mask) if not special]
        special, ids = set(self.tokens["special_ids"]), np.array(row.ids)
        ids[[place for place in free if row.ids[place] in special]] = self.tokens["unknown_id"]
        masking, num = self.config["masking"], self.config["num_masks"]
        pool = {"none": [], "random": free}.get(masking)
        if pool is None:
            (saliency,) = self._run("saliency", "saliency", ids[None], row.type_ids, draws)
            order = np.argsort(-saliency[free], kind="stable")[: self.config["num_candidates"]]
            pool = [free[place] for place in order]
        planned = self.config["first_votes"]
        masks = [pool[:num]] * planned if masking == "gradient" else draws.masks("first", pool, num, planned)
        logits = first = self._vote("first", ids, row.type_ids, masks, draws)
        second = None
        if self.config["two_step"] and not self._clear(self._counts(first).max()):
            masks = draws.masks("second", pool, num, self.config["second_votes"])
            logits = second = self._vote("second", ids, row.type_ids, masks, draws)
        if self.config["aggregation"] == "vote":
            shares = self._counts(logits) / len(logits)
        else:
            mean = logits.astype(np.float64).mean(0)
            shares = np.exp(mean - mean.max()) / np.exp(mean - mean.max()).sum()
        return {
            "label": self.about["classes"][int(shares.argmax())],
            "probabilities": shares.tolist(),
            "first_votes": self._counts(first).tolist(),
            "second_votes": None if second is None else self._counts(second).tolist(),
            "candidates": pool if masking == "gradient" else [],
        }

    def _vote(self, step: str, ids: np.ndarray, types: list[int], masks: list[list[int]], draws: Draws) -> np.ndarray:
        copies = np.repeat(ids[None], len(masks), 0)
        for copy, mask in zip(copies, masks, strict=True):
            copy[mask] = self.tokens["mask_id"]
        return self._run("votes", step, copies, types, draws)

    def _run(self, graph: str, step: str, ids: np.ndarray, types: list[int], draws: Draws) -> np.ndarray:
        """Run copies of one text; those of several texts need padding with `pad_id`, and 0 in `attention_mask`."""
        values = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        values["token_type_ids"] = np.broadcast_to(np.array(types), ids.shape)
        feed = {name: np.ascontiguousarray(values[name], dtype=np.int64) for name in self.about["inputs"]}
        feed |= {
            own["name"]: draws.noise(step, own["layer"], (*ids.shape, own["width"])) for own in self.about["noise"]
        }
        (output,) = self.graphs[graph].run(["saliency" if graph == "saliency" else "logits"], feed)
        return output

    def _counts(self, logits: np.ndarray) -> np.ndarray:
        return np.bincount(logits.argmax(1), minlength=len(self.about["classes"]))

    def _clear(self, top: int) -> bool:
        """Whether P[Bin(first_votes, 1/2) <= top] reaches stop_confidence."""
        votes = self.config["first_votes"]
        return sum(math.comb(votes, k) for k in range(top + 1)) / 2**votes >= self.config["stop_confidence"]


def main() -> None:
    classifier = OnnxClassifier(Path(sys.argv[1]))
    for text in sys.argv[2:]:
        print(json.dumps(classifier.predict(text, Draws())))


if __name__ == "__main__":
    main()
