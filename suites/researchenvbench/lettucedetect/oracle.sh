# A known-good recipe for LettuceDetect 0.1.8 at the pinned commit, run by bash in the repository folder as root.
#
# Two branches: with a GPU, torch 2.6.0 of the index, which is built for CUDA 12.4; without one, torch 2.13.0, a CPU
# wheel where a find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it). Only the branch
# without a GPU has been run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/lettucedetect

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# A package that it needs takes nothing older, and Ubuntu 22.04 has 3.10.
uv venv --python 3.11 "$environment"
export VIRTUAL_ENV="$environment"

if command -v nvidia-smi > /dev/null; then
    uv pip install "torch==2.6.0"
else
    uv pip install "torch==2.13.0"
fi

# Beyond the extras, for the scripts, the demo and the integrations: datasets, ragas, rich, streamlit, tenacity, elysia,
# and LangChain, for whose 0.x line the integration was written (langchain.schema, langchain.chains).
uv pip install --editable '.[api,dev]' 'transformers<5' datasets rich streamlit tenacity 'ragas<0.4' elysia-ai \
    'langchain<1' 'langchain-community<0.4' 'langchain-openai<1'

"$environment/bin/python" -c 'import lettucedetect, torch; print("lettucedetect with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
