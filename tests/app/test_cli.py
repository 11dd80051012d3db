"""The command line: results on stdout, everything else on stderr, errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rsmi import RsmiClassifier, RsmiConfig, __version__
from rsmi.app.cli import app
from toy import CONFIG, TEXTS

UNSEEN = ["a fine film", "dull and cold"]


def _one_line(err):
    assert err.startswith("rsmi: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_train_saves_a_model_that_predict_and_evaluate_read(run, table, base, tmp_path):
    out = tmp_path / "model"
    words = ("--base", base, "--noise-layers", "0,1", "--num-masks", 1, "--epochs", 2, "--learning-rate", 1e-3)
    code, stdout, stderr = run("train", table, "--out", out, *words, "--batch-size", 8, "--json")
    assert code == 0, stderr
    report = json.loads(stdout)
    assert report["folder"] == str(out)
    assert report["num_texts"] + report["num_dev_texts"] == len(TEXTS)
    assert report["train_config"]["epochs"] == 2
    assert report["dev_accuracy"] == max(epoch["dev_accuracy"] for epoch in report["history"])
    assert "training and" in stderr
    saved = RsmiClassifier.from_pretrained(out).config_
    assert saved == RsmiConfig(noise_layers=(0, 1), num_masks=1)
    assert run("predict", out, "a fine film", "--seed", 0)[0] == 0
    assert run("evaluate", out, table, "--num", 8, "--seed", 0)[0] == 0


def test_train_by_finetuning_saves_the_plain_variant(run, table, base, tmp_path):
    out = tmp_path / "model"
    words = ("--base", base, "--method", "finetune", "--epochs", 1, "--limit", 16)
    code, stdout, _ = run("train", table, "--out", out, *words)
    assert code == 0
    assert stdout.startswith(f"saved {out}: finetune")
    assert stdout.count("\n") == 1
    assert RsmiClassifier.from_pretrained(out).config_ == RsmiConfig.variant("plain")


def test_a_profile_gives_way_to_options(run, table, base, tmp_path):
    out = tmp_path / "model"
    words = ("--base", base, "--profile", "robust", "--noise-layers", 1, "--max-length", 32, "--epochs", 1)
    code, _, stderr = run("train", table, "--out", out, *words)
    assert code == 0, stderr
    asked = RsmiConfig.profile("robust", noise_layers=1, max_length=32)
    assert RsmiClassifier.from_pretrained(out).config_ == asked


def test_a_preset_gives_what_the_options_do_not(run, table, base, tmp_path):
    out = tmp_path / "model"
    words = (
        "--base",
        base,
        "--preset",
        "paper/bert-base/ag_news",
        "--epochs",
        1,
        "--num-masks",
        6,
        "--noise-layers",
        1,
    )
    code, _, stderr = run("train", table, "--out", out, *words)
    assert code == 0, stderr
    saved = json.loads((out / "rsmi_config.json").read_text())
    assert saved["training"]["train_config"]["batch_size"] == 24
    assert saved["training"]["train_config"]["learning_rate"] == 1e-5
    assert saved["training"]["train_config"]["epochs"] == 1
    assert saved["config"]["noise_std"] == 0.2
    assert saved["config"]["noise_layers"] == 1
    assert saved["config"]["num_masks"] == saved["config"]["num_candidates"] == 6


def test_train_by_safer_keeps_its_table(run, table, base, tmp_path):
    synonyms = tmp_path / "synonyms.json"
    synonyms.write_text('{"good": ["fine", "great"], "bad": ["poor"]}')
    words = ("--base", base, "--method", "safer", "--epochs", 1, "--out", tmp_path / "model")
    code, _, stderr = run("train", table, *words, "--synonyms", synonyms)
    assert code == 0, stderr
    synonyms.unlink()
    assert run("predict", tmp_path / "model", "a good film", "--seed", 0)[0] == 0
    saved = json.loads((tmp_path / "model" / "rsmi_config.json").read_text())
    assert saved["config"]["substitution"]
    assert saved["training"]["train_config"]["method"] == "safer"
    code, _, stderr = run("train", table, *words[:-1], tmp_path / "other")
    assert code == 1
    assert "--synonyms FILE" in _one_line(stderr.splitlines()[-1] + "\n")


def test_train_by_advaug_counts_what_was_added(run, table, base, tmp_path):
    added = tmp_path / "adversarial.csv"
    added.write_text("text,label\nwarm and fine,pos\ncold and poor,neg\ndull film,neg\n")
    words = ("--base", base, "--method", "advaug", "--epochs", 1, "--out", tmp_path / "model", "--json")
    code, stdout, stderr = run("train", table, *words, "--added", added)
    assert code == 0, stderr
    assert json.loads(stdout)["num_added_texts"] == 3


def test_any_setting_can_be_given_by_name(run, table, base, tmp_path):
    words = ("--base", base, "--epochs", 1, "--out", tmp_path / "model", "--noise-layers", 2)
    asked = ("--set", "micro_batch_size=4", "--set", "precision=bf16", "--set", "num_candidates=7")
    code, _, stderr = run("train", table, *words, *asked)
    assert code == 0, stderr
    saved = json.loads((tmp_path / "model" / "rsmi_config.json").read_text())
    assert saved["training"]["train_config"]["micro_batch_size"] == 4
    assert saved["training"]["train_config"]["precision"] == "bf16"
    assert saved["config"]["num_candidates"] == 7
    for wrong, named in (("nonsense=1", "nonsense"), ("precision", "NAME=VALUE"), ("precision=fp7", "precision")):
        code, _, stderr = run("train", table, *words, "--set", wrong)
        assert code == 1
        assert named in _one_line(stderr)


def test_an_interrupted_run_says_how_to_go_on(run, table, base, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(RsmiClassifier, "fit", interrupted)
    code, stdout, stderr = run("train", table, "--base", base, "--out", tmp_path / "model")
    assert (code, stdout) == (130, "")
    assert "--resume" in stderr


def test_nothing_to_resume_starts_from_the_beginning(run, table, base, tmp_path):
    words = ("--base", base, "--method", "finetune", "--epochs", 1, "--out", tmp_path / "model")
    code, _, stderr = run("train", table, *words, "--resume")
    assert code == 0, stderr
    assert "nothing to resume" in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_train_refuses_a_full_folder_before_training(run, table, base, tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("years of work")
    monkeypatch.setattr(RsmiClassifier, "fit", None)
    code, stdout, stderr = run("train", table, "--out", tmp_path, "--base", base)
    assert (code, stdout) == (1, "")
    assert "expected a new or empty folder" in _one_line(stderr)


def test_predict_prints_a_line_a_text(run, model):
    code, stdout, stderr = run("predict", model, *UNSEEN, "--seed", 0)
    expected = RsmiClassifier.from_pretrained(model, seed=0).predict(UNSEEN)
    assert (code, stderr) == (0, "")
    lines = stdout.splitlines()
    assert [line.split()[0] for line in lines] == expected.tolist()
    assert all(line.endswith(text) for line, text in zip(lines, UNSEEN, strict=True))


@pytest.mark.parametrize("explain", [False, True])
def test_predict_prints_json_a_text(run, model, explain):
    code, stdout, _ = run("predict", model, *UNSEEN, "--seed", 0, "--json", *(["--explain"] if explain else []))
    assert code == 0
    for line, prediction in zip(
        stdout.splitlines(), RsmiClassifier.from_pretrained(model, seed=0).explain(UNSEEN), strict=True
    ):
        full = json.loads(json.dumps(prediction.to_dict()))
        brief = {name: full[name] for name in ("text", "label", "probabilities", "escalated", "truncated", "copies")}
        assert json.loads(line) == (full if explain else brief)


def test_predict_explains_masks_and_votes(run, model):
    code, stdout, _ = run("predict", model, "a fine film", "--explain", "--seed", 0)
    assert code == 0
    assert "a fine film" in stdout
    for word in ("decision", "every copy hides", "drawn from", "step one"):
        assert word in stdout


@pytest.mark.parametrize("variant", ["no-mask", "rm", "gm", "plain"])
def test_predict_explains_every_variant(run, model, variant):
    code, stdout, _ = run("predict", model, "a fine film", "--explain", "--variant", variant)
    assert code == 0
    assert "masks" in stdout


def test_predict_reads_a_file_with_progress_on_stderr_only(run, model, table):
    code, stdout, stderr = run("predict", model, "--file", table, "--json", "--variant", "plain")
    assert code == 0
    assert [json.loads(line)["text"] for line in stdout.splitlines()] == TEXTS
    assert "classify" in stderr
    assert f"{len(TEXTS)}text" in stderr.replace(" ", "")


def test_predict_reads_pairs_from_a_file(run, model, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("question,answer\ngood film,the end\n")
    words = ("--text-column", "question", "--pair-column", "answer", "--json")
    code, stdout, _ = run("predict", model, "--file", path, *words)
    assert code == 0
    assert json.loads(stdout)["text"] == ["good film", "the end"]


def test_predict_prints_what_came_before_a_broken_row(run, model, tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"text": "a good film"}\n{"text": "a bad film"}\n{"text": "half\n{"text": "never read"}\n')
    code, stdout, stderr = run("predict", model, "--file", path, "--json")
    assert code == 1
    assert [json.loads(line)["text"] for line in stdout.splitlines()] == ["a good film", "a bad film"]
    assert "rsmi: " in stderr
    assert "broken.jsonl" in stderr
    assert "Traceback" not in stderr


def test_predict_prints_what_came_before_a_broken_csv_row(run, model, tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text("text,other\na good film,1\na bad film,2\nfar,too,many,cells\n")
    code, stdout, stderr = run("predict", model, "--file", path, "--json")
    assert code == 1
    assert [json.loads(line)["text"] for line in stdout.splitlines()] == ["a good film", "a bad film"]
    assert "broken.csv" in stderr


def test_evaluate_prints_accuracy_and_interval(run, model, table):
    code, stdout, stderr = run("evaluate", model, table, "--seed", 0)
    assert code == 0
    assert stdout.startswith("SAcc ")
    assert stdout.count("\n") == 1
    assert f"n = {len(TEXTS)}" in stdout
    assert "classify" in stderr


def test_evaluate_prints_json(run, model, table):
    code, stdout, _ = run("evaluate", model, table, "--num", 12, "--seed", 3, "--variant", "gm", "--json")
    assert code == 0
    report = json.loads(stdout)
    assert report["total"] == 12
    assert 0 <= report["low"] <= report["value"] <= report["high"] <= 1
    assert report["value"] == report["correct"] / 12
    assert (report["seed"], report["abstained"], report["split"]) == (3, 0, "test")
    assert RsmiConfig.from_dict(report["config"]) == CONFIG.as_variant("gm")
    assert {"model", "data", "source", "fingerprint"} <= set(report)


def test_doctor_reports_versions_and_resources(run):
    code, stdout, _ = run("doctor", "--json")
    report = json.loads(stdout)
    assert code == (0 if all(entry["present"] for entry in report["resources"]) else 1)
    assert report["versions"]["rsmi"] == __version__
    assert report["devices"][0].startswith("cpu")
    assert all(entry["install"] for entry in report["resources"])
    code, stdout, _ = run("doctor")
    assert "torch" in stdout
    assert "RSMI_DATA" in stdout


ERRORS = {
    "no such model": ("predict", "no/such-model", "good"),
    "no such file": ("predict", "{model}", "--file", "no-such-file.csv"),
    "no such data": ("evaluate", "{model}", "no-such-file.csv"),
    "empty text": ("predict", "{model}", " "),
    "unknown variant": ("predict", "{model}", "good", "--variant", "nomask"),
    "unknown device": ("predict", "{model}", "good", "--device", "abacus"),
    "unknown dtype": ("predict", "{model}", "good", "--dtype", "float8"),
    "unknown method": ("train", "{table}", "--out", "{new}", "--base", "{base}", "--method", "magic"),
    "too much noise layers": ("train", "{table}", "--out", "{new}", "--base", "{base}", "--noise-layers", "9"),
    "odd noise layers": ("train", "{table}", "--out", "{new}", "--base", "{base}", "--noise-layers", "a,b"),
    "unknown preset": ("train", "{table}", "--out", "{new}", "--base", "{base}", "--preset", "paper/gpt/imdb"),
    "no epochs": ("train", "{table}", "--out", "{new}", "--base", "{base}", "--epochs", "0"),
    "negative noise": ("train", "{table}", "--out", "{new}", "--base", "{base}", "--noise-std", "-1"),
    "no such column": ("evaluate", "{model}", "{table}", "--text-column", "nothing"),
}


@pytest.mark.parametrize("words", ERRORS.values(), ids=ERRORS)
def test_an_error_is_one_line_on_stderr_and_exit_code_1(run, words, model, table, base, tmp_path):
    places = {"model": model, "table": table, "base": base, "new": tmp_path / "new"}
    code, stdout, stderr = run(*(word.format(**places) for word in words))
    assert (code, stdout) == (1, "")
    # train says what it read before it finds out; the error is the last line
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1].startswith("rsmi: ")
    assert sum(line.startswith("rsmi: ") for line in stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [("predict", "model"), ("predict", "model", "good", "--file", "x.csv"), ("bogus",)])
def test_wrong_usage_is_exit_code_2(run, words):
    code, stdout, stderr = run(*words)
    assert (code, stdout) == (2, "")
    assert "Traceback" not in stderr


def test_the_runner_sees_version_and_every_command():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__
    help_text = CliRunner().invoke(app, ["--help"]).output
    for command in ("train", "predict", "evaluate", "doctor", "demo"):
        assert command in help_text
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_help_does_not_import_torch():
    code = (
        "import sys; sys.argv = ['rsmi', '--help']\n"
        "import runpy\n"
        "try:\n    runpy.run_module('rsmi', run_name='__main__')\n"
        "except SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'torch', 'transformers', 'datasets', 'sklearn', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert done.stderr == ""


def test_a_text_cannot_send_escape_sequences_to_the_terminal(capsys):
    from rsmi.app.show import print_explanation, print_line
    from rsmi.records import Prediction, Token

    text = "fine\x1b[2J\x9b31m \u202eevil"
    token = Token(text="\x1b[2J", start=4, end=8, sequence=0, saliency=1.0)
    prediction = Prediction(
        text=text,
        label="pos",
        probabilities={"neg": 0.0, "pos": 1.0},
        first_votes={"neg": 0, "pos": 5},
        second_votes=None,
        masked=(0,),
        candidates=(0,),
        masks_wanted=2,
        truncated=False,
        tokens=(token,),
    )
    print_line(prediction)
    print_explanation(prediction)
    shown = capsys.readouterr().out
    assert "fine" in shown
    assert not any(code in shown for code in ("\x1b", "\x9b", "\u202e"))
