# A known-good recipe for ml-aim, run by bash in the repository folder as root.
#
# The branch without a GPU is the one that was run.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/ml-aim

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"

# The other backends, the tests, and an option of aim-v1's attention.
others=(huggingface_hub safetensors 'numpy<3' pillow jax flax 'mlx[cpu]' pytest transformers loralib)

if command -v nvidia-smi > /dev/null; then
    uv pip install torch==2.6.0 torchvision==0.21.0 "${others[@]}"
else
    uv pip install torch==2.13.0 "${others[@]}"
    # Newer builds of torchvision do not import beside a torch for the CPU; this one has all that is used here.
    uv pip install --no-deps torchvision==0.15.2
    uv pip install requests
fi

# Two packages share the namespace aim: as paths, both are found, by analysers, too.
uv pip install --no-deps --config-settings editable_mode=compat -e ./aim-v1 -e ./aim-v2

"$environment/bin/python" -c 'import aim.v1.torch.models, aim.v2.torch.models, torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
