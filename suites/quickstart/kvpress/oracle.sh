# A known-good recipe for kvpress 0.5.5, run by bash in the repository folder as root.
#
# quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd
#
# torch comes from wherever the host's package settings lead: a CPU wheel where a find-links folder offers one
# ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it), the index's default build otherwise.
environment=/opt/venv/kvpress

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

uv pip install "torch==2.13.0"

# Beyond the extra: kvzap/ trains with scikit-learn and skorch, and the tests import pytest.
uv pip install --editable '.[eval]' scikit-learn skorch 'pytest>=7,<8'

"$environment/bin/python" -c 'import kvpress, torch; print("kvpress with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
