# A recipe for FunMusic at the pinned commit, run by bash in the repository folder as root.
#
# Two branches. With a GPU: torch 2.6.0 of the index, which is built for CUDA 12.4, and flash-attn, whose build fetches a
# wheel for that. Without one nothing could run: torch 2.13.0 for the CPU (where a find-links folder offers one,
# "2.13.0+cpu" satisfies "==2.13.0" and sorts above it), and flash-attn without kernels satisfy the imports alone. Only
# the branch without a GPU has been run; C3 and C4 have never been.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/funmusic

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

if command -v nvidia-smi > /dev/null; then
    # deepspeed and triton build C code against Python's headers at run time.
    apt-get update && apt-get install --yes --no-install-recommends g++ python3-dev
fi

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

build=("setuptools<81" wheel packaging ninja psutil numpy einops cython)
if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.6.0" "torchaudio==2.6.0" "${build[@]}"
    MAX_JOBS=4 uv pip install --no-build-isolation "flash-attn==2.7.4.post1"
    onnxruntime=onnxruntime-gpu
else
    uv pip install "torch==2.13.0" "${build[@]}"
    # Its own library is built for CUDA.
    uv pip install --no-deps "torchaudio==2.11.0"
    rm -f "$environment"/lib/python3*/site-packages/torchaudio/lib/*.so
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE \
        uv pip install --no-build-isolation --no-deps "flash-attn==2.7.4.post1"
    onnxruntime=onnxruntime
fi

# What requirements.txt names and something imports, of the days of the pinned commit; both ONNX Runtimes are one module.
uv pip install "diffusers==0.27.2" "transformers==4.46.3" "peft==0.13.2" "huggingface-hub==0.25.2" "accelerate<1.8" \
    hydra-core==1.3.2 omegaconf==2.3.0 "hyperpyyaml==1.2.2" "ruamel.yaml<0.18" conformer==0.3.2 "lightning<2.6" \
    "librosa==0.10.2" "numpy<2.3" soundfile tensorboard matplotlib pandas pyarrow scipy inflect gdown gradio modelscope \
    rich tqdm wget requests typing-extensions "$onnxruntime"
uv pip install --no-build-isolation deepspeed

# The project and its submodule, whose compiled aligner nothing here uses.
uv pip install --no-deps --no-build-isolation --editable .
uv pip install --no-deps "matcha-tts @ ./third_party/Matcha-TTS" --no-build-isolation
uv pip install unidecode phonemizer rootutils wandb

# What the metrics, the demonstration and the music tokenizer's training import.
uv pip install pyloudnorm soxr spaces openai-whisper pytorch-lightning
uv pip install --no-deps laion-clap hear21passt pesq

"$environment/bin/python" -c 'import hyperpyyaml, torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'

report "$environment/bin/python" uv "$environment"
