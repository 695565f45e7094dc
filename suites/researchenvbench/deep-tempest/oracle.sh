# A known-good recipe for Deep-TEMPEST, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU has been run: torch comes from wherever the host's package settings lead, a CPU wheel
# where a find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it).
environment=/opt/venv/deep-tempest

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# OpenCV's and matplotlib's libraries; the tesseract program reads text in the evaluation, which no probe drives.
apt-get update && apt-get install --yes --no-install-recommends libgl1 libglib2.0-0

uv venv --python '>=3.10,<3.12' "$environment"
export VIRTUAL_ENV="$environment"

# Nothing is pinned: with a GPU torch 2.4.1, of the time of the code. Without one, torchvision's default builds need CUDA
# libraries from 0.18 on; 0.16.2 imports beside any torch.
if command -v nvidia-smi; then
    uv pip install "torch==2.4.1" "torchvision==0.19.1"
else
    uv pip install "torch==2.13.0"
    uv pip install --no-deps "torchvision==0.16.2"
fi

# requirement.txt, and what is imported beyond it.
uv pip install opencv-python scikit-image pillow hdf5storage ninja lmdb requests einops "numpy<2.3" \
    scikit-learn matplotlib scipy numba pandas joblib optuna pytesseract tqdm six PyQt5 setuptools wheel pybind11
uv pip install --no-deps timm
uv pip install --no-build-isolation fastwer

"$environment/bin/python" -c 'import cv2, numba, torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
