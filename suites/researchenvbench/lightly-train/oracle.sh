# A known-good recipe for LightlyTrain, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run here: the branch without a GPU. torch comes from wherever the host's package settings lead: a CPU wheel where a
# find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it). The branch with a GPU takes the
# last torch whose default build is for CUDA 12.4.
environment=/opt/venv/lightly-train

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# Without a GPU: torchvision's default builds need CUDA libraries from 0.18 on; 0.16.2 imports beside any torch.
if command -v nvidia-smi; then
    torch="torch==2.6.0" torchvision="torchvision==0.21.0"
else
    torch="torch==2.13.0" torchvision="torchvision==0.16.2"
fi

# The second OpenCV distribution, which ultralytics wants, would overwrite the headless one of albumentations.
cat > /tmp/overrides.txt <<END
$torch
$torchvision
opencv-python; sys_platform == "never"
END

# transformers: the line that the pinned commit was written for. The last line: what the tests import.
uv pip install --overrides /tmp/overrides.txt --editable '.[dicom,mlflow,onnx,onnxruntime,onnxslim,timm,ultralytics,wandb]' \
    "$torch" "$torchvision" 'lightly<1.6' 'transformers<5' \
    'pytest>=8' pytest-mock 'pytest-examples<0.0.16'

# Optional integrations, imported in try blocks. Their own pins (numpy 1.23, onnx 1.15, a torch of their own) contradict
# the rest, so they come without dependencies.
uv pip install --no-deps xformers==0.0.35 rfdetr==1.3.0 super-gradients==3.7.1

"$environment/bin/lightly-train" list_methods
"$environment/bin/python" -c 'import lightly_train, torch; print("lightly-train", lightly_train.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
