# A known-good recipe for VoxCPM at the pinned commit, run by bash in the repository folder as root.
# Only the variant for machines without a GPU was run; the one with a GPU takes what the repository asks for.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/voxcpm

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# With a GPU, builds for the target's CUDA 12.4.
if command -v nvidia-smi >/dev/null; then
    printf '%s\n' torch==2.6.0 torchaudio==2.6.0 torchcodec==0.2.1 >/tmp/overrides.txt
else
    printf '%s\n' torch==2.13.0 torchaudio==2.11.0 >/tmp/overrides.txt
fi

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# tensorboardX: the training script imports it, and nothing declares it. LlamaTokenizerFast is that of transformers 4.
uv pip install --override /tmp/overrides.txt --editable . tensorboardX 'transformers<5' regex

# The index has torchaudio for CUDA only. Its compiled part does not load beside a torch for the CPU; the rest does
# without, once it is gone.
if ! command -v nvidia-smi >/dev/null; then
    rm -f "$environment"/lib/python3*/site-packages/torchaudio/lib/*.so
fi

"$environment/bin/python" -c 'import torch, voxcpm; print("voxcpm with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
