# A known-good recipe for T-GATE, run by bash in the repository folder as root: the requirements of its README.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run where there is no GPU; where there is one, torch is the index's default build, which is one for CUDA. transformers
# stays below 5, which is newer than what diffusers 0.x was written for.
environment=/opt/venv/t-gate

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi >/dev/null; then
    uv pip install 'torch==2.4.1' 'numpy<2'
else
    uv pip install 'torch==2.13.0'
fi
uv pip install 'diffusers==0.32.2' 'DeepCache==0.1.1' 'transformers==4.48.3' 'accelerate==1.3.0'

"$environment/bin/python" -c 'import tgate, torch; print("tgate with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
