# A known-good recipe for Olympus at the pinned commit, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU was run where this was written: Debian 12, Python 3.11.
environment=/opt/venv/olympus

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# requirements.txt names torch for CUDA 11.8, from an index of its own; what the package index has is for CUDA 12.1.
# deepspeed 0.12.5 cannot be imported beside torch 2.3 and later.
if command -v nvidia-smi >/dev/null; then
    uv pip install torch==2.2.0 torchvision==0.17.0 torchaudio==2.2.0 numpy==1.26.4 setuptools wheel
    deepspeed=deepspeed==0.12.5
else
    uv pip install torch==2.13.0 numpy==1.26.4 setuptools wheel
    uv pip install --no-deps torchvision==0.15.2
    deepspeed='deepspeed>=0.16,<0.18'
fi

DS_BUILD_OPS=0 uv pip install --no-deps --no-build-isolation "$deepspeed"
uv pip install numpy==1.26.4 hjson ninja psutil py-cpuinfo nvidia-ml-py msgpack einops 'pydantic>=2,<3' \
    accelerate==0.28.0 transformers==4.38.2 tokenizers==0.15.2 peft==0.10.0 wandb==0.19.8 huggingface-hub==0.30.0 \
    protobuf==5.29.4 pillow requests tqdm shortuuid pandas openai safetensors \
    editdistance fire pycocoevalcap ray

"$environment/bin/python" -c 'import torch, mipha.model; print("olympus with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
