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
        reporter.heard()

    assert [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()] == ["activity", "heard"]


def test_whatever_an_agent_sent_events_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that are no text and signs that nobody sees are escaped, and nothing is long."""
    reporter = Reporter((SECRET,))

    reporter.send("call", path=reporter.text(f"\udcff\x1b[2J{SECRET}" + "x" * 5000, 30), raw=["\udcff", {"\ud800": 1}])

    said = json.loads(capsys.readouterr().out)
    assert said["path"] == "\\udcff\\x1b[2J***" + "x" * 14
    assert said["raw"] == ["\\udcff", {"\\ud800": 1}]
    assert len(reporter.message("\x00" * 5000)) <= 300


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
    switches = {"published": False, "lifetime_s": None}

    settings = Settings.read(json.dumps({**document, **switches}).encode())

    assert SECRET not in repr(settings)
    assert settings.model is not None
    assert settings.model.credential == (b"authorization", f"Bearer {SECRET}".encode())
    assert (settings.model.prefix, settings.model.authority) == ("/v1", "api.example.org")
    assert settings.model.origin == "https://api.example.org:443"
