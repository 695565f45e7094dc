"""Events and answers hold no secret."""

from __future__ import annotations

import json

import pytest

from pytest_researchenv.gateway.inside.events import Reporter, Scrubber
from pytest_researchenv.gateway.inside.settings import Settings


SECRET = "sk-secret-1234"  # noqa: S105 - a stand-in


@pytest.mark.parametrize("size", range(1, 20))
def test_a_secret_is_taken_out_however_the_body_is_cut(size: int) -> None:
    """The length stays, so that Content-Length stays true; nothing else changes."""
    body = f"a{SECRET}{SECRET}b sk-secret-123 sk-sk-secret-1234 s".encode()
    scrubber = Scrubber((SECRET.encode(),))

    out = b"".join(scrubber.feed(body[at : at + size]) for at in range(0, len(body), size)) + scrubber.close()

    assert out == body.replace(SECRET.encode(), b"*" * len(SECRET))


def test_what_can_be_no_secret_is_not_kept_back() -> None:
    """Answers are streamed: a piece goes on at once unless it ends as a secret begins."""
    scrubber = Scrubber((SECRET.encode(),))

    assert scrubber.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert scrubber.feed(b"data: sk-") == b"data: "


def test_events_are_lines_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a service says goes out without the key, on one line."""
    reporter = Reporter((SECRET, ""))

    reporter.send("call", message=reporter.message(f"bad\nkey {SECRET}"), other=[SECRET])

    printed = capsys.readouterr().out
    assert SECRET not in printed
    assert json.loads(printed) == {"event": "call", "message": "bad key ***", "other": ["***"]}


def test_signs_of_life_come_once_a_second_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    """A fast stream must not flood the harness."""
    reporter = Reporter()

    for _ in range(100):
        reporter.activity()

    assert len(capsys.readouterr().out.splitlines()) == 1


def test_settings_show_no_secret() -> None:
    """Not even in a traceback."""
    model = {
        "api": "openai-chat",
        "endpoint": "https://user@api.example.org/v1/",
        "bearer": True,
        "key": SECRET,
        "token": f"token {SECRET}",
        "models": ["m"],
        "prices": {},
        "budget": {},
        "silence_s": 1,
        "via": ["http", "proxy", 3128],
    }
    document = {"model": model, "egress": None, "alias": "", "ports": [1, 2], "ca_bundle": "", "credential": SECRET}

    settings = Settings.read(json.dumps(document).encode())

    assert SECRET not in repr(settings)
    assert settings.model is not None
    assert settings.model.credential == (b"authorization", f"Bearer {SECRET}".encode())
    assert (settings.model.prefix, settings.model.authority) == ("/v1", "api.example.org")
    assert settings.model.origin == "https://api.example.org:443"
