# The best baseline, run on all sub-tasks; nothing is changed.
#
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7
environment=/opt/venv/morpheme-tokens
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
for size in 100 150 200; do
    "$environment/bin/python" -m pieces.run --method wordpiece --size "$size" --seeds 0 1 2 3 4 --out "results/pieces$size.json" &
done
wait
report "$environment/bin/python" venv "$environment" "nothing was changed"
