"""One cause for what did not pass, whatever stands in the log."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.diagnosis import Category, Confidence, Diagnosis, diagnose, shipped_rules
from pytest_researchenv.diagnosis.excerpt import HEAD_BYTES, TAIL_BYTES, excerpt, last_chain, read_log
from pytest_researchenv.diagnosis.rules import read_rules
from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.probes.evidence import decisive_line
from tests.unit.diagnosis.messages import environment


def failed(log: str, cause: Cause = Cause.EXIT_CODE, *, reason: str = "the probe exited with code 1") -> TierResult:
    """A record of a run that printed this."""
    return TierResult(Tier.C1, Verdict.FAILED, cause, reason, decisive_line(log))


def found(log: str, cause: Cause = Cause.EXIT_CODE) -> Diagnosis:
    """What it is diagnosed as."""
    diagnosis = diagnose(failed(log, cause), log.encode(), environment())
    assert diagnosis
    return diagnosis


TRACEBACK = "Traceback (most recent call last):\n"
CHAIN = f"""\
{TRACEBACK}  File "/opt/venv/lib/python3.11/site-packages/numba/core.py", line 7, in <module>
    import lost
ImportError: libGL.so.1: cannot open shared object file: No such file or directory

The above exception was the direct cause of the following exception:

{TRACEBACK}  File "/workspace/repo/train.py", line 2, in <module>
    import thing
RuntimeError: the renderer cannot be loaded
"""


# --- which verdicts ---------------------------------------------------------------------------------------


def test_what_passed_has_no_cause() -> None:
    """Nor has what was skipped, unless upstream is to blame."""
    assert diagnose(TierResult(Tier.C1, Verdict.PASSED), b"CUDA out of memory", environment()) is None
    assert diagnose(TierResult(Tier.C3, Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE), b"", environment()) is None


def test_what_no_rule_knows_is_unknown() -> None:
    """It is told with the record's own words, and no guess."""
    diagnosis = found("something odd happened")

    assert (diagnosis.rule, diagnosis.category, diagnosis.confidence) == ("", Category.UNKNOWN, Confidence.NONE)
    assert diagnosis.line == "something odd happened"


def test_it_is_the_same_every_time() -> None:
    """Nothing but the record, the log and the environment decides."""
    assert found(CHAIN) == found(CHAIN)


def test_an_environment_need_not_be_known() -> None:
    """An attempt that ended in an error has none."""
    result = TierResult(Tier.C1, Verdict.ERROR, Cause.INFRASTRUCTURE, "the daemon is gone")

    diagnosis = diagnose(result, b"", None)

    assert diagnosis
    assert (diagnosis.category, diagnosis.line) == (Category.INFRASTRUCTURE, "the daemon is gone")


# --- which line -------------------------------------------------------------------------------------------


def test_the_cause_of_an_exception_counts() -> None:
    """The last exception says nothing; the one that led to it does."""
    diagnosis = found(CHAIN)

    assert diagnosis.rule == "shared-library"
    assert diagnosis.line.startswith("ImportError: libGL.so.1")


def test_of_two_exceptions_in_a_chain_the_last_is_told() -> None:
    """Where one rule knows both."""
    log = CHAIN.replace(
        "RuntimeError: the renderer cannot be loaded", "OSError: libEGL.so.1: cannot open shared object file"
    )

    assert found(log).line.startswith("OSError: libEGL.so.1")


def test_a_traceback_that_was_survived_does_not_count() -> None:
    """It was logged, and the run went on to fail otherwise."""
    log = f'{TRACEBACK}  File "a.py", line 1\nImportError: libGL.so.1: cannot open shared object file\n' + "step\n" * 60

    assert (
        found(f"{log}{TRACEBACK}  File \"b.py\", line 1, in f\n    g()\nKeyError: 'x'\n").category is Category.UNKNOWN
    )


def test_a_warning_is_no_cause() -> None:
    """Far from the end, words of an error may have been printed by what went on."""
    assert found("WARNING: nvcc: command not found\n" + "step\n" * 60 + "odd").category is Category.UNKNOWN


def test_a_warning_near_the_end_gives_way_to_the_last_word() -> None:
    """Without a traceback, the end of the log counts, but only when its last line says nothing."""
    warning = "UserWarning: /opt/venv/x.so: undefined symbol: _ZN3c10\n"

    assert found(f"{warning}train.py: error: unrecognized arguments: --epochs 3").rule == "arguments"
    assert found(f"{warning}exiting").rule == "extension-abi"


def test_a_last_resort_comes_after_the_end_of_the_log() -> None:
    """A signal says little; what was printed before it may say all."""
    result = failed("what():  CUDA error: device-side assert triggered\nframe #0", Cause.SIGNAL)
    result = replace(result, reason="the probe ended by signal 6")

    diagnosis = diagnose(result, b"what():  CUDA error: device-side assert triggered\nframe #0", environment())
    bare = diagnose(result, b"frame #0", environment())

    assert diagnosis
    assert diagnosis.rule == "device-assert"
    assert bare
    assert bare.rule == "crash"


def test_the_first_error_of_a_compiler_counts() -> None:
    """What follows it is its consequence."""
    log = "a.c:1:10: fatal error: Python.h: No such file or directory\n"
    log += "b.c:9:1: fatal error: sndfile.h: No such file or directory\n"

    assert found(log + "step\n" * 60 + "RuntimeError").line.startswith("a.c:1:10")


def test_a_longer_message_is_read_to_its_end() -> None:
    """The exception's own line may be empty."""
    log = (
        f'{TRACEBACK}  File "a.py", line 1, in f\n    g()\nImportError: \n'
        "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.0 as it may crash.\n"
    )

    assert found(log).rule == "numpy-abi"


def test_marks_of_ranks_and_colours_do_not_hide_anything() -> None:
    """Launchers and loggers decorate lines."""
    log = CHAIN.replace("ImportError", "\x1b[31mImportError")

    assert found("".join(f"[rank1]: {line}\n" for line in log.splitlines())).rule == "shared-library"


def test_the_record_says_what_is_certain_whatever_was_printed() -> None:
    """A run that was killed for its memory may have printed any error before."""
    log = f"{TRACEBACK}  File \"a.py\", line 1\nModuleNotFoundError: No module named 'torch'\n"

    assert found(log, Cause.OUT_OF_MEMORY).rule == "memory-limit"
    assert found(log, Cause.TIMEOUT).rule == "timeout"


def test_who_raised_it_matters() -> None:
    """The probe that finds nothing, the repository that lacks its data."""
    log = (
        TRACEBACK
        + "  File \"{}\", line 1, in f\n    g()\nFileNotFoundError: [Errno 2] No such file or directory: 'x.pth'\n"
    )

    assert found(log.format("/researchenv/probes/1a/script/probe.py")).category is Category.WRONG_OUTPUT
    assert found(log.format("/workspace/repo/load.py")).category is Category.NETWORK
    assert found(log.format("/opt/venv/lib/python3.11/site-packages/x/load.py")).category is Category.UNKNOWN
    assert found(log.format("/workspace/repo/.venv/lib/python3.11/site-packages/x.py")).category is Category.UNKNOWN


def test_frames_of_the_standard_library_are_passed_over() -> None:
    """It only did what it was asked for."""
    log = (
        f'{TRACEBACK}  File "/researchenv/probes/1a/script/probe.py", line 1, in f\n    path.read_text()\n'
        f'  File "/usr/lib/python3.11/pathlib.py", line 1058, in read_text\n    return io.open()\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'seen.json'\n"
    )

    assert found(log).category is Category.WRONG_OUTPUT


def test_conditions_add_up() -> None:
    """A rule fits when everything it names holds, and the first that fits wins."""
    rules = read_rules(
        """
        [[rules]]
        name = "elsewhere"
        category = "timeout"
        confidence = "likely"
        next = "x."
        tiers = ["C4"]
        says = ["odd"]

        [[rules]]
        name = "here"
        category = "network or asset"
        confidence = "likely"
        next = "x."
        tiers = ["C1"]
        ended = ["fin"]
        says = ["odd"]

        [[rules]]
        name = "late"
        category = "timeout"
        confidence = "likely"
        next = "x."
        """
    )

    diagnosis = diagnose(failed("odd"), b"odd", environment(), rules=rules)
    other = diagnose(failed("odd"), b"odd", environment(ended="gave up"), rules=rules)

    assert diagnosis
    assert diagnosis.rule == "here"
    assert other
    assert other.rule == "late"


# --- hostile logs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "log",
    [
        b"a" * 4_000_000,
        b"No module named '" * 250_000,
        b"lib.so: cannot open" * 200_000,
        b"Traceback (most recent call last):\n" * 100_000,
        f"{TRACEBACK}  x\nE\nDuring handling of the above exception, another exception occurred:\n".encode() * 40_000,
        b"\x1b[" * 2_000_000,
        b"\x1b[0;0;0" * 500_000,
        b"[rank0]: " * 400_000,
        b"\r" * 4_000_000,
        b"\n" * 4_000_000,
        b"\x00\xff\xfe\x80" * 1_000_000,
        b'File "' * 600_000,
        "\u202e\u2028\u0085é".encode() * 400_000,
    ],
    ids=range(13),
)
def test_a_hostile_log_takes_no_time(log: bytes) -> None:
    """Megabytes that are made to be slow, in one line or in as many as there can be."""
    result = TierResult(Tier.C1, Verdict.FAILED, Cause.EXIT_CODE, "x", "E")

    begin = time.process_time()
    diagnosis = diagnose(result, log, environment())

    assert time.process_time() - begin < 5
    assert diagnosis
    assert diagnosis.line.isprintable()


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_are_harmless(seed: int) -> None:
    """Pieces of real messages between them included; what is shown can be printed and encoded."""
    chance = random.Random(seed)  # noqa: S311 - a test
    pieces = [
        b"Traceback (most recent call last):\n",
        b'  File "',
        b"ImportError: lib",
        b"\x1b[31m",
        b"\xf0\x9f",
        b"\r\n",
    ]
    texts = [text.encode() for rule in shipped_rules() for text in rule.says]
    for _ in range(30):
        log = b"".join(
            chance.choice([chance.randbytes(9), *chance.sample(pieces, 3), chance.choice(texts)]) for _ in range(40)
        )
        text = log.decode("utf-8", "replace")
        cause = chance.choice([Cause.EXIT_CODE, Cause.SIGNAL, Cause.NO_REPORT, Cause.NO_EVIDENCE])

        diagnosis = diagnose(failed(text, cause), log, environment())

        assert diagnosis
        assert diagnosis.line.isprintable()
        assert len(diagnosis.line) <= 500
        diagnosis.line.encode()


def test_a_log_is_read_at_both_ends(tmp_path: Path) -> None:
    """Of a flood, what installers say first and what ended the run."""
    path = tmp_path / "C1-001.log"
    path.write_bytes(b"first\n" + b"x" * 3 * (HEAD_BYTES + TAIL_BYTES) + b"\nlast\n")

    log = read_log(path)

    assert len(log) <= HEAD_BYTES + TAIL_BYTES + 1
    assert (excerpt(log)[0], excerpt(log)[-2]) == ("first", "last")
    assert max(map(len, excerpt(log))) <= 2000


def test_a_short_log_is_read_once(tmp_path: Path) -> None:
    """Head and tail do not overlap."""
    path = tmp_path / "C1-001.log"
    for size in (0, 1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + TAIL_BYTES):
        path.write_bytes(b"x" * size)

        assert len(read_log(path)) == size


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """One that cannot be read is said to be so."""
    assert read_log(tmp_path / "none.log") == b""
    with pytest.raises(StoreError, match="cannot read"):
        read_log(tmp_path)


def test_a_chain_has_its_exceptions_in_order() -> None:
    """With the file that each was raised in."""
    chain = last_chain(excerpt(CHAIN.encode()), "RuntimeError: the renderer")

    assert [(raised.file, raised.linked) for raised in chain] == [
        ("/opt/venv/lib/python3.11/site-packages/numba/core.py", False),
        ("/workspace/repo/train.py", True),
    ]
    assert last_chain(excerpt(CHAIN.encode()), "KeyError") == []
