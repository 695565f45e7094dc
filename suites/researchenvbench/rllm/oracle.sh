# A known-good recipe for rLLM at the pinned commit, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU was run where this was written: Debian 12, Python 3.11.
environment=/opt/venv/rllm

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# requirements.txt wants transformers<=4.30.0 and continuous integration sentence-transformers==3.3.1, which needs 4.41:
# the latter is installed last there, and wins. torch 2.3 was built for NumPy 1.
if command -v nvidia-smi >/dev/null; then
    uv pip install "torch==2.3.0" "numpy<2"
    torch_version="torch==2.3.0 numpy<2"
else
    torch_version="torch==2.13.0"
fi
# shellcheck disable=SC2086 - two requirements
uv pip install $torch_version \
    langchain==1.0.2 langchain_community==0.4.1 langchain_core==1.0.1 networkx==3.0 \
    'pandas<3' scikit_learn scipy tqdm pyarrow \
    sentence-transformers==3.3.1 'transformers>=4.41,<5'

# What parts of the library and the examples import without declaring it.
# shellcheck disable=SC2086 - two requirements
uv pip install $torch_version langchain_core==1.0.1 langchain_openai langchain_huggingface 'transformers<5' \
    datasets peft dashscope kmedoids ogb yacs pytz torch_geometric pytest setuptools

# setup.py lists the top-level package alone, but an editable install leads to all of it.
uv pip install --no-deps --editable .

"$environment/bin/python" -c 'import torch, rllm.nn.models; print("rllm with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
