"""Our own server, attacked over HTTP as somebody else's."""

from __future__ import annotations

import json

from command import rsmi
from keyword_model import keyword_texts
from rsmi.evaluation.attacking import read_run
from rsmi.targets import HttpTarget


def test_a_model_behind_rsmi_serve_is_attacked_by_its_address(live, classifier, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SERVER_KEY", "s3cret")
    texts, labels = keyword_texts(4, seed=5)
    assert set(labels) == {"neg", "pos"}
    data, out = tmp_path / "texts.jsonl", tmp_path / "run.jsonl"
    data.write_text("".join(json.dumps({"text": t, "label": v}) + "\n" for t, v in zip(texts, labels, strict=True)))
    with live(api_key="s3cret") as address:
        url = f"{address}/v1/predict"
        target = HttpTarget(url, ["neg", "pos"], key_variable="SERVER_KEY")
        shares = [own.probabilities for own in classifier.explain(texts)]
        expected = [[own["neg"], own["pos"]] for own in shares]
        assert abs(target.query(texts) - expected).max() < 1e-6  # the fixture's classifier has a seed
        assert target.query([""]).shape == (1, 2)
        words = ("attack", url, data, "--attack", "deepwordbug", "--max-queries", 20, "--out", out)
        code, _, stderr = rsmi(monkeypatch, capfd, *words)
        assert code == 1
        assert "got 401" in stderr
        assert "--key-variable" in stderr
        code, stdout, stderr = rsmi(monkeypatch, capfd, *words, "--key-variable", "SERVER_KEY")
    assert code == 0, stderr
    assert "accuracy under attack" in stdout
    assert read_run(out)[0]["model"]["name"] == url
