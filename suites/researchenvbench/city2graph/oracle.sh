# A known-good recipe for city2graph 0.2.3 at the pinned commit, run by bash in the repository folder as root.
#
# Two branches: with a GPU, torch 2.6.0 of the index, which is built for CUDA 12.4, as the extra cu124 asks for; without
# one, torch 2.13.0, a CPU wheel where a find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above
# it). Only the branch without a GPU has been run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/city2graph

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# The repository's own settings for uv name package indexes, and a source of overturemaps on GitHub.
export UV_NO_CONFIG=1

# It asks for 3.11 or newer: Debian's own, or one that uv fetches.
uv venv --python '>=3.11,<3.14' "$environment"
export VIRTUAL_ENV="$environment"

# torchvision is in its extras, and imported nowhere. The tests use pytest and matplotlib.
if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.6.0" "torchvision==0.21.0"
else
    uv pip install "torch==2.13.0"
fi
uv pip install --no-sources --editable . 'torch_geometric>=2.6.1' matplotlib scikit-learn pyproj pytest

"$environment/bin/python" -c 'import city2graph, torch; print("city2graph", city2graph.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
