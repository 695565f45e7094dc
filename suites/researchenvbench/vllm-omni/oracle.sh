# A recipe for vLLM-Omni at the pinned commit, run by bash in the repository folder as root.
#
# Two branches; neither has been run. With a GPU: vLLM 0.12.0 of the index with the torch that it is built for, which
# needs a driver for CUDA 12 (any from 525 on). Without one nothing could run: the packages satisfy imports alone.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/vllm-omni

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

if command -v nvidia-smi > /dev/null; then
    # triton builds C code against Python's headers at run time.
    apt-get update && apt-get install --yes --no-install-recommends gcc git python3-dev
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install vllm==0.12.0 "transformers>=4.56,<5"
    uv pip install --no-build-isolation --no-deps flash-attn==2.8.3 sageattention==1.0.6
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 "transformers>=4.56,<5" einops msgspec cloudpickle pyzmq fastapi openai uvloop regex ray
    uv pip install --no-deps vllm==0.12.0 torchvision==0.16.2
fi
uv pip install "omegaconf>=2.3.0" "librosa>=0.11.0" "resampy>=0.4.3" "diffusers>=0.36.0" accelerate==1.12.0 \
    gradio==5.50 "soundfile>=0.13.1" cache-dit==1.1.8 "pytest>=7.0.0" "pytest-asyncio>=0.21.0" mkdocs modelscope \
    qwen-omni-utils aiohttp requests
# For one file of the tests, and for a connector between machines.
uv pip install --no-deps amdsmi mooncake-transfer-engine
uv pip install --no-deps --editable .

"$environment/bin/python" -c 'import diffusers, torch; print("diffusers", diffusers.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
