from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import rsmi


def test_all_is_sorted_complete_and_importable():
    assert rsmi.__all__ == sorted(rsmi.__all__)
    assert set(rsmi.__all__) == set(rsmi._HOMES)
    for name in rsmi.__all__:
        assert getattr(rsmi, name).__name__ == name
        assert getattr(rsmi, name) is getattr(import_module(rsmi._HOMES[name]), name)
    assert set(rsmi.__all__) <= set(dir(rsmi))
    assert rsmi.__version__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="RsmiClasifier"):
        _ = rsmi.RsmiClasifier


@pytest.mark.parametrize("name", rsmi.__all__)
def test_every_public_name_and_method_has_a_docstring(name):
    thing = getattr(rsmi, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        own = {k: v for k, v in vars(thing).items() if not k.startswith("_")}
        for attribute, value in own.items():
            if inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod)):
                assert inspect.getdoc(getattr(thing, attribute, value) or value), f"{name}.{attribute}"


def test_every_module_has_a_docstring_and_imports():
    names = [module.name for module in walk_packages(rsmi.__path__, "rsmi.")]
    assert "rsmi.method.noise" in names
    for name in names:
        if name != "rsmi.__main__":
            assert import_module(name).__doc__, name


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_rsmi_pulls_no_heavy_library():
    heavy = {"torch", "transformers", "typer", "rich", "fastapi", "ray", "textattack", "sklearn", "datasets", "numpy"}
    assert not heavy & _modules_after("import rsmi")


def test_the_classifier_pulls_no_shell():
    modules = _modules_after("from rsmi import RsmiClassifier, load_data")
    assert not {"typer", "fastapi", "ray", "textattack", "uvicorn"} & modules
    assert "rsmi" in modules


def test_the_settings_need_no_torch():
    assert "torch" not in _modules_after("from rsmi import RsmiConfig, TrainConfig, RsmiError, Prediction")
