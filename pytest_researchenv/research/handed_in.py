"""Results that an agent handed in, read from outside and laid out for the readers of published formats."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_researchenv.probes.evidence import Outputs
from pytest_researchenv.probes.lookup import printable


__all__ = ["LaidOut", "laid_out"]

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class LaidOut:
    """Results on this host.

    Attributes:
        root: the folder.
        problems: what was left out, and why: then it is not known what else there is.
    """

    root: Path
    problems: tuple[str, ...] = ()


@contextmanager
def laid_out(outputs: Outputs, folder: str) -> Iterator[LaidOut]:
    """Write the regular files of a container's folder into one of this host, until the end of the block.

    Nothing of what they are called or hold is trusted: names stay below the folder, and links are not followed, since
    none is written.

    Args:
        outputs: what was read of the folder.
        folder: its absolute path in the container.
    """
    problems = [outputs.problem] if outputs.problem else []
    with tempfile.TemporaryDirectory(prefix="researchenv-results-") as scratch:
        root = Path(scratch, "results")
        root.mkdir()
        for path, file in outputs.files.items():
            name = PurePosixPath(path).relative_to(folder)
            shown = printable(str(name), _SHOWN)
            if file.content is None or ".." in name.parts:
                problems.append(f"{shown}: too large beside the others, or outside of the folder")
                continue
            place = root / name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as opened:
                    opened.write(file.content)
            # Bytes that are no UTF-8 were replaced, so that names can be alike, or longer than any may be.
            except OSError as error:
                problems.append(f"{shown}: {error.strerror}")
        yield LaidOut(root, tuple(problems))
