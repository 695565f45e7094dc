# A known-good recipe for InternEvo, run by bash in the repository folder as root.
#
# With a GPU: what the install guide asks for, on Python 3.10; flash-attn and its parts, and apex, from where the
# submodules come from. Without a GPU nothing of the repository can run; what can be installed there is. Neither branch
# has been run: the pinned commit could not be had.
#
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
environment=/opt/venv/internevo

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
export UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1

# requirements/runtime.txt, and what the tree imports besides.
others=('transformers<4.30.0' sentencepiece 'numpy<2' tqdm psutil packaging pre-commit ninja gputil pytest boto3 botocore
    pyecharts py-libnuma pynvml tensorboard einops wheel dill oss2 tos safetensors peft==0.3.0 datasets streamlit fastapi
    uvicorn sse-starlette requests)

if command -v nvidia-smi > /dev/null; then
    uv venv --python 3.10 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.1.0 torchvision==0.16.0 torchaudio==2.1.0 'setuptools<70' "${others[@]}"
    uv pip install --no-deps --no-build-isolation torch-scatter==2.1.2
    uv pip install --no-deps --no-build-isolation flash-attn==2.2.1
    for part in rotary:rotary_emb xentropy:xentropy_cuda_lib layer_norm:dropout_layer_norm fused_dense_lib:fused_dense_lib; do
        uv pip install --no-deps --no-build-isolation \
            "${part#*:} @ git+https://github.com/Dao-AILab/flash-attention@v2.2.1#subdirectory=csrc/${part%:*}"
    done
    uv pip install --no-deps --no-build-isolation \
        --config-settings "--build-option=--cpp_ext" --config-settings "--build-option=--cuda_ext" \
        "apex @ git+https://github.com/NVIDIA/apex@23.05"
else
    uv venv --python python3 "$environment"
    export VIRTUAL_ENV="$environment"
    uv pip install torch==2.13.0 'setuptools<81' "${others[@]}"
    uv pip install --no-deps torchvision==0.16.2
fi

uv pip install --no-deps .

"$environment/bin/python" -c 'import torch; print("torch", torch.__version__)'

report "$environment/bin/python" uv "$environment"
