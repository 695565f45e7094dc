# A known-good recipe for MoBA, run by bash in the repository folder as root.
#
# Two branches: with a GPU what the repository pins, with the torch that flash-attn 2.6.3 was made for; without one,
# torch 2.13.0, and flash-attn's Python files without its kernels, which nothing but CUDA can run. The branch with a GPU
# has not been run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/moba

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1

# pytest: the repository's tests import it. The rest of the last line is what flash-attn is built with.
others=(transformers==4.48.3 accelerate==1.3.0 einops==0.8.1 'numpy<3' 'pytest<9'
    'setuptools<81' wheel packaging psutil ninja)

if command -v nvidia-smi > /dev/null; then
    uv venv --python 3.10 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.4.0 "${others[@]}"
    uv pip install --no-deps --no-build-isolation flash-attn==2.6.3
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 "${others[@]}"
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE \
        uv pip install --no-deps --no-build-isolation --no-binary flash-attn flash-attn==2.6.3
fi

uv pip install --no-deps .

"$environment/bin/python" -c 'import torch, transformers; print("torch", torch.__version__, transformers.__version__)'

report "$environment/bin/python" uv "$environment"
