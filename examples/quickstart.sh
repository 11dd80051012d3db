#!/usr/bin/env bash
# The commands of the README, with their real output: PATH=.venv/bin:$PATH examples/quickstart.sh > results/quickstart.txt
set -euo pipefail
cd "$(dirname "$0")/.."

run() {
    echo "\$ rsmi $*" | sed 's/ \([A-Z][^"]*\.\)\( \|$\)/ "\1"\2/'
    rsmi "$@"
    echo
}

run train mr --base minilm --out runs/mr --limit 1500 --epochs 3 --learning-rate 1e-4 --num-masks 1
run predict runs/mr "It could have been a joy to watch, but the plot is dull and the jokes fall flat." --explain --seed 0
run evaluate runs/mr mr --num 200 --seed 0
run doctor
