# A known-good recipe for comic-translate, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run here: the branch without a GPU, with Python 3.11. torch comes from wherever the host's package settings lead.
environment=/opt/venv/comic-translate

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# The README names 3.12, which uv fetches where the system has another; the code runs with 3.11, too.
if command -v nvidia-smi; then python=3.12; else python=python3; fi
uv venv --python "$python" "$environment"
export VIRTUAL_ENV="$environment"
uv pip install -r requirements.txt singledispatch natsort

# Both builds of ONNX Runtime are the same module; the one for CUDA must come last. 1.23 is for CUDA 12 and cuDNN 9,
# whose libraries torch brings: the code imports torch, where it is there, before it makes a session.
if command -v nvidia-smi; then
    uv pip install torch==2.6.0 torchvision==0.21.0
    uv pip uninstall onnxruntime
    uv pip install --no-deps onnxruntime-gpu==1.23.2
else
    uv pip install torch==2.13.0
    uv pip install --no-deps torchvision==0.16.2
fi

# Other engines, each imported where it is chosen and in no requirements file.
uv pip install transformers tokenizers
uv pip install --no-deps pytorch-lightning torchmetrics python-doctr easyocr paddleocr rapidocr

"$environment/bin/python" -c 'import mahotas, onnxruntime; print("onnxruntime", onnxruntime.get_available_providers())'

report "$environment/bin/python" uv "$environment"
