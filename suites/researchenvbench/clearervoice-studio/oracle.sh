# A known-good recipe for ClearerVoice-Studio, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU was run, on Debian 12 with Python 3.11.
environment=/opt/venv/clearervoice

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# museval, of SpeechScore, cannot be imported without FFmpeg's programs.
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ffmpeg

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# pysptk imports pkg_resources, which newer setuptools no longer has.
uv pip install 'setuptools<81' wheel 'numpy<2' cython

if command -v nvidia-smi >/dev/null; then
    uv pip install torch==2.5.1 torchaudio==2.5.1 torchvision==0.20.1
else
    uv pip install torch==2.13.0 requests pillow
    # Wheels for CUDA, of which the parts in Python are enough here.
    uv pip install --no-deps torchaudio==2.11.0 torchvision==0.15.2
    rm -f "$environment"/lib/python3*/site-packages/torchaudio/lib/*.so
fi

# Compiled here: they come as source.
uv pip install --no-build-isolation pesq==0.0.4 pysptk pyworld

# What requirements.txt names, without what is above. OpenCV without windows needs no library of the system's.
above='torch|torchaudio|torchvision|pesq|pysptk|pyworld|numpy|opencv-python|xls_r_sqa'
grep -vE "^($above)([=>]|\$)" requirements.txt >/tmp/requirements.txt
echo 'numpy<2' >/tmp/constraints.txt
uv pip install -c /tmp/constraints.txt -r /tmp/requirements.txt opencv-python-headless==4.10.0.84
# Its declared dependencies ask for newer ones of torch's.
uv pip install --no-deps xls-r-sqa

# What the code imports, and requirements.txt leaves out. Of espnet, only a function that nothing calls and a self-test
# are imported: its dependencies are not needed.
uv pip install -c /tmp/constraints.txt einops joblib matplotlib packaging pandas scikit-learn rir-generator streamlit
uv pip install --no-deps espnet silero-vad
uv pip install --no-deps --editable clearvoice

"$environment/bin/python" -c 'import pesq, pysptk, pyworld, torch; print("pesq with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
