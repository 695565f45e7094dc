# A known-good recipe for yomitoku at the pinned commit, run by bash in the repository folder as root.
# Only the variant for machines without a GPU was run; the one with a GPU takes what the repository asks for.
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/yomitoku

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

# With a GPU, builds for the target's CUDA 12.4. Without one, the index has no torchvision that can be imported beside a
# torch for the CPU, except an old one whose compiled operators do not load; yomitoku needs none of them.
if command -v nvidia-smi >/dev/null; then
    printf '%s\n' torch==2.6.0 torchvision==0.21.0 >/tmp/overrides.txt
else
    printf '%s\n' torch==2.13.0 torchvision==0.15.2 >/tmp/overrides.txt
fi

# OpenCV's wheel wants libGL and GLib; the one without windows, which needs neither, has the same modules.
echo 'opencv-python; python_version < "0"' >>/tmp/overrides.txt

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# mcp: the extra. The documentation's macros need mkdocs-macros-plugin, the tests pytest.
uv pip install --override /tmp/overrides.txt --editable '.[mcp]' opencv-python-headless mkdocs-macros-plugin pytest

"$environment/bin/python" -c 'import torch, yomitoku; print("yomitoku", yomitoku.__version__, "with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
