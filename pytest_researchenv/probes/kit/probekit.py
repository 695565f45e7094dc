"""What probes share. It lies beside each probe script, so that `import probekit` finds it.

Importing it imports the standard library alone: what the environment lacks must fail where the repository needs it.
Inputs are made here, from seeds, and written below the output folder; nothing is downloaded.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import json
import math
import os
import random
import runpy
import subprocess
import sys
import wave
from array import array
from pathlib import Path
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedTokenizerFast


#: The repository's folder; it is read-only by rule.
REPO = Path(os.environ["RESEARCHENV_REPO"])
#: The folder for everything that a probe writes.
OUT = Path(os.environ["RESEARCHENV_OUT"])
#: `cpu` or `cuda`.
DEVICE = os.environ["RESEARCHENV_DEVICE"]
#: How many ranks to start.
NPROC = int(os.environ["RESEARCHENV_NPROC"])
#: The script that runs a script and records what its process saw.
OBSERVER = os.environ["RESEARCHENV_OBSERVER"]


def run_script(script: str | Path, *arguments: object) -> dict[str, object]:
    """Run a script of the repository in this process, as `python script arguments…` would; return its globals.

    A path that is not absolute is relative to the repository. SystemExit is raised for a code other than 0.
    """
    path = REPO / script
    sys.path[0] = str(path.parent)
    sys.argv = [str(path), *map(str, arguments)]
    try:
        return runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        return {}


def run_ranks(script: str | Path, *arguments: object) -> None:
    """Run a script as `NPROC` ranks by torchrun, each under the observer; CalledProcessError where a rank failed."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={NPROC}"]
    subprocess.run([*launcher, OBSERVER, str(REPO / script), *map(str, arguments)], check=True)


def observe(**values: float | str | list[float]) -> None:
    """Add values to `{out}/observed.json`, which the evidence in `repo.toml` is read from, and print them."""
    file = OUT / "observed.json"
    seen = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps(seen | values), encoding="utf-8")
    print("observed:", values, flush=True)


def finite(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds numbers, all finite."""
    return tensor.numel() > 0 and bool(tensor.isfinite().all())


def on_device(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on the kind of device that was asked for."""
    return tensor.device.type == DEVICE


def write_images(folder: Path, count: int, *, size: tuple[int, int] = (64, 64), seed: int = 0) -> list[Path]:
    """Write RGB images of coloured blocks, of a width and a height in pixels, as PNG files, with Pillow."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - see the module's docstring

    chooser = random.Random(seed)  # noqa: S311 - test data, no secret
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for index in range(count):
        image = Image.new("RGB", size, tuple(chooser.randrange(256) for _ in range(3)))
        draw = ImageDraw.Draw(image)
        for _ in range(8):
            left, top = chooser.randrange(size[0]), chooser.randrange(size[1])
            box = (left, top, left + size[0] // 4, top + size[1] // 4)
            draw.rectangle(box, fill=tuple(chooser.randrange(256) for _ in range(3)))
        paths.append(folder / f"image-{index:03d}.png")
        image.save(paths[-1])
    return paths


def write_speech(path: Path, *, seconds: float = 1.0, rate: int = 16000, seed: int = 0) -> Path:
    """Write a mono 16-bit WAV file with the spectrum of a voice: harmonics of a gliding tone in syllables, noise."""
    chooser = random.Random(seed)  # noqa: S311 - test data, no secret
    base = chooser.uniform(100, 180)
    samples = array("h")
    phase = 0.0
    for index in range(int(seconds * rate)):
        time = index / rate
        phase += 2 * math.pi * (base + 30 * math.sin(2 * math.pi * time)) / rate
        voice = sum(math.sin(order * phase) / order for order in range(1, 9))
        syllable = 0.5 - 0.5 * math.cos(2 * math.pi * 4 * time)
        samples.append(int(6000 * (0.8 * syllable * voice + 0.02 * chooser.gauss(0, 1))))
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


def token_batch(batch: int, length: int, *, vocabulary: int, seed: int = 0) -> torch.Tensor:
    """Make token ids of shape (batch, length), on the CPU."""
    import torch  # noqa: PLC0415 - see the module's docstring

    return torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(seed))


def word_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """Make a tokenizer that has one token a word, with `<unk>`, `<s>`, `</s>` and `<pad>` before them."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - see the module's docstring
    from tokenizers.models import WordLevel  # noqa: PLC0415 - likewise
    from tokenizers.pre_tokenizers import Whitespace  # noqa: PLC0415 - likewise
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - likewise

    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    vocabulary = {word: index for index, word in enumerate([*special.values(), *words])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token=special["unk_token"]))
    backend.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=1024, **special)


def selective_scan(
    inputs: torch.Tensor, delta: torch.Tensor, transition: torch.Tensor, maps: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Run the recurrence of a selective state space model (Mamba, arXiv 2312.00752), one token after the other.

    Inputs and step sizes are (batch, tokens, channels), the transition is (channels, states) and negative; the maps,
    from input to states and from states to output, are (batch, tokens, states).
    """
    import torch  # noqa: PLC0415 - see the module's docstring

    into, out_of = maps
    state = inputs.new_zeros(inputs.shape[0], *transition.shape)
    outputs = []
    for token in range(inputs.shape[1]):
        step = delta[:, token, :, None]
        state = (step * transition).exp() * state + step * into[:, token, None, :] * inputs[:, token, :, None]
        outputs.append((state * out_of[:, token, None, :]).sum(-1))
    return torch.stack(outputs, 1)


def data_parallel_step(
    model: torch.nn.Module, batch: list[torch.Tensor], loss: Callable[..., torch.Tensor]
) -> dict[str, float]:
    """Take a step of SGD under DDP, each rank with its share of a batch, and compare it with one on the whole batch.

    There is a process group; model and batch (inputs, targets) are on this rank's device and the same on every rank.
    The largest differences between weights are given relative to the largest that the step on the whole batch made:
    `update_error`, of the step under DDP, and `share_error`, of one on this rank's share alone.
    """
    from copy import deepcopy  # noqa: PLC0415 - see the module's docstring

    import torch.distributed as dist  # noqa: PLC0415 - likewise
    from torch import nn, optim  # noqa: PLC0415 - likewise

    def step(candidate: nn.Module, part: list[torch.Tensor]) -> torch.Tensor:
        optimizer = optim.SGD(candidate.parameters(), lr=0.1)
        loss(candidate, *part).backward()
        optimizer.step()
        return nn.utils.parameters_to_vector(candidate.parameters()).detach()

    before = nn.utils.parameters_to_vector(model.parameters()).detach()
    share = [tensor.chunk(dist.get_world_size())[dist.get_rank()] for tensor in batch]
    whole = step(deepcopy(model), batch)
    alone = step(deepcopy(model), share)
    # With no devices named, the model stays where it is. Some models have weights that no output depends on.
    together = step(nn.parallel.DistributedDataParallel(deepcopy(model), find_unused_parameters=True), share)
    largest = (whole - before).abs().max()
    return {
        "update_error": ((together - whole).abs().max() / largest).item(),
        "share_error": ((alone - whole).abs().max() / largest).item(),
    }
