"""What looking for our own answers costs a download: the same ones through the way out, with canaries and without.

Needs Docker. The host that serves them and the agent's container are on the same engine, so that nothing but the
gateway limits the speed, and the ratio is the worst there is. Noise stands for what cannot be unpacked, a wheel of
deflated text for what is unpacked while it passes. The two ways out take turns.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tarfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path


sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest, Reach
from pytest_researchenv.gateway.sidecar import HostNetwork, open_gateway
from pytest_researchenv.gateway.volume import ensure_proxy
from pytest_researchenv.integrity.canaries import OWN_NAMES, canaries_of
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Network


_HOST = """
import http.server, io, random, zipfile
dice = random.Random(1)
words = [bytes(dice.choices(b"abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 12))) for _ in range(5000)]
def text(size): return b" ".join(dice.choices(words, k=size // 7))[:size]
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for number in range(150): archive.writestr(f"{number}.py", text(200_000))
bodies = {"/noise-200-MB": dice.randbytes(2**20) * 200, "/text-60-MB": text(60 * 2**20), "/wheel": wheel.getvalue(),
          "/index-40-KB": text(40_000)}
class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = bodies[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
print({path: len(body) for path, body in bodies.items()}, flush=True)
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Host).serve_forever()
"""

_PATHS = ("/noise-200-MB", "/text-60-MB", "/wheel", "/index-40-KB")


def seconds(agent: Container, gateway: Gateway, url: str) -> float:
    """Time of a download."""
    argv = ("curl", "-sSf", "-o", "/dev/null", "-w", "%{time_total}", url)
    while True:
        done = agent.exec(argv, timeout_s=600, environment=dict(gateway.environment))
        if not done.ok:
            raise SystemExit(done.output.text())
        # A busy engine may lose it.
        if said := done.output.text():
            return float(said)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=7, help="downloads each (default: 7)")
    times = parser.parse_args().times
    client, owner = connect(), Owner.current("benchmark")
    sandbox = DockerSandbox(client, owner)
    image = ensure_base_image(client, owner=owner, say=print).image
    volume = ensure_proxy(client, owner=owner, image=image, say=print)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        entry = tarfile.TarInfo("host.py")
        entry.size = len(_HOST)
        writer.addfile(entry, io.BytesIO(_HOST.encode()))
    archive.seek(0)
    said = bytearray()
    spec = ContainerSpec(image, argv=("python3", "/host.py"), network=Network.OPEN)
    with sandbox.opened(spec) as host:
        host.put("/", archive)
        thread = threading.Thread(target=lambda: host.run(timeout_s=3600, on_output=said.extend), daemon=True)
        thread.start()
        while b"}" not in said:
            time.sleep(0.2)
        print(said.decode().strip())
        networks = client.containers.get(host.id).attrs["NetworkSettings"]["Networks"]
        address = f"{networks['bridge']['IPAddress']}:8080"
        with ExitStack() as stack:
            ways = []
            for canaries in ((), tuple(canaries_of())):
                asked = GatewayRequest(reach=Reach.ALLOWLIST, allow=(address,), deny=OWN_NAMES, canaries=canaries)
                private = HostNetwork(private_hosts=(address,))
                way = stack.enter_context(open_gateway(sandbox, image, volume, asked, host=private))
                agent = stack.enter_context(sandbox.opened(ContainerSpec(image, joins=(Join(way.network),))))
                agent.start()
                ways.append((agent, way))
            for path in _PATHS:
                turns = [[seconds(*way, f"http://{address}{path}") for way in ways] for _ in range(times)]
                without, looking = (statistics.median(column) for column in zip(*turns, strict=True))
                print(
                    f"{path}: {looking:.3f} s looked into, {without:.3f} s not: {looking / without:.2f} times as long"
                )
        host.stop()
        thread.join(30)


if __name__ == "__main__":
    main()
