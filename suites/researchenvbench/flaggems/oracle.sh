# A recipe for FlagGems at the pinned commit, run by bash in the repository folder as root.
#
# Two branches; neither has been run. With a GPU: torch 2.6.0 of the index, which is built for CUDA 12.4 and brings its
# triton. Without one there is nothing that could run: torch 2.13.0 for the CPU and triton satisfy imports alone.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/flaggems

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
export UV_COMPILE_BYTECODE=1

if command -v nvidia-smi > /dev/null; then
    # triton builds C code against Python's headers at run time.
    apt-get update && apt-get install --yes --no-install-recommends gcc git python3-dev
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.6.0 "numpy>=1.26" "scipy>=1.14"
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 triton==3.2.0 "numpy>=1.26" "scipy>=1.14"
fi
uv pip install "scikit-build-core>=0.11" "setuptools>=64,<81" pybind11 ninja cmake wheel
uv pip install --no-build-isolation --no-deps --editable .
# What it declares, its extras, and what benchmarks, tests and tools import.
uv pip install packaging PyYAML "sqlalchemy>=2" typing-extensions "pytest>=7.1.0" "transformers>=4.51,<5" requests \
    pillow aiohttp tqdm datasets pandas librosa soundfile huggingface-hub modelscope PyGithub uvloop

if command -v nvidia-smi > /dev/null; then
    # The other implementations that benchmarks and tests compare with.
    uv pip install --no-deps vllm==0.8.5 tilelang==0.1.5
    uv pip install --no-build-isolation --no-deps flash-attn==2.7.4.post1
    uv pip install --no-build-isolation --no-deps transformer-engine==2.2.0 transformer-engine-cu12==2.2.0 \
        transformer-engine-torch==2.2.0
    "$environment/bin/python" -c 'import flag_gems, torch; print("flag_gems", flag_gems.__version__, "with torch", torch.__version__)'
fi

report "$environment/bin/python" uv "$environment"
