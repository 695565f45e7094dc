# A known-good recipe for metavoice-src, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run here: the branch without a GPU. torch comes from wherever the host's package settings lead: a CPU wheel where a
# find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it).
environment=/opt/venv/metavoice

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# Sound is written by FFmpeg's program.
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ffmpeg

uv venv --python '>=3.10,<3.12' "$environment"
export VIRTUAL_ENV="$environment"

# librosa 0.10.1 imports pkg_resources, which newer setuptools no longer has.
uv pip install 'setuptools<81' wheel poetry-core

if command -v nvidia-smi; then
    # The README's way. xformers 0.0.22.post7 is built for torch 2.1; for 2.2.1 it is 0.0.25.
    sed 's/ *--hash=[^ ]*//; s/ *\\$//' requirements.txt | grep -vE '^ *$|^(torch|torchaudio|xformers|typer)\b' \
        > /tmp/requirements.txt
    uv pip install --no-deps -r /tmp/requirements.txt typer==0.9.4
    uv pip install torch==2.2.1 torchaudio==2.2.1 xformers==0.0.25 numpy==1.26.4
else
    # What pyproject.toml and audiocraft name, as requirements.txt has it; not what belongs to another torch.
    echo 'torchaudio; sys_platform == "never"' > /tmp/overrides.txt
    uv pip install --overrides /tmp/overrides.txt torch==2.13.0 librosa==0.10.1 tqdm==4.66.2 tiktoken==0.5.1 \
        numpy==1.26.4 ninja==1.11.1.1 fastapi==0.110.0 uvicorn==0.27.1 tyro==0.7.3 pydub==0.25.1 gradio==4.24.0 \
        huggingface-hub==0.21.4 click==8.1.7 posthog==3.5.0 python-dotenv==1.0.1 einops==0.7.0 encodec==0.1.1 \
        julius==0.2.7 pandas==2.2.1 transformers==4.39.2 av==12.0.0 flashy==0.0.2 omegaconf==2.3.0 hydra-core==1.3.2 \
        hydra-colorlog==1.2.0 num2words==0.5.13 loguru==0.7.2 sentencepiece==0.2.0 spacy==3.7.4 demucs==4.0.1 \
        torchmetrics==1.3.2 soundfile==0.12.1 packaging==23.2
    # Wheels for CUDA, of which the parts in Python are enough here. DeepFilterNet imports a part of torchaudio that newer
    # ones lack.
    uv pip install --no-deps torchaudio==2.2.1 xformers==0.0.35 audiocraft==1.2.0 deepfilternet==0.5.6 \
        deepfilterlib==0.5.6
    rm -f "$environment"/lib/python3*/site-packages/torchaudio/lib/*.so
fi

# Weights and Biases is an extra; the server takes attrs, and a script the tests' pytest.
uv pip install wandb==0.16.6 attrs pytest==8.1.1 'setuptools<81'
uv pip install --no-deps --no-build-isolation --editable .

"$environment/bin/python" -c 'import audiocraft, df, torch; print("audiocraft with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
