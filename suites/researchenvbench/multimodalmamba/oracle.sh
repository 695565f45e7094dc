# A known-good recipe for MultiModalMamba, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run where there is no GPU. With one, torch is what the repository pins, in the index's build for CUDA 12.1.
environment=/opt/venv/multimodal-mamba

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi >/dev/null; then
    torch='torch==2.1.2'
else
    torch='torch==2.13.0'
fi

# zetascale 1.4.0, which the repository pins, lacks what it imports; 1.7.8 has it and wants the same torch. Its own list
# pins a dozen packages of that time, and holds jax and others that the import of zeta does without. What it needs is
# named here, skypilot among it; matplotlib and loguru are not on the list.
uv pip install "$torch" 'numpy<2' accelerate beartype colt5-attention==0.10.19 datasets==2.19.2 einops einops-exts \
    lion-pytorch local-attention==1.9.0 loguru matplotlib numexpr pillow 'pyarrow<16' requests scipy sentencepiece skypilot==0.4.1 \
    tensorflow-cpu==2.15.1 timm tokenmonster==1.1.12 'transformers>=4.36,<4.50' vector-quantize-pytorch==1.12.0
# The last torchvision whose operators may be missing: those of the index's wheels are for torch 2.1.2 with CUDA.
uv pip install --no-deps 'torchvision==0.16.2' 'zetascale==1.7.8'

# For scripts and tests. swarms, with its hundreds of packages, is only looked for: nothing that runs here imports it.
uv pip install 'pytest<8' python-dotenv 'setuptools<81' toml
uv pip install --no-deps 'swarms==4.1.1'
uv pip install --no-deps --editable .

"$environment/bin/python" -c 'import mm_mamba, torch; print("mm_mamba with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
