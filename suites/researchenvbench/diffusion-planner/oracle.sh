# A known-good recipe for Diffusion Planner, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# No branch has been run as a whole: nuplan-devkit is on no package index, and the branch without a GPU, too, needs GitHub.
environment=/opt/venv/diffusion-planner

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# The repository names a package index of its own; what the host is set up for is used instead.
export UV_NO_CONFIG=1

apt-get update && apt-get install --yes --no-install-recommends git libgl1 libglib2.0-0

# With a GPU Python 3.9 and torch 2.0.0, as the repository says. nuplan's requirements are old pins for that Python
# (bokeh 2.4, a release candidate of hydra, setuptools 59): of them, what the imported modules need is installed, and
# nuplan without its own.
if command -v nvidia-smi; then
    uv venv --python 3.9 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install "torch==2.0.0" "torchvision==0.15.1" "numpy==1.23.4" "setuptools<60" wheel
    uv pip install "pytorch_lightning==2.0.1" "tensorboard==2.11.2" "timm==1.0.10" mmengine wandb "protobuf<4" \
        "shapely>=2.0.0" "geopandas>=0.12.1" pyogrio rtree "hydra-core==1.1.0rc1" "SQLAlchemy==1.4.27" \
        "opencv-python-headless<4.9" pandas pyarrow scipy ray aioboto3 aiofiles retry rasterio pyquaternion ujson tqdm \
        casadi "control==0.9.1" "bokeh==2.4.3" psutil joblib nest_asyncio sympy
else
    uv venv --python '>=3.9,<3.12' "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install "torch==2.13.0" "numpy<2" setuptools wheel
    uv pip install --no-deps "torchvision==0.16.2"
    uv pip install --no-deps "timm==1.0.10"
    uv pip install mmengine wandb tensorboard pyyaml huggingface_hub safetensors "shapely>=2.0.0" geopandas pyogrio rtree \
        hydra-core "SQLAlchemy<2" opencv-python-headless pandas pyarrow scipy ray aioboto3 aiofiles retry rasterio \
        pyquaternion ujson tqdm casadi control bokeh psutil joblib nest_asyncio sympy
fi

uv pip install --no-deps --no-build-isolation "nuplan-devkit @ git+https://github.com/motional/nuplan-devkit.git"
uv pip install --no-deps --no-build-isolation --editable .

"$environment/bin/python" -c 'import diffusion_planner, nuplan, torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
