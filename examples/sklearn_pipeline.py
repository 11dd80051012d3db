"""An RSMI classifier among scikit-learn's tools: Pipeline, cross-validation, grid search, clone and joblib.

    python examples/sklearn_pipeline.py
    python examples/sklearn_pipeline.py --limit 2000 --epochs 3 --folds 5

Settings of the method are reached as `config__noise_std`, those of training as `train_config__epochs`. A joblib file is
a pickle, which can run code when it is read: keep it among yourselves, and pass on what `save_pretrained` writes.
"""

import argparse
import html
from pathlib import Path

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from rsmi import RsmiClassifier, RsmiConfig, TrainConfig, load_data

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=300, help="sentences to train on")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--base", default="minilm", help="minilm, a model folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/examples/sklearn"))
    options = parser.parse_args()

    train = load_data("mr", "train").take(options.limit, SEED, stratified=True)
    test = load_data("mr", "test").take(100, SEED, stratified=True)
    texts, labels = list(train.texts), np.array(train.labels)

    pipeline = Pipeline(
        [
            ("clean", FunctionTransformer(cleaned)),
            ("rsmi", RsmiClassifier(options.base, RsmiConfig(masking="none"), seed=SEED)),
        ]
    )
    training = TrainConfig(epochs=options.epochs, learning_rate=1e-4, dev_fraction=0.0)
    pipeline.set_params(rsmi__train_config=training)

    scores = cross_val_score(pipeline, texts, labels, cv=options.folds)
    print(f"accuracy in {options.folds} folds of {len(texts)} sentences: {', '.join(f'{own:.2f}' for own in scores)}")

    grid = {"rsmi__config__noise_std": [0.1, 0.3]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(texts, labels)
    means = search.cv_results_["mean_test_score"]
    for choice, mean in zip(search.cv_results_["params"], means, strict=True):
        print(f"{choice}: mean accuracy {mean:.3f}")
    best = search.best_estimator_
    print(f"best: {search.best_params_}; {best.score(list(test.texts), test.labels):.2f} on {len(test)} test sentences")

    copy = clone(best)  # same settings, no weights
    print(f"a clone is untrained and has noise_std {copy.get_params()['rsmi__config__noise_std']}")

    options.out.mkdir(parents=True, exist_ok=True)
    joblib.dump(best, options.out / "pipeline.joblib")
    again = joblib.load(options.out / "pipeline.joblib")
    some = list(test.texts[:10])
    same = (again.predict(some) == best.predict(some)).all()
    print(f"read back from joblib, {'the same' if same else 'ANOTHER'} answer to {len(some)} sentences")
    best["rsmi"].save_pretrained(options.out / "model")
    print(f"{options.out / 'model'}: the classifier without pickle, for others")


def cleaned(texts: list[str]) -> list[str]:
    """Undo HTML's escapes; any step that turns texts into texts may stand here."""
    return [html.unescape(text) for text in texts]


if __name__ == "__main__":
    main()
