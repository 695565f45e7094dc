# A known-good recipe for RenderFormer, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU has been run: torch comes from wherever the host's package settings lead, a CPU wheel
# where a find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it).
environment=/opt/venv/renderformer

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# imageio writes EXR files by FreeImage, and takes the system's library; pymeshlab needs those of OpenGL.
apt-get update && apt-get install --yes --no-install-recommends libfreeimage3 libgl1 libopengl0 libglib2.0-0 libgomp1

uv venv --python '>=3.10,<3.13' "$environment"
export VIRTUAL_ENV="$environment"

# torch 2.6.0 is the index's first that is built for CUDA 12.4 by default and has what the model needs.
if command -v nvidia-smi; then
    uv pip install "torch==2.6.0" setuptools
    uv pip install --no-build-isolation "renderformer-liger-kernel @ git+https://github.com/iamNCJ/renderformer-liger-kernel.git"
else
    uv pip install "torch==2.13.0"
fi

# requirements.txt, without the kernels, which are installed above where there is a GPU.
uv pip install dacite einops roma huggingface_hub safetensors trimesh scipy pymeshlab h5py natsort \
    "imageio[ffmpeg]" simple-ocio

"$environment/bin/python" -c 'import roma, simple_ocio, torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
