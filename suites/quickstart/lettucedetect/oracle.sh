# A known-good recipe for LettuceDetect 0.2.3, run by bash in the repository folder as root.
#
# quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd
#
# torch comes from wherever the host's package settings lead: a CPU wheel where a find-links folder offers one
# ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it), the index's default build otherwise.
environment=/opt/venv/lettucedetect

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

uv pip install "torch==2.13.0"

# Beyond the extras: preprocessing reads datasets, the length analysis plots, and the LangChain integration was written
# for the 0.x line (langchain.schema, langchain.chains).
uv pip install --editable '.[api,bedrock,dev]' datasets matplotlib streamlit \
    'langchain<1' 'langchain-community<0.4' 'langchain-openai<1'

"$environment/bin/python" -c 'import lettucedetect, torch; print("lettucedetect with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
