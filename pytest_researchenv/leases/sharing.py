"""What an engine's devices and slots are, and how a piece of work gets its share of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pytest_researchenv.hardware import Accelerator, Device, Hardware
from pytest_researchenv.leases.choice import SharingSettings, visible
from pytest_researchenv.leases.desk import Desk, Wanted
from pytest_researchenv.leases.line import Amount
from pytest_researchenv.sandbox.labels import Owner, boot


__all__ = ["ALONE", "Share", "Sharing", "line_folder", "shared"]


@dataclass(frozen=True, slots=True)
class Share:
    """What a piece of work may use until the end of its block.

    Attributes:
        hardware: with the devices that it got.
        release: gives it back now.
    """

    hardware: Hardware
    release: Callable[[], None] = lambda: None


@final
@dataclass(frozen=True, slots=True)
class Sharing:
    """Devices and slots of an engine.

    Attributes:
        desk: where leases are had; None where nothing is shared, so that nothing is waited for.
        pool: the devices that will do. More than what may be used at once, where the user gave a number.
        most: how many devices the run may use at once, and for whom that is counted; None for no limit.
        slots: how many pieces of work may be done at once; 0 for no limit.
    """

    desk: Desk | None = None
    pool: tuple[Device, ...] = ()
    most: tuple[str, int] | None = None
    slots: int = 0

    @contextmanager
    def share(
        self, hardware: Hardware, purpose: str, *, devices: int, say: Callable[[str], object] = lambda _: None
    ) -> Iterator[Share]:
        """Wait for devices and a slot, all or nothing, and hold them until the end of the block.

        Args:
            hardware: what there is.
            purpose: what for, in words.
            devices: how many devices; never more than there are.
            say: told what is waited for.

        Raises:
            LeaseError: they could not be had.
        """
        count = min(devices, len(hardware.devices))
        if self.desk is None or not (count or self.slots):
            yield Share(hardware.first(count))
            return
        amounts = {"slots": Amount(1, self.slots)} if self.slots else {}
        if count and self.most:
            amounts[self.most[0]] = Amount(count, self.most[1])
        wanted = Wanted(purpose, count, tuple(device.uuid for device in self.pool) if count else (), amounts)
        with self.desk.lease(wanted, say=say) as lease:
            held = tuple(device for device in self.pool if device.uuid in lease.devices)
            yield Share(replace(hardware, devices=held), lease.release)


#: Nothing is shared with anybody.
ALONE = Sharing()


def shared(
    found: Hardware,
    settings: SharingSettings,
    *,
    owner: Owner,
    engine: str,
    slots: int,
    variable: str | None,
    occupied: Callable[[tuple[str, ...]], Mapping[str, str]],
) -> tuple[Hardware, Sharing]:
    """Return what a run may use of an engine's hardware, and how it is shared with others.

    Args:
        found: all there is.
        settings: what the user chose.
        owner: who asks.
        engine: what tells the engine from others.
        slots: how many slots its host has; 0 for no limit.
        variable: CUDA_VISIBLE_DEVICES as it counts for the engine's host; None where it does not.
        occupied: tells who uses devices without a lease.

    Raises:
        ConfigurationError: the user named a device that is not there.
    """
    seen = visible(found.devices, variable)
    pool = settings.gpus.among(seen)
    most = settings.gpus.most
    usable = pool if most is None else pool[:most]
    hardware = found
    if len(usable) < len(found.devices):
        left = f"{len(found.devices)} found, and {len(usable)} left by --researchenv-gpus and CUDA_VISIBLE_DEVICES"
        hardware = replace(found, devices=usable, reason=left) if usable else Hardware(Accelerator.CPU, reason=left)
    if not (usable or slots):
        return hardware, ALONE
    desk = Desk(line_folder(settings, owner=owner, engine=engine), occupied=occupied, patience_s=settings.patience_s)
    limited = None if most is None or most >= len(pool) else (f"devices of {_account()} for the run {owner.run}", most)
    return hardware, Sharing(desk, pool, limited, slots)


def line_folder(settings: SharingSettings, *, owner: Owner, engine: str) -> Path:
    """Return where those who share an engine, from one host and since its start, stand in line.

    Args:
        settings: what the user chose.
        owner: who asks.
        engine: what tells the engine from others.
    """
    return settings.folder / f"{owner.host}-{_digest(engine)}-{_digest(boot())}"


def _account() -> str:
    return f"uid {os.getuid()}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
