"""Does an installed rsmi work? Train, predict, attack, certify and report with a tiny random model (`make release`).

Needs nothing but the package itself: no checkout, no embedded data, no network. Exits with 0 if every step did what it
should.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points, version
from importlib.resources import files
from io import StringIO
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

GOOD = ["good", "great", "fine", "warm", "joy", "love"]
BAD = ["bad", "poor", "dull", "cold", "bore", "hate"]
WORDS = [*GOOD, *BAD, *["a", "the", "film", "plot", "cast", "story", "was", "and", "very", "it"]]
SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROWS = [
    (f"the {part} was {words[i]} and {words[i + 1]}", label)
    for words, label in ((GOOD, "pos"), (BAD, "neg"))
    for part in ("film", "plot")
    for i in range(5)
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--inside", type=Path, help="fail unless rsmi is imported from this folder")
    options.add_argument("--serve", action="store_true", help="start the server, too (needs rsmi[serve])")
    wanted = options.parse_args()
    import rsmi

    place = Path(rsmi.__file__).resolve()
    expect(wanted.inside is None or wanted.inside.resolve() in place.parents, f"rsmi comes from {place}")
    expect(place.with_name("py.typed").is_file(), "py.typed is missing: type checkers would ignore the types")
    with tempfile.TemporaryDirectory(prefix="rsmi-smoke-") as folder:
        os.environ["RSMI_CACHE"] = str(Path(folder) / "cache")
        os.chdir(folder)
        walk_through()
        if wanted.serve:
            ask_server()
    sys.stderr.write(f"smoke: rsmi {rsmi.__version__} from {place.parent} works\n")


def walk_through() -> None:
    """Go a newcomer's way, in the working directory."""
    with open("reviews.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *ROWS])
    expect(rsmi("--version").strip() == version("rsmi"), "rsmi --version does not tell the installed version")
    doctor = json.loads(rsmi("doctor", "--json", codes=(0, 1)))  # 1: the embedded default is not installed
    expect(doctor["versions"]["rsmi"] == version("rsmi"), "rsmi doctor names another version")
    write_base(Path("base"))
    train = ["--base", "base", "--noise-layers", "1", "--num-masks", "1", "--epochs", "2", "--learning-rate", "1e-3"]
    trained = json.loads(rsmi("train", "reviews.csv", "--out", "model", *train, "--batch-size", "8", "--json"))
    expect(trained["num_texts"] + trained["num_dev_texts"] == len(ROWS), f"trained on {trained['num_texts']} texts")
    answer = json.loads(rsmi("predict", "model", "a good film", "--seed", "0", "--json"))
    expect(answer["label"] in ("neg", "pos"), f"predicted {answer['label']!r}")
    attack = ["--attack", "deepwordbug", "--num", "3", "--max-queries", "30", "--fresh-draws", "2"]
    rsmi("attack", "model", "reviews.csv", "--out", "attack.jsonl", *attack)
    rsmi(
        "certify", "model", "reviews.csv", "--out", "certify.jsonl", "--num", "2", "--samples", "20", "--selection", "5"
    )
    rsmi("report", "attack.jsonl", "certify.jsonl", "--out", "report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    for asset in ("page.css", "page.js"):
        expect(
            files("rsmi.report").joinpath(asset).read_text("utf-8").strip()[:40] in page, f"the report lacks {asset}"
        )
    own = files("rsmi.app.server").joinpath("page")
    for asset in ("frame.html", "style.css", "asking.js", "decision.js", "typing.js", "attack.js", "start.js"):
        expect(bool(own.joinpath(asset).read_text("utf-8").strip()), f"the playground lacks {asset}")


def ask_server() -> None:
    """Start `rsmi serve` in a process of its own, ask it, and stop it."""
    words = [sys.executable, "-m", "rsmi", "serve", "model", "--port", "0", "--seed", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            events: dict[str, dict[str, object]] = {}
            while "ready" not in events and server.stderr is not None and (line := server.stderr.readline()):
                event = json.loads(line)
                events[event["event"]] = event
            expect("ready" in events, f"the server got no further than {list(events)}")
            base = f"http://127.0.0.1:{events['listening']['port']}"
            with urllib.request.urlopen(f"{base}/", timeout=30) as page:
                expect(b"<script>" in page.read(), "the playground has no script")
            body = json.dumps({"text": "a good film"}).encode()
            request = urllib.request.Request(f"{base}/v1/predict", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                expect(json.load(answer)["results"][0]["label"] in ("neg", "pos"), "the server knows other classes")
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
    expect(server.returncode == 0, f"the server ended with {server.returncode} after SIGTERM")


def rsmi(*words: str, codes: Sequence[int] = (0,)) -> str:
    """Run the console script's own function in this process and return what it printed."""
    (script,) = entry_points(group="console_scripts", name="rsmi")
    out, err = StringIO(), StringIO()
    sys.argv = ["rsmi", *words]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            script.load()()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    expect(code in codes, f"rsmi {' '.join(words)} ended with {code}: {err.getvalue()}")
    sys.stderr.write(f"smoke: rsmi {' '.join(words)}\n")
    return out.getvalue()


def write_base(folder: Path) -> None:
    """Save a random two-layer BERT with a word-level tokenizer."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    torch.manual_seed(0)
    vocabulary = {word: i for i, word in enumerate([*SPECIALS.values(), *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=SPECIALS["unk"]))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(SPECIALS[name], vocabulary[SPECIALS[name]]) for name in ("cls", "sep")]
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = {f"{name}_token": token for name, token in SPECIALS.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    with redirect_stderr(StringIO()):  # a progress bar
        BertForSequenceClassification(config).save_pretrained(folder)


def expect(holds: bool, complaint: str) -> None:
    """End with 1 where something is not as it should be."""
    if not holds:
        sys.stderr.write(f"smoke: {complaint}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
