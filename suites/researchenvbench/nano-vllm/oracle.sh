# A recipe for nano-vllm 0.2.0 at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: torch 2.6.0 of the index, which is built for CUDA 12.4 and brings its triton, and flash-attn
# with its kernels. Without one there is nothing that could run: torch 2.13.0 for the CPU (where a find-links folder
# offers one, "2.13.0+cpu" satisfies "==2.13.0" and sorts above it), triton, and flash-attn without kernels satisfy the
# imports. Only the branch without a GPU has been run; C3 and C4 have never been.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/nano-vllm

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

if command -v nvidia-smi > /dev/null; then
    # torch.compile and triton build C code against Python's headers at run time.
    apt-get update && apt-get install --yes --no-install-recommends gcc python3-dev
fi

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.6.0" numpy setuptools wheel packaging ninja psutil
    # Its build fetches the wheel for this torch and Python where there is one, and compiles otherwise.
    MAX_JOBS=4 uv pip install --no-build-isolation "flash-attn==2.7.4.post1"
else
    uv pip install "torch==2.13.0" "triton>=3.0.0" numpy einops setuptools wheel packaging ninja psutil
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE \
        uv pip install --no-build-isolation --no-deps "flash-attn==2.7.4.post1"
fi

# transformers: nano-vllm reads rope_theta and torch_dtype as the 4.x line keeps them.
uv pip install "transformers>=4.51,<5" xxhash
uv pip install --editable . --no-deps

"$environment/bin/python" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'

report "$environment/bin/python" uv "$environment"
