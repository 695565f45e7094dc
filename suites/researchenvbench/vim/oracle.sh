# A recipe for Vim at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: what the README pins, both kernels and detectron2 compiled by the machine's nvcc; it has not
# been run. Without one the kernels cannot be built: the Python packages alone, on which C0, C1 and all that imports
# mamba_ssm fail; not a known-good environment.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/vim

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
export UV_COMPILE_BYTECODE=1
# Newer ones have no pkg_resources, which setup scripts of that time import.
echo "setuptools<70" > /tmp/build-constraints.txt
export UV_BUILD_CONSTRAINT=/tmp/build-constraints.txt

if command -v nvidia-smi > /dev/null; then
    # Ubuntu 22.04's Python is 3.10; the kernels need its headers.
    apt-get update && apt-get install --yes --no-install-recommends g++ git python3-dev
    uv venv --python 3.10 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.1.1 torchvision==0.16.1 numpy==1.26.2 packaging==23.2 ninja==1.11.1.1 "setuptools<70" wheel
    uv pip install -r vim/vim_requirements.txt pytest submitit psutil
    export MAX_JOBS=4 CAUSAL_CONV1D_FORCE_BUILD=TRUE MAMBA_FORCE_BUILD=TRUE
    uv pip install --no-build-isolation --no-deps --editable ./causal-conv1d
    uv pip install --no-build-isolation --no-deps --editable ./mamba-1p1p1
    # The other half of the tree: what det declares, and what is imported without being declared.
    uv pip install "fvcore>=0.1.5,<0.1.6" "iopath>=0.1.7,<0.1.10" "omegaconf>=2.1,<2.4" "hydra-core>=1.1" black \
        "pycocotools>=2.0.2" "yacs>=0.1.8" "termcolor>=1.1" tensorboard pygments shapely==1.8.5.post1 lvis fairscale \
        cityscapesscripts onnx==1.15.0 av docutils sphinx sphinx-rtd-theme recommonmark pytorch-lightning==2.1.2 \
        mmdet==2.14.0 lm-eval==0.3.0 protobuf==4.25.1 numpy==1.26.2 torch==2.1.1 transformers==4.35.2
    uv pip install --no-build-isolation --no-deps --editable ./det
    uv pip install --no-build-isolation --no-deps --editable ./det/projects/DensePose
    uv pip install --no-build-isolation --no-deps --editable ./det/projects/TensorMask
    uv pip install --no-build-isolation --no-deps "apex @ git+https://github.com/NVIDIA/apex@23.08"
    uv pip install "panopticapi @ git+https://github.com/cocodataset/panopticapi"
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 timm==0.4.12 einops==0.7.0 mlflow==2.9.1 transformers==4.35.2 "numpy<2" "setuptools<70" \
        wheel packaging ninja
    uv pip install --no-deps torchvision==0.16.2
    export CAUSAL_CONV1D_SKIP_CUDA_BUILD=TRUE MAMBA_SKIP_CUDA_BUILD=TRUE
    uv pip install --no-build-isolation --no-deps --editable ./causal-conv1d
    uv pip install --no-build-isolation --no-deps --editable ./mamba-1p1p1
fi

"$environment/bin/python" -c 'import timm, torch; print("timm", timm.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
