# The withheld method, put where the task wants one, and run on all sub-tasks.
#
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7
environment=/opt/venv/digits-continual
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cat >continual/methods/own.py <<'METHOD'
@withheld/own.py@
METHOD
for steps in 2 5 10; do
    "$environment/bin/python" -m continual.run --method own --steps "$steps" --seeds 0 1 2 3 4 --out "results/steps$steps.json" &
done
wait
report "$environment/bin/python" venv "$environment" "the method is in continual/methods/own.py"
