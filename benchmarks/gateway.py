"""What the model gateway costs a request: the same requests with and without it, one after another.

Needs Docker. A stand-in that answers at once, the gateway and the client are containers of the same engine, so that the
ratio is the worst there is: a real model takes seconds. (Some 40 ms of both are the stand-in's small packets, which
wait for one another.)
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path


sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_researchenv.gateway.protocol import Api, Auth, GatewayRequest, ModelService
from pytest_researchenv.gateway.sidecar import open_gateway
from pytest_researchenv.gateway.volume import ensure_proxy
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Network
from tests.contract.standin import in_container


_MODEL = "claude-sonnet-4-5"

_CLIENT = """
import http.client, json, sys, time
from urllib.parse import urlsplit

url, token, times, kilobytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
target = urlsplit(url)
text = "x" * kilobytes * 1024
body = json.dumps({"model": "MODEL", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": text}]})
connection = http.client.HTTPConnection(target.hostname, target.port)
took = []
for _ in range(times):
    begin = time.monotonic()
    connection.request("POST", target.path + "/v1/messages", body, {"x-api-key": token})
    connection.getresponse().read()
    took.append(time.monotonic() - begin)
print(json.dumps(took))
""".replace("MODEL", _MODEL)


def milliseconds(client: Container, url: str, token: str, *, times: int, kilobytes: int) -> float:
    """Median time of a request."""
    argv = ("python3", "-c", _CLIENT, url, token, str(times), str(kilobytes))
    done = client.exec(argv, timeout_s=600)
    if not done.ok:
        raise SystemExit(done.output.text())
    return 1000 * statistics.median(json.loads(done.output.text()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="requests each (default: 100)")
    times = parser.parse_args().times
    client, owner = connect(), Owner.current("benchmark")
    sandbox = DockerSandbox(client, owner)
    image = ensure_base_image(client, owner=owner, say=print).image
    volume = ensure_proxy(client, owner=owner, image=image, say=print)
    with in_container(client, image, {"turn": [{"text": "done"}]}) as standin:
        service = ModelService(Api.MESSAGES, standin.bridge_url, Auth.API_KEY, "KEY", _MODEL)
        with open_gateway(sandbox, image, volume, GatewayRequest(service=service)) as gateway:
            spec = ContainerSpec(image, network=Network.OPEN, joins=(Join(gateway.network),))
            with sandbox.opened(spec) as asking:
                asking.start()
                if gateway.address is None:
                    raise SystemExit("the gateway has no address for a model")
                for kilobytes in (1, 400):
                    size = {"times": times, "kilobytes": kilobytes}
                    without = milliseconds(asking, standin.bridge_url, "none", **size)
                    through = milliseconds(asking, gateway.address.url, gateway.address.token, **size)
                    print(
                        f"{kilobytes} KB: {through:.1f} ms through the gateway, {without:.1f} ms without: "
                        f"{through / without:.2f} times as long, {through - without:.1f} ms more"
                    )


if __name__ == "__main__":
    main()
