# A known-good recipe for ml-mdm at the pinned commit, run by bash in the repository folder as root.
# Only the variant for machines without a GPU was run; the one with a GPU takes what the repository pins.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/ml-mdm

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# torch 2.2.2 has wheels up to Python 3.12. Beside a newer torch for the CPU, torchvision is used for saving images
# only, which its pure Python part does.
if command -v nvidia-smi >/dev/null; then
    python=3.10
    versions="torch==2.2.2 torchvision==0.17.2"
else
    python=python3
    versions="torch==2.13.0 torchvision==0.15.2"
fi
printf '%s\n' $versions >/tmp/overrides.txt

uv venv --python "$python" "$environment"
export VIRTUAL_ENV="$environment"

# Beyond what is declared: the demo writes videos with imageio, the tests import pytest, and models/unet_mlx.py needs
# mlx itself. transformers is of the time of the commit.
uv pip install --override /tmp/overrides.txt --editable './ml-mdm-matryoshka[training]' \
    'transformers>=4.46,<4.50' 'dataclass-wizard<0.36' 'mlx[cpu]' imageio 'pytest<9'

"$environment/bin/python" -c 'import mlx.data, ml_mdm.trainer, torch; print("ml_mdm with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
