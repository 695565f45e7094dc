"""No secret passes the redactor, in no usual encoding and however it is cut; everything else passes unchanged."""

from __future__ import annotations

import base64
import html
import json
import quopri
import random
import string
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from pytest_researchenv.redaction import SHORTEST, SHORTEST_ENCODED, Redactor, secrets_in
from pytest_researchenv.secrets import Secret


KEY = Secret("API_KEY", "sk-ant-api03-Zq8_" + "xY7-" * 12 + "end")
LABEL = b"[redacted API_KEY]"

_KEY_LETTERS = string.ascii_letters + string.digits + "-_"
_ALL_LETTERS = _KEY_LETTERS + " !\"#$%&'()*+,./:;<=>?@[\\]^`{|}~äß€😀"

_ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "as it is": str.encode,
    "percent, as usual": lambda text: quote(text, safe="").encode(),
    "percent, every byte": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()).encode(),
    "percent, lower case": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()).encode(),
    "JSON": lambda text: json.dumps(text)[1:-1].encode(),
    "JSON of Unicode": lambda text: json.dumps(text, ensure_ascii=False)[1:-1].encode(),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1].encode(),
    "JSON, every character": lambda text: b"".join(_utf16_escapes(letter) for letter in text),
    "shell, hexadecimal": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()).encode(),
    "shell, octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()).encode(),
    "HTML": lambda text: html.escape(text).encode(),
    "HTML, decimal": lambda text: "".join(f"&#{ord(letter)};" for letter in text).encode(),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text).encode(),
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).rstrip(b"\n"),
    "quoted-printable, every byte": lambda text: "".join(f"={byte:02X}" for byte in text.encode()).encode(),
    "hexadecimal": lambda text: text.encode().hex().encode(),
    "hexadecimal, upper case": lambda text: text.encode().hex().upper().encode(),
    "hexadecimal, apart": lambda text: text.encode().hex(" ").encode(),
    "hexadecimal, as C writes it": lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()).encode(),
    "hexadecimal, in lines": lambda text: _in_lines(text.encode().hex(), 60),
    "backwards": lambda text: text[::-1].encode(),
    "UTF-16, little end first": lambda text: text.encode("utf-16-le").rstrip(b"\0"),
    "UTF-16, big end first": lambda text: text.encode("utf-16-be").lstrip(b"\0"),
    "in lines": lambda text: _in_lines(text, 20),
    "in short lines, in JSON": lambda text: _in_lines(text, 5).replace(b"\n", b"\\r\\n"),
    "in lines, in JSON": lambda text: _in_lines(text, 20).replace(b"\n", b"\\n"),
}

#: Encodings of longer texts, in which the secret begins at any place.
_WHOLE: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "base64 for URLs": base64.urlsafe_b64encode,
    "base64 in lines": base64.encodebytes,
    "base64 in lines, in JSON": lambda data: base64.encodebytes(data).replace(b"\n", b"\\n"),
    "base64 in a URL": lambda data: quote(base64.b64encode(data), safe="").encode(),
    "base32": base64.b32encode,
    "base32, lower case": lambda data: base64.b32encode(data).lower(),
}


def _utf16_escapes(letter: str) -> bytes:
    raw = letter.encode("utf-16-be")
    return b"".join(b"\\u%04x" % int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2))


def _in_lines(text: str, width: int) -> bytes:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width)).encode()


def choices(seed: int) -> random.Random:
    """Return a source of random choices that are the same in every run."""
    return random.Random(seed)  # noqa: S311 - not for secrets that matter


def some_values(count: int) -> Iterator[str]:
    """Make values as keys are, and values of any letters, that look nothing like the text around."""
    choose = choices(1)
    for number in range(count):
        letters = _KEY_LETTERS if number % 2 else _ALL_LETTERS
        value = "".join(choose.choices(letters, k=choose.randint(SHORTEST_ENCODED, 60)))
        yield value.strip() or "password"


def streamed(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    """Send data through a stream, in pieces."""
    stream = redactor.stream()
    pieces = [stream.feed(data[start:end]) for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return b"".join([*pieces, stream.end()])


@pytest.mark.parametrize("encoding", _ENCODINGS)
def test_a_secret_is_taken_out_in_every_usual_encoding(encoding: str) -> None:
    """Nothing of it is left, and nothing around it is touched."""
    for value in some_values(30):
        data = b"<before> " + _ENCODINGS[encoding](value) + b" <after>"

        redacted = Redactor([Secret("API_KEY", value)]).bytes(data)

        redacted = redacted.replace(b"\0", b"").replace(b"0x[", b"[")
        assert redacted == b"<before> [redacted API_KEY] <after>", (value, data)


def test_a_secret_is_taken_out_though_every_character_is_written_in_another_way() -> None:
    """With lines broken anywhere, and in text that was encoded in part only."""
    choose = choices(4)
    ways: list[Callable[[str], str]] = [
        lambda letter: letter,
        lambda letter: letter,
        lambda letter: f"%{ord(letter):02x}",
        lambda letter: f"%25{ord(letter):02X}",
        lambda letter: f"\\x{ord(letter):02X}",
        lambda letter: f"\\\\u{ord(letter):04x}",
        lambda letter: f"\\{ord(letter):03o}",
        lambda letter: f"={ord(letter):02X}",
        lambda letter: f"&#{ord(letter)};",
        lambda letter: f"&amp;#x{ord(letter):x};",
    ]
    for _ in range(20):
        value = "".join(choose.choices(_KEY_LETTERS, k=choose.randint(SHORTEST_ENCODED, 40)))
        # Its patterns take long to compile, so that each secret has several texts.
        redactor = Redactor([KEY, Secret("API_KEY", value), Secret("OTHER", value[::-1] + "-")])
        for _ in range(5):
            some = choose.sample(ways, k=choose.randint(1, len(ways)))
            breaks = ["", "", choose.choice(["", "\n", "\\n", "=\r\n", "\\r\\n", "\0", "\\u000a"])]
            text = "".join(choose.choice(some)(letter) + choose.choice(breaks) for letter in value[:-1]) + value[-1]
            data = f"<{text}>".encode()

            assert redactor.bytes(data) == b"<[redacted API_KEY]>", (value, data)
            cut = choose.randrange(len(data))
            assert streamed(redactor, data, [cut]) == b"<[redacted API_KEY]>", (value, data, cut)


@pytest.mark.parametrize("encoding", _WHOLE)
def test_a_secret_inside_an_encoded_text_is_taken_out(encoding: str) -> None:
    """Wherever it begins in the text, at most a digit of base64 or base32 is left at each end."""
    for number, value in enumerate(some_values(30)):
        before = b"k" * (number % 7)

        redacted = Redactor([Secret("API_KEY", value)]).bytes(_WHOLE[encoding](before + value.encode() + b"."))

        assert redacted.count(b"[redacted API_KEY]") == 1, value
        left = redacted.replace(b"[redacted API_KEY]", b"").replace(b"\\n", b"").strip(b"=\n").replace(b"%3D", b"")
        assert len(left) <= len(base64.b32encode(before)) + 4, (value, left)


@pytest.mark.parametrize("encoding", [*_ENCODINGS, *_WHOLE])
def test_a_stream_gives_what_the_whole_document_gives_wherever_it_is_cut(encoding: str) -> None:
    """Where pieces end is chance, and must not matter."""
    choose = choices(2)
    redactor = Redactor([KEY, Secret("OTHER", "hunter2-hunter2")])
    encode = _ENCODINGS.get(encoding) or (lambda text: _WHOLE[encoding](text.encode()))
    data = b'{"text": "sk-ant-api \\n' + encode(KEY.value) + b'"}\nsk-ant-api03-Z hunter2-' + encode("hunter2-hunter2")
    whole = redactor.bytes(data)

    assert whole.count(b"[redacted") == 2
    for cut in range(0, len(data), 3):
        assert streamed(redactor, data, [cut]) == whole, cut
    for _ in range(10):
        cuts = sorted(choose.sample(range(len(data)), k=choose.randint(2, len(data) // 2)))
        assert streamed(redactor, data, cuts) == whole, cuts
    assert streamed(redactor, data, [*range(1, len(data))]) == whole


def test_text_without_secrets_passes_unchanged_and_whole() -> None:
    """Nothing is lost, doubled or changed, be it bytes of any kind or what looks like the beginning of a secret."""
    choose = choices(3)
    redactor = Redactor([KEY])
    for _ in range(200):
        parts = [
            KEY.value[: choose.randint(1, 30)].encode(),
            choose.randbytes(20),
            b"\\u0073\\n%73&#115;=73",
            b"line\n",
        ]
        data = b"".join(choose.choices(parts, k=choose.randint(1, 40)))
        cuts = sorted(choose.sample(range(len(data) + 1), k=min(len(data), 5)))

        assert streamed(redactor, data, cuts) == data
        assert redactor.bytes(data) == data


def test_a_line_comes_out_at_once() -> None:
    """Who watches a log sees what was printed: only what may be the beginning of a secret is held back."""
    stream = Redactor([KEY]).stream()

    assert stream.feed(b'{"type": "assistant"}\n') == b'{"type": "assistant"}\n'
    assert stream.feed(b"the key is sk-ant-") == b"the key is "
    assert stream.feed(b"no, it is not.\n") == b"sk-ant-no, it is not.\n"
    assert stream.end() == b""


def test_what_is_held_back_is_bounded() -> None:
    """A secret that never ends, or many that overlap, fill no memory."""
    stream = Redactor([Secret("K", "abababababab")]).stream()
    came = b"".join(stream.feed(b"ab") for _ in range(20_000))

    assert came.count(b"[redacted K]") > 1_000
    assert set(came.split(b"[redacted K]")) <= {b"", b"a", b"b"}
    assert len(Redactor([KEY]).stream().feed(KEY.value[:40].encode() + b"\n" * 100_000)) > 50_000


def test_a_secret_within_another_one_does_not_hide_it() -> None:
    """Where several overlap, all of them goes."""
    redactor = Redactor([Secret("SHORT", "abcdefgh"), Secret("LONG", "abcdefghijklmnop"), Secret("LATE", "nopqrstuvw")])

    assert redactor.bytes(b"<abcdefghijklmnop>") == b"<[redacted LONG]>"
    assert redactor.bytes(b"<abcdefghijk>") == b"<[redacted SHORT]ijk>"
    assert redactor.bytes(b"<abcdefghijklmnopqrstuvw>") == b"<[redacted LONG]>"
    assert redactor.bytes(b"<abcdefghnopqrstuvw>") == b"<[redacted SHORT][redacted LATE]>"


def test_json_stays_json() -> None:
    """A secret behind an escape of JSON is taken out so that the rest can be read."""
    for value in ("nop12345-67", "u0041-secret", '"quoted" key', "\\back\\slash", "ünïcode-key"):
        redactor = Redactor([Secret("K", value)])
        for text in (value, "\n" + value, '"' + value + '"', "\\" + value, "x" + value[1:]):
            for ascii_only in (True, False):
                line = json.dumps({"text": text, "more": [1, value]}, ensure_ascii=ascii_only).encode()

                found = json.loads(redactor.bytes(line))

                assert found["more"] == [1, "[redacted K]"], line
                assert value not in found["text"]


def test_a_backslash_before_a_secret_hides_and_spoils_nothing() -> None:
    """Before a letter that JSON escapes with, it goes with the secret, since alone it would be an error."""
    for value in ("nop12345-67", "rop12345-67", "u0041-secret"):
        redactor = Redactor([Secret("K", value)])

        assert redactor.bytes(b'"C:\\' + value.encode() + b'"') == b'"C:[redacted K]"'
    assert json.loads(Redactor([Secret("K", "nop12345-67")]).bytes(b'"\\nop12345-67"')) == "[redacted K]"


def test_short_values_are_taken_out_as_they_stand_only() -> None:
    """Of values that are too short to be told from other text, the tests for encodings would spoil every document."""
    assert Redactor([Secret("K", "a" * (SHORTEST - 1))]).bytes(b"aaaaaa") == b"aaaaaa"
    assert Redactor([Secret("K", "hunter2")]).bytes(b"hunter2 " + b"hunter2".hex().encode()) == (
        b"[redacted K] 68756e74657232"
    )
    assert Redactor([]).bytes(b"anything") == b"anything"
    assert streamed(Redactor([]), b"anything", [2]) == b"anything"


def test_a_name_cannot_break_a_document() -> None:
    """The name stands in JSON, XML and HTML."""
    assert Redactor([Secret('a"<b>\n', "password")]).bytes(b"password") == b"[redacted a__b__]"


def test_the_time_is_linear() -> None:
    """Ten times the text takes some ten times as long, also where every byte may begin a secret."""
    redactor = Redactor([KEY])

    def seconds(data: bytes) -> float:
        begin = time.process_time()
        redactor.bytes(data)
        return time.process_time() - begin

    for text in (b"sk-ant-api03-Z", b"\\u0073", b"73 6b 2d 61 6e ", b"c2stYW50LW"):
        assert seconds(text * 20_000) < 40 * max(seconds(text * 2_000), 0.01)


def test_names_and_passwords_in_urls_are_secrets() -> None:
    """Those of a package index or a proxy are found, as they stand and decoded; plain URLs hold none."""
    found = secrets_in(
        {
            "PIP_INDEX_URL": "https://reader:p%40ss-word@pypi.example.org/simple",
            "UV_INDEX": "https://pypi.org/simple https://glpat-0123456789abcdefghij@git.example.org/simple?x=@",
            "HTTPS_PROXY": "http://proxy.example.org:3128",
            "NOTE": "mail me@example.org",
        }
    )

    assert {(one.name, one.value) for one in found} == {
        ("PIP_INDEX_URL", "reader:p%40ss-word"),
        ("PIP_INDEX_URL", "reader:p@ss-word"),
        ("PIP_INDEX_URL", "p%40ss-word"),
        ("PIP_INDEX_URL", "p@ss-word"),
        ("UV_INDEX", "glpat-0123456789abcdefghij"),
    }
