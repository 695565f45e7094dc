# A known-good recipe for torchft, run by bash in the repository folder as root.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
#
# Run here: the branch without a GPU. There is no registry of Rust packages behind it, so torchft's compiled module is
# not built: it comes from the nightly wheel of the day after the pinned commit, whose Python files are those of the
# commit, and is put where an editable install would put it. torch comes from wherever the host's package settings lead:
# a CPU wheel where a find-links folder offers one ("2.13.0+cpu" satisfies "==2.13.0" and sorts above it).
environment=/opt/venv/torchft

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

telemetry=(opentelemetry-api==1.39.1 opentelemetry-sdk==1.39.1 opentelemetry-exporter-otlp-proto-http==1.39.1)
if command -v nvidia-smi; then
    apt-get update
    apt-get install --yes curl protobuf-compiler
    curl --proto '=https' --fail --silent https://sh.rustup.rs | sh -s -- -y --profile minimal
    export PATH="$HOME/.cargo/bin:$PATH"
    # 2.10 is the first that the pinned Manager runs with, whatever the metadata say.
    uv pip install torch==2.10.0 torchvision==0.25.0 "${telemetry[@]}"
    uv pip install --editable .
else
    uv pip install torch==2.13.0 numpy pillow requests "${telemetry[@]}"
    # Later builds of torchvision need CUDA libraries.
    uv pip install --no-deps torchvision==0.16.2
    uv pip install --no-deps --target /tmp/nightly torchft-nightly==2025.12.27
    cp /tmp/nightly/torchft/_torchft.*.so torchft/
    packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$PWD" > "$packages/torchft.pth"
    # Manager resets NCCL's flight recorder at every new quorum, which builds of torch without NCCL cannot do. It takes
    # the missing function for a failed step, and so never commits one. Without NCCL there is nothing to reset.
    cat >> "$packages/torch/distributed/distributed_c10d.py" <<'END'


if not hasattr(torch._C._distributed_c10d, "_reset_fr_recording_nccl"):
    torch._C._distributed_c10d._reset_fr_recording_nccl = lambda: None
END
fi

# What the examples, the tests, the documentation and a linter import, and the metadata do not name for them.
uv pip install torchdata tensorboard parameterized 'pytest==8.3.4' pytest-timeout expecttest toml lintrunner-adapters torchx
uv pip install --no-deps torchmonarch==0.2.0 torchtitan==0.2.1 sphinx docutils pytorch-sphinx-theme2

"$environment/bin/python" -c 'import torch, torchft, torchft._torchft; print("torchft with torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
