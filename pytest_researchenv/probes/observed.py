"""What an environment shows of itself, to compare a self-report with."""

from __future__ import annotations

from dataclasses import dataclass


__all__ = ["Observed", "Torch", "Unusable"]


@dataclass(frozen=True, slots=True)
class Torch:
    """What torch says, and whether it is believed.

    Attributes:
        version: `torch.__version__`; None when it cannot be imported.
        error: why not, or what went wrong when it was asked for devices; empty when nothing did.
        cuda_available: `torch.cuda.is_available()`.
        gpu_count: `torch.cuda.device_count()`.
        recorded: the versions that its installers recorded, as their files say; none where there is no such file.
        stand_in: why it is not genuine; empty when nothing is known against it.
        contradiction: what it says of itself that is seen to be otherwise; empty likewise.
    """

    version: str | None
    error: str
    cuda_available: bool
    gpu_count: int
    recorded: tuple[str, ...] = ()
    stand_in: str = ""
    contradiction: str = ""

    @property
    def absence(self) -> str:
        """Why there is no torch to speak of, in words; empty when there is one."""
        if self.stand_in and self.version is not None:
            return f"the torch that is imported is not genuine: {self.stand_in}"
        if self.contradiction:
            return f"torch contradicts itself: {self.contradiction}"
        return f"torch cannot be imported: {self.error}" if self.version is None else ""

    @property
    def sees_cuda(self) -> bool:
        """Whether a torch that is believed finds CUDA available."""
        return self.cuda_available and not self.absence

    @property
    def devices(self) -> int:
        """How many devices a torch that is believed finds."""
        return 0 if self.absence else self.gpu_count


@dataclass(frozen=True, slots=True)
class Observed:
    """What the reported interpreter is and sees.

    Attributes:
        python_version: the version that it printed.
        contradiction: in what way it is seen from outside to be another; empty when in none.
        executable: its `sys.executable`.
        torch: what its torch says.
        duration_s: how long it took in seconds.
    """

    python_version: str
    contradiction: str
    executable: str
    torch: Torch
    duration_s: float

    @property
    def contradictions(self) -> list[str]:
        """What was printed that is seen to be otherwise, in words."""
        told = [f"Python contradicts itself: {self.contradiction}"] if self.contradiction else []
        return told + ([f"torch contradicts itself: {self.torch.contradiction}"] if self.torch.contradiction else [])

    def evidence(self) -> dict[str, bool | int | float | str | list[str] | None]:
        """What is recorded of it: what was printed, believed or not."""
        return {
            "python_version": self.python_version,
            "executable": self.executable,
            "torch_version": self.torch.version,
            "torch_metadata": ", ".join(self.torch.recorded) or None,
            "torch_error": self.torch.error,
            "cuda_available": self.torch.cuda_available,
            "gpu_count": self.torch.gpu_count,
        }


@dataclass(frozen=True, slots=True)
class Unusable:
    """The reported interpreter is none that can be asked, or none whose answer is believed.

    Attributes:
        reason: what is there instead, in words.
        doubted: whether something may well answer there, and is not believed.
        duration_s: how long it ran in seconds.
    """

    reason: str
    doubted: bool = False
    duration_s: float = 0.0
