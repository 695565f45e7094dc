# A known-good recipe for kvpress 0.4.0 at the pinned commit, run by bash in the repository folder as root.
#
# Two branches: with a GPU, torch 2.6.0 of the index, which is built for CUDA 12.4; without one, torch 2.13.0, a CPU
# wheel where a find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it). Only the branch
# without a GPU has been run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/kvpress

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.6.0"
else
    uv pip install "torch==2.13.0"
fi

# transformers: kvpress 0.4.0 was written for the 4.x line. Beyond the extra: the metrics of LongBench import jieba and
# fuzzywuzzy, and the tests pytest.
uv pip install --editable '.[eval]' 'transformers>=4.56,<5' jieba fuzzywuzzy 'pytest>=7,<8'

"$environment/bin/python" -c 'import kvpress, torch; print("kvpress with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
