# A known-good recipe for LMCache at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: torch 2.8.0 of the index, which its build pins, and its kernels, compiled for the device by
# the CUDA toolkit that is there. Without one: torch 2.13.0 for the CPU (where a find-links folder offers one,
# "2.13.0+cpu" satisfies "==2.13.0" and sorts above it), and no kernels. Only the branch without a GPU has been run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/lmcache

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

if command -v nvidia-smi > /dev/null; then
    apt-get update && apt-get install --yes --no-install-recommends g++ python3-dev
fi

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"
export PATH="$environment/bin:$PATH"

# The version comes from tags, which the pinned tree need not have.
export SETUPTOOLS_SCM_PRETEND_VERSION=0.3.12
build=("setuptools>=77.0.3,<81" "setuptools_scm>=8" "packaging>=24.2" ninja wheel)
if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.8.0" "${build[@]}"
    # The toolkit must be of the same major version as torch's, 12.
    TORCH_CUDA_ARCH_LIST="7.5;8.0;8.6;8.9;9.0" MAX_JOBS=4 uv pip install --no-build-isolation --editable .
else
    uv pip install "torch==2.13.0" "${build[@]}"
    NO_CUDA_EXT=1 uv pip install --no-build-isolation --editable .
fi
# What the tests, benchmarks, examples and documentation import beyond that.
uv pip install pytest openai pandas matplotlib streamlit sphinx sphinxawesome-theme rouge-score "transformers>=4.51.1,<5"
# Clients of serving engines and stores that it can be used with. Each would bring another torch.
uv pip install --no-deps "vllm==0.11.0" "sglang==0.5.4" "flashinfer-python>=0.5" mooncake-transfer-engine infinistore \
    valkey-glide

"$environment/bin/python" -c 'import lmcache, torch; print("lmcache with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
