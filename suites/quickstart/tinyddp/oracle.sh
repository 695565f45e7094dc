# A known-good recipe for tinyddp, run by bash in the repository folder as root.
#
# quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd
#
# torch comes from wherever the host's package settings lead: a CPU wheel where a find-links folder offers one
# ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it), the index's default build otherwise.
environment=/opt/venv/tinyddp

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# The extension is compiled against this torch, so it has to be there first, and the build must not be isolated from it.
uv pip install "torch==2.13.0" 'setuptools>=77'
uv pip install --no-build-isolation --editable '.[test]'

"$environment/bin/python" -c 'import tinyddp, torch; print("tinyddp with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
