# A recipe for chitu at the pinned commit, run by bash in the repository folder as root.
#
# Two branches; neither has been run, and the pinned commit could not be read. With a GPU: torch 2.7.0 of the index,
# which a driver for CUDA 12.4 runs, and chitu's own kernels by the machine's nvcc. Without one nothing could run: the
# packages satisfy imports alone.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/chitu

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

if command -v nvidia-smi > /dev/null; then
    apt-get update && apt-get install --yes --no-install-recommends build-essential git libnuma-dev python3-dev
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.7.0 torchvision==0.22.0
    # Submodules that the build needs; the tree does not hold them.
    [[ -e third_party/spdlog/include ]] || git clone --depth 1 https://github.com/gabime/spdlog third_party/spdlog
    [[ -e third_party/cutlass/include ]] || git clone --depth 1 https://github.com/NVIDIA/cutlass third_party/cutlass
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 triton==3.2.0
    uv pip install --no-deps torchvision==0.16.2
fi
# What the build and the package declare, in that order, and what its benchmarks and tests import.
uv pip install "setuptools<81" wheel cmake ninja protobuf sentencepiece "numpy<2.3" cython packaging pybind11
uv pip install "transformers>=4.51,<5" accelerate safetensors fire "tiktoken>=0.7.0" blobfile faker hydra-core fastapi \
    "uvicorn[standard]" tqdm einops typing-extensions "pyzmq>=27.0.0" msgpack plum-dispatch netifaces pytest aiohttp \
    prometheus-client openai matplotlib xgrammar==0.1.21

if command -v nvidia-smi > /dev/null; then
    export TORCH_CUDA_ARCH_LIST="8.0;8.6;8.9;9.0" MAX_JOBS=4 CHITU_SETUP_JOBS=4
    uv pip install --no-build-isolation --no-deps --editable .
    uv pip install --no-build-isolation --no-deps flash-attn==2.7.4.post1 flashinfer-python==0.2.5
fi

"$environment/bin/python" -c 'import torch, transformers; print("transformers", transformers.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
