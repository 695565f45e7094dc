# A known-good recipe for Depth-Anything, run by bash in the repository folder as root.
#
# Of what run.py needs, nothing is pinned. The branch without a GPU is the one that was run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/depth-anything

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# opencv-python needs libGL of the system, its headless build does not.
# Behind requirements.txt: what metric_depth, semseg and the bundled DINOv2 import.
others=(opencv-python-headless==4.9.0.80 gradio==4.14.0 gradio_imageslider huggingface_hub tqdm
    matplotlib scipy h5py wandb requests addict yapf rich termcolor
    submitit fvcore omegaconf torchmetrics setuptools)

if command -v nvidia-smi > /dev/null; then
    uv pip install torch==2.6.0 torchvision==0.21.0 "${others[@]}" open3d
else
    uv pip install torch==2.13.0 "${others[@]}" open3d-cpu
    # Newer builds of torchvision do not import beside a torch for the CPU; this one has all that is used here.
    uv pip install --no-deps torchvision==0.15.2
fi
# mmengine would bring opencv-python over the headless build, and mmsegmentation wants mmcv, which has to be compiled.
uv pip install --no-deps mmengine mmsegmentation

"$environment/bin/python" -c 'import cv2, torch, torchvision; print("torch", torch.__version__, "cv2", cv2.__version__)'

report "$environment/bin/python" uv "$environment"
