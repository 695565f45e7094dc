# A known-good recipe for VisionMamba, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run where there is no GPU. With one, torch and torchvision are the index's default builds, which are for CUDA.
environment=/opt/venv/vision-mamba

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi >/dev/null; then
    uv pip install 'torch==2.5.1' 'torchvision==0.20.1' 'numpy<2.3'
else
    # The last torchvision whose operators may be missing: those of the index's wheels are for CUDA.
    uv pip install 'torch==2.13.0' 'numpy<2.3' pillow requests
    uv pip install --no-deps 'torchvision==0.16.2'
fi

# zetascale's own list is longer than what the import of zeta needs (bitsandbytes, scikit-learn), and lacks two that it
# does need: datasets and matplotlib.
uv pip install --no-deps 'zetascale==2.8.8'
uv pip install accelerate beartype colt5-attention datasets einops einops-exts local-attention loguru matplotlib rich \
    tqdm 'transformers>=4.40,<5' vector-quantize-pytorch
uv pip install --no-deps --editable .

"$environment/bin/python" -c 'import vision_mamba, torch; print("vision_mamba with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
