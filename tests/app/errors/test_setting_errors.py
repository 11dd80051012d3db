"""Numbers out of range, misspelt names and options: refused before any work, with the nearest name."""

from __future__ import annotations

import pytest

from command import complaint

TRAINING = {
    "--epochs -1": ("epochs", "-1", ">= 1"),
    "--epochs 0": ("epochs", ">= 1"),
    "--noise-std nan": ("noise_std", "nan", "finite"),
    "--noise-std -1": ("noise_std", "-1.0", ">= 0"),
    "--num-masks 0": ("num_masks", ">= 1"),
    "--max-length 1": ("max_length", ">= 4"),
    "--learning-rate 0": ("learning_rate", "> 0"),
    "--batch-size -5": ("batch_size", "-5"),
    "--lora-rank -1": ("lora_rank", "-1"),
    "--save-every 0": ("save_every", ">= 1"),
    "--seed -1": ("seed", "-1", "at least 0"),
    "--noise-layers a,b": ("--noise-layers", "'a,b'", "0,4,8"),
    "--noise-layers 0,9": ("noise_layers", "[9]", "below 2"),
    "--noise-layers 9": ("noise_layers", "from 1 to 2"),
    "--method rsim": ("method", "'rsim'", "did you mean 'rsmi'?"),
    "--variant nomask": ("'nomask'", "did you mean 'no-mask'?"),
    "--preset paper/roberta-base/imbd": ("'paper/roberta-base/imbd'", "did you mean 'paper/roberta-base/imdb'?"),
    "--profile balance": ("profile", "'balance'", "did you mean 'balanced'?"),
    "--profile robust --variant no-mask": ("--profile", "--variant no-mask", "choose one"),
    "--profile robust --preset minilm/mr": ("--profile", "--preset", "choose one"),
    "--profile robust --method finetune": ("--profile", "--method finetune", "choose one"),
    "--set noise_sdt=1": ("--set", "'noise_sdt'", "did you mean 'noise_std'?"),
    "--set epoch=1": ("--set", "'epoch'", "did you mean 'epochs'?"),
    "--set epochs": ("--set", "NAME=VALUE", "'epochs'"),
    "--set =1": ("--set", "NAME=VALUE", "'=1'"),
    "--set epochs=many": ("epochs", "'many'", "an int"),
    "--set noise_std=null": ("noise_std", "None", "a number"),
    "--set precision=fp17": ("precision", "'fp17'", "did you mean 'fp16'?"),
    "--set report_to=tensorbord": ("report_to", "'tensorbord'", "did you mean 'tensorboard'?"),
    "--synonyms nowhere.json": ("nowhere.json", "expected JSON such as"),
    "--method safer": ("synonyms", "--synonyms FILE"),
    "--method advaug --attack textfoler": ("'textfoler'", "did you mean 'textfooler'?"),
    "--method advaug --added nowhere.csv": ("nowhere.csv", "check the path"),
    "--added {table}": ("'rsmi'", "advaug"),
    "--device abacus": ("'abacus'", "cpu"),
}
ATTACKING = {
    "--attack textfoler": ("'textfoler'", "did you mean 'textfooler'?"),
    "--attack textfooler": ("word vectors", "rsmi resources build vectors"),
    "--attack textattack:pwws": ("textattack", "pip install"),
    "--protocol fixednoise": ("'fixednoise'", "did you mean 'fixed-noise'?"),
    "--protocol white-box": ("white-box", "hotflip, gbda", "deepwordbug"),
    "--protocol mask-aware --variant no-mask": ("mask-aware", "masking='none'"),
    "--set max_edit=1": ("'max_edit'", "did you mean 'max_edits'?"),
    "--set max_queries=lots": ("max_queries", "'lots'", "right type"),
    "--set max_queries=-1": ("max_queries", "-1", "1 or more"),
    "--set max_queries": ("--set", "NAME=VALUE"),
    "--variant rsim": ("'rsim'", "did you mean 'rsmi'?"),
    "--classes a,b": ("classes", "leave it out"),
    "--rename pos": ("--rename", "THEIRS=OURS", "'pos'"),
}
CERTIFYING = {
    "--kind l2-hiden": ("'l2-hiden'", "did you mean 'l2-hidden'?"),
    "--kind l0-mask": ("word_mask_rate", "rsmi train DATA --method finetune --variant ranmask"),
    "--bound bonferoni": ("'bonferoni'", "did you mean 'bonferroni'?"),
    "--masking al-masks": ("'al-masks'", "did you mean 'all-masks'?"),
    "--failure-prob 0": ("failure_prob", "0.0", "between 0 and 1"),
    "--failure-prob nan": ("failure_prob", "nan"),
    "--set word_mask_rat=1": ("word_mask_rat", "did you mean 'word_mask_rate'?"),
    "--set word_mask_rate=2": ("word_mask_rate", "[0, 1)"),
    "--against nowhere.jsonl": ("nowhere.jsonl", "check the path"),
}
OTHERS = {
    "evaluate {model} {table} --suite standrd --out s": ("'standrd'", "did you mean 'standard'?"),
    "evaluate {model} {table} --suite standard": ("--out FOLDER",),
    "reproduce tabel1": ("'tabel1'", "did you mean 'table1'?"),
    "reproduce table1 --scale smal": ("'smal'", "did you mean 'small'?"),
    "analyse copies {model} {table} --out c --counts 1,x": ("--counts", "'1,x'", "such as 1,5,50"),
    "analyse copies {model} {table} --out c --attack pwsw": ("'pwsw'", "did you mean 'pwws'?"),
    "analyse monitoring {model} x.jsonl --fit a --weights b": ("--fit", "neither --weights"),
    "gate {model} {table} --min-accuracy 0.5 --report r.pdf": ("r.pdf", ".html"),
    "serve {model} --attack textfoler --port 0": ("'textfoler'", "did you mean 'textfooler'?"),
    "serve {model} --timeout -1 --port 0": ("timeout", "-1"),
    "serve {model} --api-key-file nowhere": ("--api-key-file", "nowhere"),
    "attack http:// {table} --out r.jsonl": ("'http://'", "https://host/path"),
    "attack http://127.0.0.1:9/ {table} --out r.jsonl --body {{bad": ("body", "{bad", "expected JSON"),
    "attack http://127.0.0.1:9/ {table} --out r.jsonl --key-variable NO_KEY": ("NO_KEY", "set it"),
    "attack http://127.0.0.1:9/ {table} --out r.jsonl --timeout -1": ("timeout", "-1"),
    "resources fetch vectors --from nowhere.txt": ("nowhere.txt",),
    "resources fetch tagger --from nowhere": ("nowhere",),
    "resources build vectors --synonyms nowhere.txt": ("nowhere.txt",),
}
MISUSE = {
    "predct": ("'predct'", "Did you mean 'predict'?"),
    "--verison": ("--verison", "--version"),
    "train": ("'DATA'",),
    "train {table}": ("'--out'",),
    "train {table} --out new --epoch 3": ("--epoch", "--epochs"),
    "train {table} --out new --epochs 1.5": ("--epochs", "integer"),
    "train {table} --out new --limit 1": ("--limit", "2"),
    "predict": ("'MODEL'",),
    "predict {model} good --token-budget 0": ("--token-budget", "1"),
    "evaluate {model}": ("MODEL",),
    "evaluate {model} {table} --num 0": ("--num", "1"),
    "evaluate {model} {table} --num many": ("--num", "integer"),
    "attack {model} {table}": ("'--out'",),
    "attack {model} {table} --out r.jsonl --num 0": ("--num", "1"),
    "attack {model} {table} --out r.jsonl --protcol eot": ("--protcol", "--protocol"),
    "attack {model} {table} --out r.jsonl --draws 0": ("--draws", "1"),
    "gate {model} {table}": ("--min-robust-accuracy", "at least one threshold"),
    "gate {model} {table} --min-accuracy 2": ("--min-accuracy", "1"),
    "gate {model} {table} --min-accuracy 0.5 --resume": ("--resume", "--out FILE"),
    "certify {model} {table}": ("'--out'",),
    "certify {model} {table} --out c.jsonl --samples 0": ("--samples", "1"),
    "report": ("RUN",),
    "augment {table}": ("'--model'",),
    "reproduce": ("'ITEM'",),
    "doctor {model}": ("--plan",),
    "doctor --plan": ("MODEL and DATA",),
    "demo --scale 5": ("--scale", "1"),
    "serve {model} --port 99999": ("--port", "65535"),
    "analyse layer {model}": ("'layer'", "layers"),
    "analyse layers {model}": ("'RUN'",),
    "resources lst": ("'lst'", "list"),
}


@pytest.fixture
def typed(run, model, table, base, tmp_path, monkeypatch):
    """(what is typed) -> how it ended; nothing may be left behind."""

    def ended(line):
        words = [word.format(model=model, table=table, base=base) for word in line.split()]
        result = run(*words)
        assert list(tmp_path.iterdir()) == []
        return result

    monkeypatch.chdir(tmp_path)
    return ended


@pytest.mark.parametrize("line", TRAINING)
def test_training(typed, line):
    complaint(typed(f"train {{table}} --base {{base}} --noise-layers 2 --out new {line}"), 1, *TRAINING[line])


@pytest.mark.parametrize("line", ATTACKING)
def test_attacking(typed, line):
    words = f"attack {{model}} {{table}} --attack deepwordbug --num 2 --out run.jsonl {line}"
    complaint(typed(words), 1, *ATTACKING[line])


@pytest.mark.parametrize("line", CERTIFYING)
def test_certifying(typed, line):
    words = f"certify {{model}} {{table}} --num 2 --samples 20 --selection 5 --out run.jsonl {line}"
    complaint(typed(words), 1, *CERTIFYING[line])


@pytest.mark.parametrize("line", OTHERS)
def test_other_commands(typed, line):
    complaint(typed(line), 1, *OTHERS[line])


@pytest.mark.parametrize("line", MISUSE)
def test_wrong_use_ends_with_2_and_points_to_the_help(typed, line):
    complaint(typed(line), 2, *MISUSE[line])
