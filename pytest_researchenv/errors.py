"""Everything this package raises on purpose.

Two families matter to a caller: `ConfigurationError` is the user's to fix (exit code 4), and
`InfrastructureError` is nobody's verdict (a pytest error, never a failure).
Messages say what happened, the value, and what to do next.
"""

from __future__ import annotations


__all__ = [
    "AssetError",
    "ConfigurationError",
    "DaemonUnavailableError",
    "DevicesUnavailableError",
    "ElsewhereError",
    "ImageError",
    "InfrastructureError",
    "LeaseError",
    "NoRoomError",
    "ProviderError",
    "ResearchEnvError",
    "SandboxError",
    "SourceError",
    "StaleEnvironmentError",
    "StoreError",
    "SuiteError",
    "UnknownChangesError",
]


class ResearchEnvError(Exception):
    """Root of all errors of pytest-researchenv."""


class ConfigurationError(ResearchEnvError, ValueError):
    """The user asked for something that cannot be done: a wrong option, name or combination."""


class SuiteError(ConfigurationError):
    """A suite's files are wrong; the message names the file, the key, the value and the fix."""


class StaleEnvironmentError(ConfigurationError):
    """A stored environment no longer matches what would be built today."""


class InfrastructureError(ResearchEnvError, RuntimeError):
    """Something outside the agent's environment broke, so no verdict is possible."""


class DaemonUnavailableError(InfrastructureError, ConnectionError):
    """No container engine answers; the message lists what was tried."""


class ElsewhereError(InfrastructureError):
    """An environment is in another container engine than the one that was asked.

    Attributes:
        engine: the other's id.
        name: the Docker context by which the user chose it; empty where it was the usual one of some host.
    """

    def __init__(self, message: str, *, engine: str, name: str) -> None:
        super().__init__(message)
        self.engine = engine
        self.name = name


class SandboxError(InfrastructureError):
    """A call to the container engine failed.

    Whether the engine or the image is at fault is not known here: the caller repeats the call on the base image to
    find out.
    """


class DevicesUnavailableError(SandboxError):
    """The container engine has no means to give accelerators to a container, whatever the image."""


class LeaseError(InfrastructureError):
    """A device, or a place to work, could not be had, or the line of those who wait for one cannot be used."""


class NoRoomError(InfrastructureError, OSError):
    """A disk is too full for work to begin, or to go on; the message says the numbers."""


class ProviderError(InfrastructureError, ConnectionError):
    """The provider of an agent's model, or the way to it, broke: the agent could not do its work.

    Attributes:
        kind: the kind of trouble, a value of `gateway.protocol.Outcome`.
        reason: the trouble in words, without what it did to the agent.
        lasting: whether it stays until a person does something.
    """

    def __init__(self, message: str, *, kind: str = "", reason: str = "", lasting: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason or message
        self.lasting = lasting


class ImageError(InfrastructureError):
    """A base image or a tool volume could not be made."""


class SourceError(InfrastructureError, OSError):
    """The pinned tree could not be had: network, checksum, missing commit."""


class AssetError(InfrastructureError, OSError):
    """A file that a probe needs could not be had: network, size, checksum."""


class StoreError(InfrastructureError, OSError):
    """The results folder could not be read or written."""


class UnknownChangesError(ResearchEnvError, ValueError):
    """What an agent's layer changed could not be told when it was frozen, and the agent is to blame for that."""
