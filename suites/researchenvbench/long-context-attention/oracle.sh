# A known-good recipe for yunchang 0.6.3.post1 at the pinned commit, run by bash in the repository folder as root.
#
# Two branches: with a GPU, torch 2.6.0 of the index, which is built for CUDA 12.4, and flash-attn from source, the
# extra that the README calls the most important dependency; without one, torch 2.13.0, a CPU wheel where a find-links
# folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it). Only the branch without a GPU has been run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/yunchang

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# einops: of the tests, which yunchang does not declare. numpy: torch warns at import when it is absent.
if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.6.0" einops numpy setuptools wheel packaging ninja psutil
    # Compiled where there is a compiler for CUDA; yunchang does without, with torch's kernels.
    command -v nvcc > /dev/null && MAX_JOBS=4 uv pip install --no-build-isolation "flash-attn>=2.6.0,<2.8"
else
    uv pip install "torch==2.13.0" einops numpy
fi
uv pip install --editable .

"$environment/bin/python" -c 'import torch, yunchang; print("yunchang", yunchang.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
