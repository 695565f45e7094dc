"""The base image: a bare system with Python, uv, git and compilers, made once and found again by its content."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException, ImageNotFound
from docker.models.images import Image
from docker.types import Mount as EngineMount
from requests import RequestException

from pytest_researchenv._cache import PATIENCE_S, locked
from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._bootstrap import Distribution, bootstrap, host_distribution
from pytest_researchenv.sandbox._engine import architecture, engine_errors, helper, patience
from pytest_researchenv.sandbox._hostconfig import HostConfiguration, apt_settings
from pytest_researchenv.sandbox._recipe import Recipe, host_certificates, write_layer
from pytest_researchenv.sandbox._stream import Pump
from pytest_researchenv.sandbox.capture import Capture
from pytest_researchenv.sandbox.hostsettings import host_settings
from pytest_researchenv.sandbox.labels import PREFIX, Owner


__all__ = ["BaseImage", "ensure_base_image"]

#: Python 3.11, which most research code supports; the next release has 3.13, which much of it does not.
DEBIAN = Distribution("debian", "bookworm")

_REPOSITORY = "researchenv/base"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Kept of what the layer prints, for its error.
_LOG_BYTES = 64 * 1024
_LAYER = "researchenv/layer"
#: Silence after which a registry counts as out of reach.
_REGISTRY_S = 8


@dataclass(frozen=True, slots=True)
class BaseImage:
    """The image that every environment grows from.

    Attributes:
        image: the engine's id.
        key: content key.
        description: what it is and where it came from.
    """

    image: str
    key: str
    description: str


@dataclass(frozen=True, slots=True)
class _Build:
    """What the steps of one build share."""

    client: docker.DockerClient
    owner: Owner
    recipe: Recipe
    cache: Path | None
    say: Callable[[str], None]

    @property
    def reference(self) -> str:
        """The tag: given last, in one step with the image itself, so that nothing half-made ever has it."""
        return f"{_REPOSITORY}:{self.recipe.key}"

    def labels(self, description: str) -> dict[str, str]:
        """Labels of the finished image."""
        return self.owner.labels("base-image", key=self.recipe.key, description=description)

    def find(self) -> BaseImage | None:
        """The image of this recipe, if it is there."""
        image = _local(self.client, self.reference)
        if image is None:
            return None
        description = (image.attrs["Config"].get("Labels") or {}).get(f"{PREFIX}description", "")
        return BaseImage(str(image.id), self.recipe.key, description)


def ensure_base_image(
    client: docker.DockerClient,
    *,
    owner: Owner,
    wanted: str = "",
    say: Callable[[str], None],
    cache: Path | None = None,
) -> BaseImage:
    """The base image, built when it is not there yet.

    Args:
        client: the engine.
        owner: whose labels it gets.
        wanted: reference of the image to grow it from; it is pulled when missing. Empty: Debian.
        say: told what happens, line by line.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: it cannot be built; the message says what would help.
    """
    engine = architecture(client)
    certificates = host_certificates()
    origins = [_wanted(client, wanted, say)] if wanted else [str(DEBIAN)]
    host = host_distribution()
    if not wanted and host is not None and host.name == "ubuntu":
        # Without a registry, an Ubuntu host bootstraps its own release: it has no keys for Debian's.
        origins.append(str(host))
    builds = [_Build(client, owner, Recipe(origin, engine, certificates), cache, say) for origin in origins]
    for build in builds:
        if found := build.find():
            return found
    with locked(f"base-{builds[0].recipe.key}", cache, say):
        for build in builds:
            if found := build.find():
                return found
        if wanted:
            return _layered(builds[0], origins[0], f"{wanted} with the build tools")
        return _default(builds, host)


def _default(builds: list[_Build], host: Distribution | None) -> BaseImage:
    """Build from the registry's Debian, else by bootstrapping.

    The registry comes first since its image is the same on every host and has a digest that says so, while what
    mmdebstrap makes depends on the mirror and the day, needs a Debian or Ubuntu host, and root or user namespaces.
    """
    client, say = builds[0].client, builds[0].say
    reference = f"{DEBIAN.name}:{DEBIAN.suite}-slim"
    try:
        with patience(client, _REGISTRY_S):
            # Typeshed has no types for it.
            manifest = client.api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
            digest = manifest["Descriptor"]["digest"]
    except (DockerException, RequestException) as error:
        reason = str(getattr(error, "explanation", None) or error)
    else:
        root = _pulled(client, f"{DEBIAN.name}@{digest}", say)
        return _layered(builds[0], root, f"{reference} ({digest[:19]}) with the build tools")
    if host is None:
        raise ImageError(
            f"no base image: {reference} cannot be pulled ({reason}), and this host is neither Debian nor Ubuntu, so "
            "that mmdebstrap cannot make one; name an image that the engine has or can pull by --researchenv-image"
        )
    say(f"no registry answers for {reference}: {reason}")
    return _bootstrapped(builds[-1], host)


def _bootstrapped(build: _Build, host: Distribution) -> BaseImage:
    name, _, suite = build.recipe.origin.partition(" ")
    settings = HostConfiguration.read()
    environment = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    # The system's folders, whatever a virtual environment or a cron job did to PATH.
    environment |= {"PATH": _PATH, "LANG": "C.UTF-8", **settings.proxies}
    # A file without a name: an interrupted build leaves nothing behind.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile(dir="/var/tmp") as root:
        write_layer(build.recipe, Path(folder), say=build.say)
        bootstrap(
            Distribution(name, suite),
            host=host,
            architecture=build.recipe.architecture,
            layer=Path(folder),
            output=root,
            apt_options=apt_settings(),
            environment=environment,
            say=build.say,
        )
        root.seek(0)
        build.say("importing it into the container engine")
        labels = build.labels(f"{build.recipe.origin} with the build tools, by mmdebstrap")
        with engine_errors("importing the base image"), patience(build.client, PATIENCE_S):
            build.client.api.import_image_from_stream(
                # Chunks, not the file: docker-py demands chunked transfer, which requests would not do for a file.
                iter(lambda: root.read(1 << 20), b""),
                repository=_REPOSITORY,
                tag=build.recipe.key,
                changes=_import_changes(labels),
            )
    return _finished(build)


def _import_changes(labels: Mapping[str, str]) -> list[str]:
    """Configuration of an imported image, as lines of a Dockerfile: the engine expands variables in them."""
    quoted = {key: value.replace("\\", r"\\").replace('"', r"\"").replace("$", r"\$") for key, value in labels.items()}
    lines = [f'LABEL {key}="{value}"' for key, value in quoted.items()]
    return [f"ENV PATH={_PATH}", "ENV LANG=C.UTF-8", 'CMD ["bash"]', *lines]


def _layered(build: _Build, root: str, description: str) -> BaseImage:
    """Apply our layer to the image `root` in a container, and commit that."""
    settings = host_settings(build.client, owner=build.owner, image=root, say=build.say, cache=build.cache)
    mounts = []
    if settings.mount:
        mounts = [
            EngineMount(settings.mount.target, settings.mount.volume, type="volume", read_only=True, no_copy=True)
        ]
    build.say(f"adding the build tools to {description.partition(' with ')[0]}")
    idle = {"entrypoint": ["sleep"], "command": ["infinity"], "init": True, "mounts": mounts}
    with (
        tempfile.TemporaryDirectory() as folder,
        helper(build.client, owner=build.owner, image=root, **idle) as container,
        engine_errors("building the base image"),
    ):
        write_layer(build.recipe, Path(folder), say=build.say)
        container.put_archive("/", _archive(Path(folder)))
        container.start()
        _run_layer(build.client, str(container.id), settings.environment)
        container.kill()
        config = _committed_config(build.client.images.get(root), build.labels(description))
        with patience(build.client, PATIENCE_S):
            container.commit(_REPOSITORY, build.recipe.key, conf=config)
    return _finished(build)


def _archive(folder: Path) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.add(folder, _LAYER, filter=lambda member: member.replace(uid=0, gid=0, uname="", gname=""))
    return stream.getvalue()


def _run_layer(client: docker.DockerClient, container: str, environment: Mapping[str, str]) -> None:
    # By exec, since the environment of a main process would become part of the image.
    argv = ["sh", f"/{_LAYER}/layer.sh"]
    process = client.api.exec_create(container, argv, environment=dict(environment), user="0", workdir="/")["Id"]
    capture = Capture(_LOG_BYTES)
    with Pump(client.api.exec_start(process, stream=True), capture) as pump:
        ended = pump.carry(
            deadline=time.monotonic() + PATIENCE_S, ended=lambda: not client.api.exec_inspect(process)["Running"]
        )
    tail = "\n".join(capture.result().text().strip().splitlines()[-20:])
    if not ended:
        raise ImageError(f"adding the build tools to the image took more than {PATIENCE_S} s; its last lines:\n{tail}")
    code = client.api.exec_inspect(process)["ExitCode"]
    if code != 0:
        raise ImageError(f"adding the build tools to the image ended with code {code}; its last lines:\n{tail}")


def _committed_config(root: Image, labels: dict[str, str]) -> dict[str, object]:
    """Configuration of a committed base image: the root's own variables, a shell, and nothing that runs unasked."""
    before = root.attrs["Config"]
    environment = dict(item.partition("=")[::2] for item in before.get("Env") or [])
    environment = {"PATH": _PATH} | environment | {"LANG": "C.UTF-8"}
    config: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Entrypoint": [],
        "Cmd": ["bash"],
        "WorkingDir": "/",
        "Labels": labels,
    }
    if before.get("User") not in {None, "", "0", "root"}:
        config["User"] = "root"
    if before.get("Healthcheck"):
        config["Healthcheck"] = {"Test": ["NONE"]}
    return config


def _finished(build: _Build) -> BaseImage:
    found = build.find()
    if found is None:
        raise ImageError(f"the base image {build.reference} was built, but the engine does not have it: build it again")
    return found


def _local(client: docker.DockerClient, reference: str) -> Image | None:
    with engine_errors(f"looking for the image {reference}"):
        try:
            return client.images.get(reference)
        except ImageNotFound:
            return None


def _wanted(client: docker.DockerClient, reference: str, say: Callable[[str], None]) -> str:
    """Id of the image that the user named."""
    found = _local(client, reference)
    image = str(found.id) if found else _pulled(client, reference, say)
    volumes = client.images.get(image).attrs["Config"].get("Volumes")
    if volumes:
        raise ImageError(
            f"{reference} declares the volumes {', '.join(sorted(volumes))}: what an agent writes there is not frozen "
            "with its environment; choose an image without VOLUME, or import its exported file system as a new one"
        )
    return image


def _pulled(client: docker.DockerClient, reference: str, say: Callable[[str], None]) -> str:
    say(f"pulling {reference}")
    with engine_errors(f"pulling {reference} (check its name and the network)"), patience(client, PATIENCE_S):
        return str(client.images.pull(reference).id)


def _main() -> int:
    """Build the base image from the command line: `python -m pytest_researchenv.sandbox.images [REFERENCE]`."""
    from pytest_researchenv.sandbox.daemon import connect  # noqa: PLC0415 - only the command line needs a connection

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    owner = Owner.current("base-image")
    base = ensure_base_image(connect(), owner=owner, wanted=" ".join(sys.argv[1:]), say=say)
    say(f"base image {base.key}: {base.description}")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
