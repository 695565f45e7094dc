# A known-good recipe for Sapiens, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# It has not been run: its mmcv compiles some 200 C++ and CUDA files. Without a GPU the same is done for the CPU.
environment=/opt/venv/sapiens

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

apt-get update && apt-get install --yes --no-install-recommends git libgl1 libglib2.0-0 libturbojpeg0

uv venv --python '>=3.10,<3.12' "$environment"
export VIRTUAL_ENV="$environment"

# _install/conda.sh takes the newest torch for CUDA 12.1, which was 2.4 at the time of the code. pkg_resources went with
# setuptools 82, and chumpy's setup imports pip and wants an old NumPy.
if command -v nvidia-smi; then
    uv pip install "torch==2.4.1" "torchvision==0.19.1" "torchaudio==2.4.1" "numpy<2" "setuptools<70" wheel pip ninja psutil
    export FORCE_CUDA=1
else
    uv pip install "torch==2.13.0" "numpy<2" "setuptools<70" wheel pip ninja psutil
    uv pip install --no-deps "torchvision==0.16.2"
fi
export MMCV_WITH_OPS=1

uv pip install --no-build-isolation --no-deps chumpy
uv pip install --no-build-isolation scipy munkres tqdm cython fsspec "yapf==0.40.1" matplotlib packaging omegaconf ipdb \
    ftfy regex json_tricks terminaltables modelindex prettytable albumentations "opencv-python<4.12" pillow addict rich \
    termcolor pyyaml einops importlib_metadata mat4py pycocotools xtcocotools shapely six pandas seaborn scikit-learn \
    scikit-image tensorboard "transformers<5" requests nibabel lmdb tifffile iopath

# The repository's packages, each as its installation script does, but with the dependencies from above.
for package in engine cv pretrain pose det seg; do
    uv pip install --no-build-isolation --no-deps --editable "$package"
done

# What is imported in functions and try blocks alone: it only has to be found, and its dependencies would not agree.
uv pip install --no-deps accelerate aim bitsandbytes cityscapesscripts clearml dadaptation dvclive fairscale \
    imagecorruptions instaboostfast lap libcom lion-pytorch lvis memory_profiler mlflow motmetrics neptune nltk nopdb \
    pycocoevalcap pygit2 grad-cam sahi tensorboardX torch-model-archiver torchserve torch-tb-profiler torchao \
    PyTurboJPEG wandb

"$environment/bin/python" -c 'import mmcv._ext, mmpretrain, mmseg, torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
