# A known-good recipe for yunchang 0.6.4, run by bash in the repository folder as root.
#
# quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd
#
# torch comes from wherever the host's package settings lead: a CPU wheel where a find-links folder offers one
# ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it), the index's default build otherwise.
environment=/opt/venv/yunchang

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# einops: of the tests, which yunchang does not declare. numpy: torch warns at import when it is absent.
uv pip install "torch==2.13.0" einops numpy
uv pip install --editable .

"$environment/bin/python" -c 'import torch, yunchang; print("yunchang", yunchang.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
