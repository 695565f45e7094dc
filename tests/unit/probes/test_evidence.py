"""Rules about evidence: what counts, what does not, and how it is said."""

from __future__ import annotations

import io
import tarfile

import pytest

from pytest_researchenv.model import Evidence, FileEvidence, JsonEvidence
from pytest_researchenv.probes import evidence as module
from pytest_researchenv.probes.evidence import OutputFile, Outputs, decisive_line, misses, read_outputs


OUT = "/researchenv/out"


def _outputs(**files: bytes) -> Outputs:
    named = {f"{OUT}/{name.replace('__', '/')}": content for name, content in files.items()}
    return Outputs({path: OutputFile(len(content), content) for path, content in named.items()})


def _json(field: str, **bounds: float | bool | str | None) -> Evidence:
    return Evidence(json=(JsonEvidence(f"{OUT}/m", field, **bounds),))  # type: ignore[arg-type] # one name per bound


def _archive(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    stream.seek(0)
    return stream


def _link(name: str, target: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, b""


class TestFiles:
    """A file that must exist."""

    def test_a_file_of_the_least_size_counts(self) -> None:
        """The least size is inclusive."""
        evidence = Evidence(files=(FileEvidence(f"{OUT}/model", min_bytes=3),))

        assert misses(evidence, _outputs(model=b"abc"), "") == []

    def test_a_missing_or_short_file_is_named(self) -> None:
        """The sentence holds the path, what was found and what was wanted."""
        evidence = Evidence(files=(FileEvidence(f"{OUT}/a"), FileEvidence(f"{OUT}/b", min_bytes=9)))

        assert [f"no file {OUT}/a", f"{OUT}/b has 2 bytes, fewer than 9"] == misses(evidence, _outputs(b=b"xx"), "")

    def test_an_empty_file_is_no_evidence(self) -> None:
        """By default one byte is needed."""
        assert misses(Evidence(files=(FileEvidence(f"{OUT}/a"),)), _outputs(a=b""), "")

    def test_wildcards_match_within_one_folder(self) -> None:
        """`*` stands for any part of one name, not for folders."""
        outputs = _outputs(run_1__model=b"x")

        assert misses(Evidence(files=(FileEvidence(f"{OUT}/run_*/model"),)), outputs, "") == []
        assert misses(Evidence(files=(FileEvidence(f"{OUT}/*"),)), outputs, "")
        assert misses(Evidence(files=(FileEvidence("/other/*/model"),)), outputs, "")

    def test_a_path_with_brackets_is_found_by_its_own_name(self) -> None:
        """A literal path needs no escaping."""
        path = f"{OUT}/a[1]"

        assert misses(Evidence(files=(FileEvidence(path),)), Outputs({path: OutputFile(1, b"x")}), "") == []


class TestJson:
    """A value that a JSON file must hold."""

    def test_numbers_are_found_along_keys_and_indices(self) -> None:
        """Keys are joined by dots; digits index lists."""
        outputs = _outputs(m=b'{"loss": [3.5, {"last": 1}]}')

        assert misses(_json("loss.0", min=3.5, max=3.5), outputs, "") == []
        assert misses(_json("loss.1.last", equals=1), outputs, "") == []

    @pytest.mark.parametrize(
        "document",
        [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"true", b"null", b'"1"', b"[1]", b"{}"],
    )
    def test_only_finite_numbers_count(self, document: bytes) -> None:
        """A loss that is not a number is no evidence of training, bounds or not."""
        assert misses(_json("v"), _outputs(m=b'{"v": %s}' % document), "")
        assert misses(_json("v", min=-1e308, max=1e308), _outputs(m=b'{"v": %s}' % document), "")

    def test_bounds_are_inclusive_and_named(self) -> None:
        """The sentence holds file, field, value and bound."""
        outputs = _outputs(m=b'{"v": 5}')

        assert misses(_json("v", min=5, max=5), outputs, "") == []
        assert [f"{OUT}/m: v is 5, less than 6"] == misses(_json("v", min=6), outputs, "")
        assert [f"{OUT}/m: v is 5, more than 4"] == misses(_json("v", max=4), outputs, "")

    @pytest.mark.parametrize(
        ("document", "equals", "same"),
        [
            (b"1.0", 1, True),
            (b"true", True, True),
            (b"true", 1, False),
            (b"1", True, False),
            (b'"1"', 1, False),
            (b'"ok"', "ok", True),
            (b"NaN", 0.0, False),
        ],
    )
    def test_equality_is_that_of_json(self, document: bytes, equals: float | str, same: bool) -> None:  # noqa: FBT001 - a table
        """Truth values are no numbers and text is neither; 1 and 1.0 are the same number."""
        missing = misses(_json("v", equals=equals), _outputs(m=b'{"v": %s}' % document), "")

        assert same is (not missing)

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"\xff\xfe", b"[" * 200_000, b'{"v": ' + b"9" * 5000 + b"}", b"[]", b'{"w": 1}', b"3"],
        ids=["empty", "cut", "not utf-8", "too deep", "too many digits", "list", "other key", "scalar"],
    )
    def test_no_content_raises(self, content: bytes) -> None:
        """The file comes from the environment under test: whatever it holds is a miss, never a crash."""
        assert len(misses(_json("v"), _outputs(m=content), "")) == 1

    def test_one_of_several_matching_files_suffices(self) -> None:
        """A wildcard asks for at least one file with the value."""
        evidence = Evidence(json=(JsonEvidence(f"{OUT}/*/m", "v", min=1),))

        assert misses(evidence, _outputs(a__m=b'{"v": 0}', b__m=b'{"v": 1}', c__m=b"?"), "") == []
        assert misses(evidence, _outputs(a__m=b'{"v": 0}', c__m=b"?"), "")

    def test_content_beyond_the_cap_is_no_evidence(self) -> None:
        """What was not read is said to be unread, not assumed to be right."""
        (sentence,) = misses(_json("v"), Outputs({f"{OUT}/m": OutputFile(10**9, None)}), "")

        assert "not read" in sentence


def test_output_patterns_match_anywhere_line_by_line() -> None:
    """`^` and `$` stand for ends of lines."""
    evidence = Evidence(output=("^done$", "loss=[0-9]"))

    assert misses(evidence, Outputs(), "epoch 1 loss=3\ndone\n") == []
    assert misses(evidence, Outputs(), "loss=3 done") == ["the output does not match '^done$'"]


def test_an_unreadable_output_folder_is_part_of_the_reason() -> None:
    """When evidence is missing, it is said that not everything was looked at."""
    found = misses(Evidence(files=(FileEvidence(f"{OUT}/a"),)), Outputs(problem="the folder is gone"), "")

    assert [f"no file {OUT}/a", "the folder is gone"] == found


class TestReading:
    """What is taken from a probe's output folder."""

    def test_files_are_named_by_their_path_in_the_container(self) -> None:
        """The archive's names start at the folder's own name."""
        archive = _archive((tarfile.TarInfo("out/a/b"), b"xy"))

        assert {f"{OUT}/a/b": OutputFile(2, b"xy")} == read_outputs(archive, OUT).files

    @pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
    def test_nothing_but_regular_files_counts(self, kind: bytes) -> None:
        """A link to a file that the agent prepared elsewhere is no evidence."""
        archive = _archive((tarfile.TarInfo("out/real"), b"x"), _link("out/model", "/etc/passwd", kind))

        assert [f"{OUT}/real"] == list(read_outputs(archive, OUT).files)

    def test_an_output_folder_that_became_a_link_holds_nothing(self) -> None:
        """The last component of the path is not followed."""
        assert read_outputs(_archive(_link("out", "/usr", tarfile.SYMTYPE)), OUT).files == {}

    def test_a_missing_folder_is_a_problem_in_words(self) -> None:
        """A probe may remove its output folder; that is no crash."""
        assert "gone" in read_outputs(None, OUT).problem

    def test_a_stream_that_ends_early_keeps_what_came(self) -> None:
        """Half an archive is a problem in words, and what came before counts."""
        whole = _archive((tarfile.TarInfo("out/a"), b"x"), (tarfile.TarInfo("out/b"), b"y" * 5000)).getvalue()
        outputs = read_outputs(io.BytesIO(whole[:3000]), OUT)

        assert f"{OUT}/a" in outputs.files
        assert "to its end" in outputs.problem

    def test_content_is_capped_and_sizes_are_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A large checkpoint still counts by its size."""
        monkeypatch.setattr(module, "MAX_BYTES", 10)
        archive = _archive((tarfile.TarInfo("out/big"), b"x" * 11), (tarfile.TarInfo("out/small"), b"y"))

        assert {f"{OUT}/big": OutputFile(11, None), f"{OUT}/small": OutputFile(1, b"y")} == read_outputs(
            archive, OUT
        ).files

    def test_the_number_of_files_is_capped(self) -> None:
        """A flood of files costs a bounded amount of work."""
        archive = _archive(*((tarfile.TarInfo(f"out/{number}"), b"") for number in range(module.MAX_FILES + 5)))
        outputs = read_outputs(archive, OUT)

        assert len(outputs.files) == module.MAX_FILES
        assert "only the first" in outputs.problem

    def test_what_is_read_through_is_capped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sparse file of a terabyte is not read through to its end."""
        monkeypatch.setattr(module, "MAX_STREAM", 10)
        archive = _archive((tarfile.TarInfo("out/a"), b"x"), (tarfile.TarInfo("out/huge"), b"x" * 10))

        assert "only the first 1" in read_outputs(archive, OUT).problem


class TestDecisiveLine:
    """Which line of the output is shown as the one that decided."""

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("", ""),
            ("...\n---\n", ""),
            ("building\nKilled\n\n", "Killed"),
            ("10%\r20%\rno space left\r\n", "no space left"),
            ("\x1b[31mERROR: bad\x1b[0m\n", "ERROR: bad"),
        ],
    )
    def test_without_a_traceback_it_is_the_last_line_with_words(self, text: str, line: str) -> None:
        """Rules, blank lines, colours and progress bars say nothing."""
        assert line == decisive_line(text)

    def test_it_is_the_exception_of_the_last_traceback(self) -> None:
        """Of chained exceptions the last one counts, and of its message the first line."""
        text = (
            "Traceback (most recent call last):\n"
            '  File "a.py", line 1, in <module>\n'
            "    import torch\n"
            "ModuleNotFoundError: No module named 'torch'\n"
            "\nDuring handling of the above exception, another exception occurred:\n\n"
            "Traceback (most recent call last):\n"
            '  File "a.py", line 3, in <module>\n'
            "    f()\n"
            "    ^^^\n"
            "RuntimeError: no framework\n"
            "see the manual\n"
        )

        assert decisive_line(text) == "RuntimeError: no framework"

    def test_a_rank_before_each_line_is_no_obstacle(self) -> None:
        """Torchrun puts the rank before each line of a child."""
        text = (
            "[rank0]: Traceback (most recent call last):\n"
            '[rank0]:   File "a.py", line 1, in <module>\n'
            "[rank0]: ValueError: bad\n"
        )

        assert decisive_line(text) == "ValueError: bad"

    def test_a_launchers_traceback_is_not_what_its_child_died_of(self) -> None:
        """Torchrun reports in a traceback of its own that a child failed; without the child's, it is all there is."""
        child = "Traceback (most recent call last):\n  x\nImportError: _C.so: undefined symbol: f\n"
        launcher = (
            "E1129 12:00:00.000000 1 api.py:984] failed (exitcode: 1) local_rank: 0 (pid: 12)\n"
            "Traceback (most recent call last):\n" + '  File "run.py"\n' * 30 + "torch.distributed.elastic."
            "multiprocessing.errors.ChildFailedError: \n" + "====\ntrain.py FAILED\n" * 10
        )

        assert decisive_line(child + launcher) == "ImportError: _C.so: undefined symbol: f"
        assert decisive_line(launcher) == "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
        assert decisive_line(child + "step\n" * 100 + launcher).endswith("ChildFailedError:")

    def test_a_traceback_long_before_the_end_did_not_decide(self) -> None:
        """A program that logged an exception and went on failed for another reason."""
        text = "Traceback (most recent call last):\n  x\nOSError: no hub\n" + "step\n" * 100 + "Killed\n"

        assert decisive_line(text) == "Killed"

    def test_it_is_cut(self) -> None:
        """It goes into one line of a report."""
        assert len(decisive_line("x" * 10_000)) == 500


def test_a_name_that_is_no_text_can_be_recorded() -> None:
    """Any bytes may be a file's name; a result that holds it must still become JSON."""
    name = b"out/\xff\xfe.json".decode(errors="surrogateescape")
    outputs = read_outputs(_archive((tarfile.TarInfo(name), b"{}")), "/probes/out")

    (path,) = outputs.files
    assert path.encode() == "/probes/out/��.json".encode()
    assert [found for found, _ in outputs.matching("/probes/out/*.json")] == [path]


def test_a_pattern_may_match_one_stream_alone() -> None:
    """Lines of stdout and stderr can be torn by each other; a working environment must not fail for that."""
    evidence = Evidence(output=("^Starting training$",))

    assert misses(evidence, _outputs(), "Startingnoise training\n", "Starting training\n", "noise") == []
    assert misses(evidence, _outputs(), "Startingnoise training\n")


def test_a_long_line_costs_little() -> None:
    """Whatever it is made of: a pattern that tries each part of it would take hours."""
    line = "A." * 250_000

    assert decisive_line(f"Traceback (most recent call last):\n  {line}\n!! torn") == "!! torn"


def test_tracebacks_that_ranks_tore_still_name_the_exception() -> None:
    """Two processes that fail at once print into each other's lines; a person must still see why."""
    torn = (
        "Traceback (most recent call last):\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\nFile "a.py", line 1, in <module>\n    main()\n'
        "RuntimeError: no device ib7RuntimeError: no device ib7\n"
    )
    launcher = (
        "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )

    assert decisive_line(torn).startswith("RuntimeError: no device ib7")
    assert decisive_line(torn.replace("\nTraceback", "Traceback") + launcher).startswith("RuntimeError: no device ib7")
