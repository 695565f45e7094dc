# A known-good recipe for Kokoro-FastAPI at the pinned commit, run by bash in the repository folder as root.
# Only the variant for machines without a GPU was run; the one with a GPU takes what the repository pins.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/kokoro-fastapi

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# PortAudio: pyaudio, which the examples import, is compiled. espeak-ng: the repository's README asks for it.
apt-get update
apt-get install --yes --no-install-recommends portaudio19-dev espeak-ng cmake

# With a GPU, a build for the target's CUDA 12.4 instead of the pinned one for 12.9, and spaCy's English model, which is
# on GitHub only; without one, neither. English needs that model, the other languages do not.
if command -v nvidia-smi >/dev/null; then
    printf '%s\n' torch==2.6.0 >/tmp/overrides.txt
else
    printf '%s\n' torch==2.13.0 'en-core-web-sm; python_version < "0"' >/tmp/overrides.txt
fi

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# Beyond what is declared for it: the old UI, and the examples.
uv pip install --override /tmp/overrides.txt --editable '.[test]' gradio pandas seaborn GPUtil sounddevice pyaudio pyyaml

"$environment/bin/python" -c 'import fastapi, kokoro, torch; print("kokoro with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
