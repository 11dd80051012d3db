#!/bin/sh
# Train two victims, run TextAttack and the native attacks on the same inputs, compare. Run by `make parity`.
# Everything that is finished is left alone, so an interrupted run goes on where it stopped.
set -eu
: "${RSMI_DATA:?expected a folder with ag_news and imdb in RSMI_DATA}"
PYTHON=${PYTHON:-python}
ORACLE=${ORACLE:-.venv-textattack/bin/python}
OUT=${OUT:-runs/parity}
RESULTS=${RESULTS:-benchmarks/results/parity}
VECTORS=${VECTORS:-}
export OMP_WAIT_POLICY=PASSIVE PYTHONPATH=src
mkdir -p "$OUT" "$RESULTS"

[ -d "$OUT/ag_news" ] || "$PYTHON" -m rsmi train ag_news --method finetune --out "$OUT/ag_news" --limit 2000 \
    --max-length 96 --epochs 1 --group-by-length --resume
[ -d "$OUT/imdb" ] || "$PYTHON" -m rsmi train imdb --method finetune --out "$OUT/imdb" --limit 1000 \
    --max-length 256 --epochs 1 --group-by-length --resume
[ -n "$VECTORS" ] || { VECTORS=$OUT/vectors.npz; [ -f "$VECTORS" ] || "$PYTHON" benchmarks/parity/export.py vectors "$VECTORS"; }
MLM=$OUT/masked_lm
[ -d "$MLM" ] || "$PYTHON" benchmarks/parity/export.py masked-lm "$MLM"

for attack in textfooler pwws bae; do
    for data in ag_news imdb; do
        case $data in
        ag_news) inputs="--data ag_news --num 100 --max-length 96" ;;
        imdb) inputs="--data imdb --num 50 --max-length 256 --max-words 128" ;;
        esac
        # uncased victims cannot tell York from YORK; how such ties end must not depend on the last bit (oracle.py)
        case $attack in
        textfooler) own="--vectors $VECTORS" ;;
        pwws) own="--round-logits 3" ;;
        bae) own="--masked-lm $MLM --same-tokens" ;;
        esac
        # shellcheck disable=SC2086
        "$ORACLE" benchmarks/parity/oracle.py --attack $attack $inputs $own --victim "$OUT/$data" \
            --padding dynamic --special-tokens split --out "$OUT/oracle-$attack-$data.jsonl"
        # shellcheck disable=SC2086
        [ -f "$OUT/native-$attack-$data.jsonl" ] || "$PYTHON" benchmarks/parity/native.py --attack $attack $inputs $own \
            --victim "$OUT/$data" --out "$OUT/native-$attack-$data.jsonl"
        "$PYTHON" benchmarks/parity/compare.py "$OUT/oracle-$attack-$data.jsonl" "$OUT/native-$attack-$data.jsonl" \
            --out "$RESULTS/$attack-$data"
    done
done
"$PYTHON" benchmarks/parity/summary.py "$RESULTS" --out "$RESULTS/summary.md"
