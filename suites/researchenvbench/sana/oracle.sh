# A known-good recipe for Sana, run by bash in the repository folder as root.
#
# With a GPU: its pins, on Python 3.10, without the extra index that its pyproject.toml names; CLIP comes from where it
# says. Without a GPU: the same packages as far as they exist there. Neither branch has been run: the repository could
# not be had.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/sana

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1

others=(pre-commit accelerate==1.0.1 beautifulsoup4 bs4 came-pytorch einops ftfy diffusers==0.35.0 gradio ipdb omegaconf
    opencv-python optimum patch_conv peft==0.17.0 protobuf pytorch-fid regex sentencepiece tensorboard tensorboardX timm
    transformers==4.49.0 wandb webdataset yapf spaces matplotlib termcolor pyrallis fire moviepy 'imageio[pyav,ffmpeg]'
    qwen_vl_utils addict 'numpy<3' 'setuptools<81' wheel packaging psutil ninja)

if command -v nvidia-smi > /dev/null; then
    uv venv --python 3.10 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.8.0 torchvision==0.23.0 torchaudio==2.8.0 triton==3.4.0 xformers==0.0.32.post2 bitsandbytes \
        "${others[@]}"
    uv pip install --no-deps --no-build-isolation flash_attn==2.8.3
    uv pip install --no-deps "clip @ git+https://github.com/openai/CLIP.git"
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 "${others[@]}"
    uv pip install --no-deps torchvision==0.16.2 torchaudio==2.11.0
    find "$environment" -path '*/torchaudio/lib/*.so' -delete
fi
# image-reward pins an old timm; mmcv is built without its operators, which nothing of the repository uses.
uv pip install --no-deps image-reward
MMCV_WITH_OPS=0 uv pip install --no-deps --no-build-isolation mmcv==1.7.2

uv pip install --no-deps --editable .

"$environment/bin/python" -c 'import torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
