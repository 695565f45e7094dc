# A known-good recipe for SenseVoice, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU was run, on Debian 12 with Python 3.11.
environment=/opt/venv/sensevoice

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# FFmpeg as in its Dockerfile. Where torchaudio reads files by torchcodec, that needs it, and the library of Python.
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ffmpeg libpython3-dev

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi >/dev/null; then
    uv pip install torch==2.3.1 torchaudio==2.3.1 'numpy<=1.26.4'
else
    uv pip install torch==2.13.0 torchcodec==0.13.0 'numpy<=1.26.4'
    # The newest torchcodec that does without CUDA. torchaudio is a wheel for CUDA, of which the parts in Python are
    # enough here.
    uv pip install --no-deps torchaudio==2.11.0
    rm -f "$environment"/lib/python3*/site-packages/torchaudio/lib/*.so
fi

# requirements.txt without what is above.
grep -vE '^(torch|torchaudio|numpy)\b' requirements.txt >/tmp/requirements.txt
echo 'numpy<=1.26.4' >/tmp/constraints.txt
# Beyond it, what the scripts for export and their demos import.
uv pip install -c /tmp/constraints.txt -r /tmp/requirements.txt \
    jieba kaldi-native-fbank librosa onnx onnxruntime pyyaml typing-extensions uvicorn
uv pip install --no-deps funasr-onnx

"$environment/bin/python" -c 'import funasr, torch; print("funasr", funasr.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
