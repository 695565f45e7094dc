# A known-good recipe for F5-TTS, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU was run, on Debian 12 with Python 3.11.
environment=/opt/venv/f5-tts

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# FFmpeg: its libraries for torchcodec (with that of Python), ffprobe for the preparation of data. PortAudio: PyAudio is compiled.
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ffmpeg gcc libc6-dev \
    portaudio19-dev python3-dev

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

: >/tmp/overrides.txt
if command -v nvidia-smi >/dev/null; then
    uv pip install torch==2.6.0 torchaudio==2.6.0 torchcodec==0.2.1
else
    uv pip install torch==2.13.0 torchcodec==0.13.0
    # The newest torchcodec that does without CUDA. torchaudio is a wheel for CUDA, of which the parts in Python are
    # enough here; nothing may replace it or ask for its torch.
    uv pip install --no-deps torchaudio==2.11.0
    rm -f "$environment"/lib/python3*/site-packages/torchaudio/lib/*.so
    echo "torchaudio ; sys_platform == 'none'" >/tmp/overrides.txt
fi

uv pip install --overrides /tmp/overrides.txt --editable .
# What the code imports beyond: evaluation, the client of the socket server, Triton's client, the count of FLOPs, Spaces.
uv pip install --overrides /tmp/overrides.txt funasr jiwer modelscope zhconv zhon PyAudio 'tritonclient[grpc]' requests scipy thop spaces
# The extra `eval` pins one that needs older tokenizers than transformers does.
uv pip install ctranslate2 av onnxruntime
uv pip install --no-deps faster-whisper

"$environment/bin/python" -c 'import torch, f5_tts.model; print("f5-tts with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
