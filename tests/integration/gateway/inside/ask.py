"""Sends requests at once, and prints what came back. Its argument is a JSON list; the output is one, too."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit


def ask(one: dict[str, Any]) -> dict[str, Any]:
    """Send one request."""
    target = urlsplit(one["url"])
    begin = time.monotonic()
    found: dict[str, Any] = {"status": 0, "body": "", "first_s": 0.0, "last_s": 0.0, "error": "", "headers": {}}
    connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=one.get("leave_s", 50))
    body = json.dumps(one["body"]) if "body" in one else None
    headers = {"x-api-key": one["token"], **one.get("headers", {})}
    try:
        connection.request(one.get("method", "POST"), one.get("target") or target.path + one["path"], body, headers)
        answer = connection.getresponse()
        found["status"] = answer.status
        found["headers"] = {name.lower(): value for name, value in answer.getheaders()}
        while chunk := answer.read1(65536):
            found["first_s"] = found["first_s"] or time.monotonic() - begin
            found["body"] += chunk.decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        found["error"] = repr(error)
    finally:
        connection.close()
    found["last_s"] = time.monotonic() - begin
    return found


def main() -> None:
    """Send them all."""
    requests = json.loads(sys.argv[1])
    answers: list[dict[str, Any]] = [{}] * len(requests)

    def work(number: int) -> None:
        answers[number] = ask(requests[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(answers))


main()
