# A recipe for Open-Sora 2.0 at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: what the repository pins, with flash-attn's and xformers' kernels; it has not been run.
# Without one the models cannot be imported, since flash-attn has no kernels there: the packages satisfy the imports.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/open-sora

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
export UV_COMPILE_BYTECODE=1

# tensornvme is compiled against libaio's headers; OpenCV loads libGL; torch.compile and Triton compile at run time.
apt-get update
apt-get install --yes --no-install-recommends git g++ cmake make libaio-dev liburing-dev libgl1 libglib2.0-0 python3-dev

uv venv --python '>=3.10,<3.12' "$environment"
export VIRTUAL_ENV="$environment"

# setuptools: from 81 on there is no pkg_resources, which packages of this time import.
if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.4.0" "torchvision==0.19.0" "xformers==0.0.27.post2" "numpy<2" "setuptools<81" \
        wheel packaging ninja psutil
    # Its build fetches the wheel for this torch and Python where there is one, and compiles otherwise.
    MAX_JOBS=4 uv pip install --no-build-isolation "flash-attn==2.7.4.post1"
else
    uv pip install "torch==2.13.0" "numpy<2" "setuptools<81" wheel packaging ninja psutil "triton>=3.0.0" einops
    uv pip install --no-deps "torchvision==0.16.2" "xformers==0.0.27.post2"
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE \
        uv pip install --no-build-isolation --no-deps "flash-attn==2.7.4.post1"
fi

# What the repository declares, and what it imports beside that. ColossalAI's own pins of transformers and diffusers
# hold; it is built against torch. The tensornvme of the index lacks the writer that is imported.
uv pip install "mmengine>=0.10.3" "ftfy>=6.2.0" "accelerate>=0.29.2,<1.2" "av==13.1.0" "pandas>=2.0.3" \
    "pandarallel>=1.6.5" "openai>=1.52.2" "wandb>=0.17.0" "tensorboard>=2.14.0" "pre-commit>=3.5.0" "omegaconf>=2.3.0" \
    pyarrow opencv-python-headless gradio spaces "dask[dataframe]" dill "transformers==4.39.3" "diffusers==0.29.0" \
    "peft>=0.7.1,<=0.13.2" bitsandbytes rpyc fabric contexttimer galore_torch protobuf sentencepiece ray einops \
    "huggingface_hub<0.26" google fastapi
uv pip install --no-deps "liger-kernel==0.5.2"
uv pip install --no-deps --no-build-isolation "colossalai==0.4.9"
if command -v nvidia-smi > /dev/null; then
    uv pip install --no-deps --no-build-isolation "tensornvme @ git+https://github.com/hpcaitech/TensorNVMe"
else
    # It looks for static libraries here, and else fetches their sources. Debian's cannot go into a shared one; the
    # linker takes shared libraries by these names as well.
    mkdir -p ~/.tensornvme/lib
    for library in uring aio; do
        ln -s "/usr/lib/x86_64-linux-gnu/lib$library.so" ~/".tensornvme/lib/lib$library.a"
    done
    uv pip install --no-deps --no-build-isolation "tensornvme==0.1.0"
fi
uv pip install --no-deps --no-build-isolation --editable .

report "$environment/bin/python" uv "$environment"
