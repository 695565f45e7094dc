# A known-good recipe for SocialED at the pinned commit, run by bash in the repository folder as root.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Only the branch without a GPU was run where this was written: Debian 12, Python 3.11.
environment=/opt/venv/socialed

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# Python 3.8, of which requirements.txt was frozen, is gone; the pins below are its own where they have wheels for later
# ones. It lists dgl for CUDA 11.0, and torch for CUDA 11 and 12 at once.
if command -v nvidia-smi >/dev/null; then
    torch_version=2.3.1
else
    torch_version=2.13.0
fi
uv pip install "torch==$torch_version" setuptools wheel numpy==1.24.4 scipy==1.10.1

# Compiled here, for the torch that is installed.
MAX_JOBS=2 uv pip install --no-deps --no-build-isolation torch_scatter==2.1.2

uv pip install "torch==$torch_version" numpy==1.24.4 scipy==1.10.1 \
    networkx==3.1 pandas==2.0.3 scikit-learn==1.3.2 matplotlib==3.7.5 tqdm \
    torch-geometric==2.6.1 sentence-transformers==3.0.1 transformers==4.41.2 huggingface-hub==0.25.1 \
    gensim==4.3.2 spacy==3.7.4 geoopt==0.5.0 pytorch-ignite==0.5.0.post2 hdbscan munkres==1.1.4 \
    GitPython==3.1.43 pytest pydot 'dgl==1.1.3'

"$environment/bin/python" -c 'import geoopt, torch, torch_geometric, torch_scatter; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
