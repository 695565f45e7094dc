# A known-good recipe for Texo, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run here: the branch without a GPU. torch comes from wherever the host's package settings lead: a CPU wheel where a
# find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it). The branch with a GPU takes what
# the repository pins.
environment=/opt/venv/texo
repository=$PWD
# The repository's pyproject.toml sets a package index of its own for uv; what the host is set up for is used instead.
cd /

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

# It asks for 3.11 or newer; the newest that uv fetches has no wheels of what is pinned.
uv venv --python 3.11 "$environment"
export VIRTUAL_ENV="$environment"

# Without a GPU: torchvision's default builds need CUDA libraries from 0.18 on; 0.16.2 imports beside any torch. The
# GPU build of ONNX Runtime and the plain one are the same module; optimum-onnx brings the plain one.
if command -v nvidia-smi; then
    torch="torch==2.7.0" torchvision="torchvision==0.22.0" onnxruntime="onnxruntime-gpu>=1.23"
else
    torch="torch==2.13.0" torchvision="torchvision==0.16.2" onnxruntime="onnxruntime>=1.23"
fi

# The second OpenCV distribution would overwrite the headless one of albumentations.
cat > /tmp/overrides.txt <<END
$torch
$torchvision
onnxruntime-gpu; sys_platform == "never"
opencv-python; sys_platform == "never"
END

# Of the development group, what is imported; SciPy by the image augmentation, debugpy by two scripts.
uv pip install --overrides /tmp/overrides.txt --editable "$repository" "$torch" "$torchvision" \
    hydra-core omegaconf matplotlib torchinfo modelscope debugpy scipy
uv pip install --no-deps "$onnxruntime"

# Two scripts convert a checkpoint of PaddlePaddle.
uv pip install paddlepaddle==3.2.2

"$environment/bin/python" -c 'import lightning, texo, torch; print("texo with lightning", lightning.__version__, "and torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
