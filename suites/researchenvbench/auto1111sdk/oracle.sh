# A known-good recipe for Auto1111SDK, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run here: the branch without a GPU. torch comes from wherever the host's package settings lead: a CPU wheel where a
# find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it).
environment=/opt/venv/auto1111sdk

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1
# As pip does, and uv alone does not: otherwise every process of every probe compiles what it imports.
export UV_COMPILE_BYTECODE=1

uv venv --python '>=3.10,<3.12' "$environment"
export VIRTUAL_ENV="$environment"
# BasicSR and its relatives come as source, and their setup scripts import numpy or Cython.
uv pip install 'setuptools<81' wheel cython numpy==1.23.5

# What the bundled trainer and OpenCLIP import and requirements.txt leaves out; the versions go with protobuf 3 or 4.
more=('wandb<0.18' 'tensorboard<2.17' natsort matplotlib webdataset torchdata==0.9.0 fsspec pytz requests ftfy regex)
if command -v nvidia-smi; then
    # OpenCV with windows, which the relatives ask for, needs libraries of the system's.
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends libgl1 libglib2.0-0
    uv pip install --no-build-isolation -r requirements.txt torchvision==0.16.0 "${more[@]}"
    uv pip install --no-deps 'sdata @ git+https://github.com/Stability-AI/datapipelines@main'
    uv pip install --no-deps xformers==0.0.22.post7
else
    # torchvision's default builds need CUDA libraries from 0.17 on, and BasicSR a module that left it then.
    grep -vE '^(torch|basicsr|gfpgan|realesrgan|clip)(==|$)' requirements.txt > /tmp/requirements.txt
    echo 'torchvision; sys_platform == "never"' > /tmp/overrides.txt
    uv pip install --overrides /tmp/overrides.txt -r /tmp/requirements.txt torch==2.13.0 "${more[@]}" \
        yapf addict lmdb future scipy opencv-python-headless
    uv pip install --no-deps torchvision==0.16.2
    uv pip install --no-deps --no-build-isolation basicsr==1.4.2 gfpgan==1.3.8 realesrgan==0.3.0 facexlib==0.3.0 clip
    uv pip install --no-deps xformers==0.0.35
fi

# Each is imported by one of the annotators that the extension ControlNet brings along, or by a demo; nothing of the SDK
# itself needs them, so theirs in turn are left out.
uv pip install --no-deps addict 'albumentations<1.4' beautifulsoup4 dominate cityscapesscripts dvclive fairscale fire \
    fvcore hydra-core imutils insightface invisible-watermark iopath lvis mediapipe mlflow-skinny mmcv-lite mmdet mmpose \
    mmsegmentation neptune onnx onnxruntime openvino pandas prettytable pudb pygments pytest pytorch-fid PyTurboJPEG \
    reportlab shapely streamlit streamlit-drawable-canvas svglib tabulate tensorboardX tensorflow-cpu termcolor \
    torch-tb-profiler
uv pip install --no-deps --editable .
# The SDK has its own copy of it; scripts beside that import it by name.
uv pip install --no-deps ./auto1111sdk/modules/generative

"$environment/bin/python" -c 'import realesrgan, torch; print("realesrgan with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
