"""Outputs may be anything at all: nothing raises, hangs or leads outside, and what was not read is told."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.research.outputs import continual, explanation, replay, retrieval, tokenization
from pytest_researchenv.research.outputs.files import MAX_BYTES, UnreadableError, files_below, read_bytes, read_json
from pytest_researchenv.research.outputs.found import Found
from pytest_researchenv.research.outputs.settings import read_settings
from tests.unit.research.made import log, real_row, record, retrieval_run, write


Reader = Callable[[Path], Found]

READERS: dict[str, tuple[Reader, str]] = {
    "continual": (continual.read_logs, "ours/cifar224/0/10/a.log"),
    "retrieval": (retrieval.read_runs, "i2t/evaluate.txt"),
    "settings": (retrieval.read_runs, "i2t/config.yaml"),
    "replay": (replay.read_records, "a.json"),
    "explanation": (lambda root: explanation.read_tables(root, "ours"), "pam.csv"),
    "generation": (tokenization.read_predictions, "generation/gen_seed_33.json"),
    "summary": (tokenization.read_predictions, "generation/gen_summary.json"),
    "paragraphs": (tokenization.read_predictions, "cls/pc_summary.json"),
    "frame": (tokenization.read_predictions, "ner/sofc/cv_1/res_a.json"),
}
EVERY = pytest.mark.parametrize("reader", READERS)

#: What formats are made of, so that chance gets further than the first character.
PIECES = [
    *('{"', '": ', "[", "]", "}", ",", "\n", "null", "true", "NaN", "1e999", "-1", "0.5", "\\ud800", "\0", "\x85"),
    *("seed", "metrics", "average_return", "environment", "hopper", "columns", "index", "data", "txt_r1", "img_r1"),
    *("=> seed: 1992\n", "=> CNN: {'total': 1.0}\n", "=> CNN top1 curve: [", "=> CNN: ", "backbone: blip\n", "vit: "),
    *("42,0,Average,0.1,ours,1,1,1,1,", "fold,cpd,explainer,baseline,topk\n", '"', "'", "micro", "Test macro_f1"),
]


def read(reader: str, root: Path, data: bytes) -> Found:
    """Read a file of any content, beside what it needs."""
    read_all, name = READERS[reader]
    if name.startswith("i2t"):
        retrieval_run(root / "i2t", (80.0, 0.1))
    write(root / name, data)
    return read_all(root)


@EVERY
@given(
    data=st.binary(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=40).map(lambda one: "".join(one).encode())
)
def test_any_content_is_read_or_told(reader: str, data: bytes) -> None:
    """No exception, whatever is in the file; and every word of a problem can be printed."""
    with TemporaryDirectory() as root:
        for problem in read(reader, Path(root), data).unread:
            assert problem.what.isprintable()
            problem.what.encode()


@EVERY
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b"=> CNN: " + b"[" * 90_000 + b"\n",
        b"=> seed: 1\n=> CNN: " + b"(" * 90_000 + b"\n" + b"=> CNN: " + b"-" * 90_000,
        b"," * 3_000_000,
        b'"' * 3_000_000,
        b'{"seed": ' + b"9" * 1_000_000 + b"}",
        b"\n" * 1_000_000,
        b"a: b\n" * 200_000,
        b"np.float64(" * 200_000,
        b" => " * 500_000,
    ],
    ids=["lists", "objects", "literals", "brackets", "columns", "quotes", "digits", "lines", "keys", "numpy", "arrows"],
)
def test_large_and_deep_files_take_seconds(tmp_path: Path, reader: str, data: bytes) -> None:
    """Nested, a million columns, endless numbers: nothing is read from them, and nobody waits."""
    begin = time.monotonic()

    found = read(reader, tmp_path, data)

    assert time.monotonic() - begin < 30
    assert all(not any("seed 1 " in str(one.run) for one in every) for every in found.readings.values())
    assert len(str(found.unread)) < 200_000


@EVERY
def test_files_beyond_the_limit_are_told(tmp_path: Path, reader: str) -> None:
    """With their size, and not read in part: what is cut off could be what does not fit."""
    name = READERS[reader][1]
    if name.startswith("i2t"):
        retrieval_run(tmp_path / "i2t", (80.0, 0.1))
    path = write(tmp_path / name, b"")
    os.truncate(path, MAX_BYTES + 1)

    (problem,) = READERS[reader][0](tmp_path).unread

    assert f"has more than {MAX_BYTES} bytes" in problem.what


@EVERY
def test_links_are_not_followed(tmp_path: Path, reader: str) -> None:
    """Neither files nor folders: what lies elsewhere is nothing that was handed in."""
    name = READERS[reader][1]
    for text in (log(1992), json.dumps(record("hopper", "gym", 0, 1.0)), real_row(0, 0.1)):
        write(tmp_path / f"elsewhere/{Path(name).name}", text)
    root = tmp_path / "root"
    if name.startswith("i2t"):
        retrieval_run(root / "i2t", (80.0, 0.1))
    link = root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "elsewhere" / link.name)
    (root / "folder").symlink_to(tmp_path / "elsewhere")

    found = READERS[reader][0](root)

    assert not found.readings
    assert "is a link" in found.unread[0].what


@EVERY
def test_a_fifo_is_not_waited_for(tmp_path: Path, reader: str) -> None:
    """It has no end."""
    path = tmp_path / READERS[reader][1]
    if READERS[reader][1].startswith("i2t"):
        retrieval_run(tmp_path / "i2t", (80.0, 0.1))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    found = READERS[reader][0](tmp_path)

    assert not found.readings
    assert "is no regular file" in found.unread[0].what


@EVERY
def test_a_file_beside_the_results_spoils_nothing(tmp_path: Path, reader: str) -> None:
    """Broken files are told, and what is complete counts."""
    training = write(tmp_path / "ours/cifar224/0/10/b.log", log(1993))
    write(tmp_path / "b.json", json.dumps(record("hopper", "gym", 1, 1.0)))
    write(tmp_path / "b_pam.csv", real_row(3, 0.3))
    retrieval_run(tmp_path / "t2i", (0.1, 60.0))
    write(tmp_path / "cls/pc_summary.json", "{}")

    found = read(reader, tmp_path, b'\xff\xfe"\0{')

    assert training.is_file()
    if reader in {"continual", "retrieval", "replay", "explanation"}:
        assert found.readings
    assert found.unread


def test_a_folder_without_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many files, or too deep: an error, and not the first so many of them."""
    monkeypatch.setattr("pytest_researchenv.research.outputs.files.MAX_FILES", 5)
    for number in range(6):
        write(tmp_path / f"many/{number}.log", "")
    write(tmp_path / "deep" / "/".join("d" * 30) / "a.log", "")

    for name, said in (("many", "more than 5 files"), ("deep", "deeper than 24 levels")):
        with pytest.raises(UnreadableError, match=said):
            list(files_below(tmp_path / name, ".log"))
        (problem,) = continual.read_logs(tmp_path / name).unread
        assert said in problem.what


@EVERY
def test_all_files_together_have_a_limit(tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be within its own, and thousands of them are not: the first that is too much is told, and all after."""
    monkeypatch.setattr("pytest_researchenv.research.outputs.found.MAX_TOTAL", 0)

    found = read(reader, tmp_path, b"")

    assert not found.readings
    assert "all files together have more than 0 bytes" in found.unread[0].what


def test_what_is_not_told_is_counted(tmp_path: Path) -> None:
    """A table of a thousand broken rows."""
    write(tmp_path / "pam.csv", "1,2\n" * 1000)

    unread = explanation.read_tables(tmp_path, "ours").unread

    assert len(unread) == 201
    assert unread[-1].what == "800 more files or lines"


def test_names_that_are_no_text_are_told(tmp_path: Path) -> None:
    """A file's name may be any bytes, and stands in a report."""
    path = os.fsencode(tmp_path) + b"/a\xff\n.log"
    Path(os.fsdecode(path)).write_bytes(b"")

    (problem,) = continual.read_logs(tmp_path).unread

    assert problem.what == "a\\xff\\n.log: names no seed"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a": 1, "a": 2}', "has the key 'a' twice"),
        (b"\xff", "is not UTF-8: byte 0xff at offset 0"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is nested too deep"),
        (b"1" * 5000, "is not JSON"),
    ],
)
def test_json_that_is_none_is_told(data: bytes, said: str) -> None:
    """With the reason."""
    with pytest.raises(UnreadableError, match=said):
        read_json(data)


def test_a_device_is_no_file() -> None:
    """Zeros without end."""
    with pytest.raises(UnreadableError, match="is no regular file"):
        read_bytes(Path("/dev/zero"))


def test_settings_are_texts_of_the_top_level() -> None:
    """As `yaml.dump` writes them; lists, mappings, blocks, anchors and tags are no values."""
    text = """# settings
---
image_root: ./data set  # where
ann_root: ''
dataset: "coco"
quoted: 'it''s'
number: 384
empty:
device:
- 0
nested:
  dataset: flickr
flow: {dataset: flickr}
tag: !!python/object/apply:os.system ['true']
anchor: &a blip
block: |
  backbone: blip
"""

    assert read_settings(text) == {
        "image_root": "./data set",
        "ann_root": "",
        "dataset": "coco",
        "quoted": "it's",
        "number": "384",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dataset: coco\ndataset: flickr\n", "line 2 has the key dataset again"),
        ("{dataset: coco}\n", "line 1 is no `key: value`"),
        ("dataset coco\n", "line 1 is no"),
        ("a: " + "x" * 20_000, "line 1 is no"),
        ("".join(f"k{one}: 1\n" for one in range(1001)), "has more than 1000 keys"),
        ("%YAML 1.2\n", "line 1 is no"),
    ],
)
def test_settings_that_are_none_are_told(text: str, said: str) -> None:
    """A key that is there twice has either value to one reader or another."""
    with pytest.raises(UnreadableError, match=said):
        read_settings(text)
