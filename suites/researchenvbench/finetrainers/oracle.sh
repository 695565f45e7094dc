# A recipe for finetrainers at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: torch 2.7.1 of the index, whose private names the pinned code imports. Without one nothing
# could train: torch 2.13.0 for the CPU (where a find-links folder offers one, "2.13.0+cpu" satisfies "==2.13.0" and
# sorts above it) satisfies the imports alone. Only the branch without a GPU has been run; C3 and C4 have never been.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/finetrainers

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

if command -v nvidia-smi > /dev/null; then
    # triton builds C code against Python's headers at run time.
    apt-get update && apt-get install --yes --no-install-recommends gcc python3-dev
fi

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.7.1" "torchvision==0.22.1"
else
    uv pip install "torch==2.13.0" numpy pillow
    # Its later builds need CUDA libraries.
    uv pip install --no-deps "torchvision==0.16.2"
fi

# datasets: from 3.4 on, videos are read by torchvision and PyAV. diffusers and transformers: of the pinned commit's days.
uv pip install "accelerate>=1.1,<1.8" bitsandbytes "datasets==3.3.2" "diffusers==0.33.1" "transformers==4.51.3" \
    "huggingface_hub<1" hf_transfer "peft==0.15.2" decord wandb pandas "torchdata==0.11.0" "torchao==0.11.0" \
    sentencepiece "imageio-ffmpeg>=0.5.1" kornia ftfy
uv pip install --no-deps --editable .
# What its tests and examples import beyond that.
uv pip install pytest parameterized click moviepy prodigyopt came-pytorch importlib-metadata
# Its optional attention backends, each against torch's ABI; without a GPU there is nothing to compile them for.
if command -v nvidia-smi > /dev/null; then
    uv pip install setuptools wheel packaging ninja psutil
    MAX_JOBS=4 uv pip install --no-build-isolation --no-deps "flash-attn==2.8.3"
    uv pip install "xformers==0.0.31.post1"
else
    uv pip install einops setuptools wheel packaging ninja psutil
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE \
        uv pip install --no-build-isolation --no-deps "flash-attn==2.8.3"
    uv pip install --no-deps "xformers==0.0.31.post1"
fi
uv pip install --no-deps "sageattention==1.0.6"

"$environment/bin/python" -c 'import diffusers, torch; print("diffusers", diffusers.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
