# A recipe for SpecForge at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: what the repository pins, with sglang's kernels; it has not been run. Without one nothing of
# it can run, since sglang's kernels need CUDA: the packages satisfy the imports.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/specforge

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
export UV_COMPILE_BYTECODE=1

# sgl-kernel loads libnuma; torch.compile and triton compile C code at run time.
apt-get update && apt-get install --yes --no-install-recommends gcc g++ python3-dev libnuma1

uv venv --python '>=3.10,<3.13' "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi > /dev/null; then
    # The repository's own requirements. sglang depends on packages that there are only as pre-releases.
    uv pip install --prerelease=allow "torch==2.9.1" "torchaudio==2.9.1" "torchvision==0.24.1" "transformers==4.57.1" \
        "qwen-vl-utils==0.0.11" "sglang[all]==0.5.6" datasets setuptools tqdm wandb psutil numpy accelerate pydantic \
        openai-harmony yunchang pre-commit
else
    uv pip install "torch==2.13.0" "transformers==4.57.1" "triton>=3.0.0" datasets setuptools tqdm wandb psutil numpy \
        accelerate pydantic openai-harmony
    uv pip install --no-deps "torchvision==0.16.2" "qwen-vl-utils==0.0.11" "sglang==0.5.6" yunchang
fi
uv pip install --no-deps --editable .

# What is imported and declared nowhere, or only for trackers and tests.
uv pip install matplotlib mlflow swanlab tensorboard requests huggingface_hub safetensors

report "$environment/bin/python" uv "$environment"
