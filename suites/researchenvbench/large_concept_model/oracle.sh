# A known-good recipe for the large concept model, run by bash in the repository folder as root.
#
# fairseq2 0.3.0rc1, compiled for one build of torch, is on an index of its own. Where that cannot be reached, the 0.3.0
# of the package index satisfies the imports; the models cannot be built with it. Both take torch 2.5.1 as the package
# index has it, for CUDA 12.4, which runs without a GPU as well. Only the second has been run here.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/lcm

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# fairseq2n loads libsndfile; fasttext is compiled.
apt-get update && apt-get install --yes --no-install-recommends libsndfile1 g++ python3-dev

uv venv --python '>=3.10,<3.13' "$environment"
export VIRTUAL_ENV="$environment"

uv pip install "torch==2.5.1" "torchaudio==2.5.1" "numpy<2" mkl
wheels=https://fair.pkg.atmeta.com/fairseq2/whl/rc/pt2.5.1/cu124
uv pip install --extra-index-url "$wheels" "fairseq2n==0.3.0rc1" "fairseq2[arrow]==0.3.0rc1" "torch==2.5.1" \
    || uv pip install "fairseq2n==0.3.0" "fairseq2[arrow]==0.3.0" "torch==2.5.1"

# Versions of the lock file. The repository's settings for uv name indexes of their own, which are not needed here.
uv pip install --no-sources --editable . "torch==2.5.1" "numpy<2" \
    "stopes[mono]==2.2.1" "sonar-space==0.3.2" "polars==1.17.1" "pyarrow==18.1.0" "setuptools<80" \
    "transformers==4.45.2" "wtpsplit==2.1.2" "spacy==3.7.5" "textdescriptives>=2.8.2" "datasets==3.2.0" \
    "accelerate==1.2.0" bert-score editdistance jinja2 nltk rouge-score sacrebleu scikit-learn tiktoken numba sacremoses \
    scipy wandb "pytest>=8" pytest-asyncio sentencepiece pandas
uv pip install --no-build-isolation fairscale

# The model of English, by which one script splits sentences.
if command -v nvidia-smi > /dev/null; then
    uv pip install "en_core_web_sm @ https://github.com/explosion/spacy-models/releases/download/en_core_web_sm-3.7.1/en_core_web_sm-3.7.1-py3-none-any.whl"
fi

# The data loader opens libmkl_rt.so by this name; pip's MKL is where the loader does not look, under a longer name.
ln -s "$(basename "$environment"/lib/libmkl_rt.so.*)" "$environment/lib/libmkl_rt.so"
echo "$environment/lib" > /etc/ld.so.conf.d/mkl.conf
ldconfig

"$environment/bin/python" -c 'import fairseq2, lcm, torch; print("fairseq2", fairseq2.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
