"""What a person, or a CI log, sees while a fixture runs for minutes: real pytest runs, with and without a terminal.

Only what judges is replaced (`FakeHarness`): it says its phases through the plugin's own teller, and sleeps.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_researchenv.progress import Phase, Teller
from tests.choosing import mostly_slow


SUITES = Path(__file__).parents[2] / "suites"
ROWS, COLUMNS = 24, 100
DEADLINE_S = 60

FAKE_HARNESS = '''
from __future__ import annotations
import os
import time
import pytest
from pytest_researchenv.harness import Judged
from pytest_researchenv.live import teller_of
from pytest_researchenv.model import Tier, TierResult, Verdict

class FakeHarness:
    """Takes its time, and says so."""

    def __init__(self, config):
        self.say = teller_of(config)

    def judge(self, agent, repository, tier, *, retry=False, trial=1):
        with self.say.at(agent, repository.slug):
            if tier is Tier.C0:
                self.say("agent at work")
                time.sleep(0.25)
                if repository.slug == "crash":
                    os._exit(1)
            self.say(f"probing {tier}")
            time.sleep(0.15)
        return Judged(TierResult(tier, Verdict.PASSED))

@pytest.fixture(scope="session")
def researchenv_harness(pytestconfig):
    return FakeHarness(pytestconfig)
'''

TALKATIVE = """
def pytest_sessionstart(session):
    global reporter
    reporter = session.config.pluginmanager.getplugin("terminalreporter")

def pytest_runtest_logreport(report):
    if report.when == "call" and hasattr(report, "node"):
        reporter.write("\\none\\ntwo\\n")
"""

REPO = """
[source]
path = "."
[tiers.C0]
[tiers.C1]
argv = ["{python}", "run.py"]
[tiers.C1.evidence]
output = ["done"]
"""

TESTS = """
from pytest_researchenv import check

def test_c0_static_imports(c0):
    print("printed by the test")
    check(c0)

def test_c1_cpu_execution(c1):
    check(c1)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of one repository, judged slowly; lines come every 0.1 s instead of every minute."""
    monkeypatch.setenv("RESEARCHENV_PROGRESS_INTERVAL", "0.1")
    folder = pytester.mkdir("mine")
    (folder / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
    (folder / "test_pyramid.py").write_text(TESTS)
    pytester.makeconftest(FAKE_HARNESS)
    _add(pytester, "slow")
    return pytester


def _add(suite: pytest.Pytester, name: str) -> None:
    folder = suite.path / "mine" / name
    folder.mkdir()
    (folder / "repo.toml").write_text(f'name = "owner/{name}"\n{REPO}')
    (folder / "oracle.sh").write_text("")


def _command(*arguments: str) -> list[str]:
    fixed = ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", "mine", "--researchenv-agent=oracle"]
    return [sys.executable, "-m", "pytest", *fixed, *arguments]


def _logged(suite: pytest.Pytester, *arguments: str) -> list[str]:
    """Run with output to a pipe, as CI does; return its lines."""
    done = subprocess.run(
        _command(*arguments), cwd=suite.path, check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert not done.stderr
    return done.stdout.splitlines()


def _ours(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("researchenv: oracle at")]


class Screen:
    """A terminal of fixed size, which knows the few control sequences that are used."""

    def __init__(self) -> None:
        self.rows = [[" "] * COLUMNS for _ in range(ROWS)]
        self.scrolled: list[str] = []
        self.row = self.column = 0
        self.saved = (0, 0)
        self.seen: set[str] = set()

    @property
    def text(self) -> list[str]:
        """Everything there is, including what has scrolled out."""
        return self.scrolled + ["".join(row).rstrip() for row in self.rows]

    def feed(self, data: str) -> None:
        """Obey a piece of output, and remember every line that was ever seen in whole."""
        for piece in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\x1b.|[^\x1b]", data, flags=re.DOTALL):
            self._obey(piece)
        self.seen |= set(self.text)

    def _obey(self, piece: str) -> None:
        if piece == "\r":
            self.column = 0
        elif piece in ("\n", "\x1bD"):
            self._down()
        elif piece == "\x1b7":
            self.saved = (self.row, self.column)
        elif piece == "\x1b8":
            self.row, self.column = self.saved
        elif piece == "\x1b[J":
            self.rows[self.row][self.column :] = [" "] * (COLUMNS - self.column)
            self.rows[self.row + 1 :] = [[" "] * COLUMNS for _ in range(ROWS - self.row - 1)]
        elif found := re.fullmatch(r"\x1b\[(\d+)A", piece):
            self.row = max(0, self.row - int(found[1]))
        elif not piece.startswith("\x1b"):
            self.rows[self.row][self.column] = piece
            self.column = min(self.column + 1, COLUMNS - 1)
        else:
            assert re.fullmatch(r"\x1b\[[\d;]*m", piece), f"unknown control sequence {piece!r}"

    def _down(self) -> None:
        if self.row == ROWS - 1:
            self.scrolled.append("".join(self.rows.pop(0)).rstrip())
            self.rows.append([" "] * COLUMNS)
        else:
            self.row += 1


def _watched(suite: pytest.Pytester, *arguments: str) -> Screen:
    """Run on a terminal of its own; return what it showed."""
    return _shown(_written(suite, *arguments))


def _shown(pieces: Iterable[str], lines_before: int = 0) -> Screen:
    """What a terminal shows of what was written to it piece by piece, which begins so many lines down."""
    screen = Screen()
    screen.feed("\r\n" * lines_before)
    for piece in pieces:
        screen.feed(piece)
    return screen


def _written(suite: pytest.Pytester, *arguments: str) -> list[str]:
    """Run on a terminal of its own; return what was written to it, piece by piece."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    pieces = []
    environment = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    with subprocess.Popen(
        _command(*arguments), cwd=suite.path, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ):
        os.close(terminal)
        decode = codecs.getincrementaldecoder("utf-8")().decode
        while data := _read(controller):
            pieces.append(decode(data))
    os.close(controller)
    return pieces


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        # What Linux answers when nobody holds the other end any more.
        if error.errno != errno.EIO:
            raise
        return b""


def test_a_log_has_a_line_when_a_phase_begins_and_one_per_interval(suite: pytest.Pytester) -> None:
    """Where nothing can be updated, each phase is told once and then again as time passes, in whole lines."""
    ours = _ours(_logged(suite))

    assert [line for line in ours if "agent at work" in line][:2] == ["researchenv: oracle at slow: agent at work"] * 2
    assert len(ours) == len([line for line in ours if re.fullmatch(r"researchenv: oracle at slow: [\w ]+", line)])
    assert "researchenv: oracle at slow: probing C1" in ours


def test_elapsed_time_is_told(suite: pytest.Pytester) -> None:
    """From the first second on, a line says how long the phase has lasted."""
    conftest = suite.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("time.sleep(0.25)", "time.sleep(1.3)"))

    assert "researchenv: oracle at slow: agent at work (0:01)" in _logged(suite)


def test_short_phases_are_not_told(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase that ends within half a second is not worth a line: a run that reuses everything is not told at all."""
    monkeypatch.setenv("RESEARCHENV_PROGRESS_INTERVAL", "60")

    assert _ours(_logged(suite, "-k", "C1")) == []


@pytest.mark.parametrize(
    "arguments",
    mostly_slow((["-q"], ["-s"], ["-v"], ["-n", "2"], ["--color=yes"]), but=(["-q"], ["-n", "2"])),
    ids=" ".join,
)
def test_a_log_stays_readable_whatever_the_options(suite: pytest.Pytester, arguments: list[str]) -> None:
    """Progress is there with each of them, no line is broken by it, and outcomes and summary stand as ever."""
    lines = _logged(suite, *arguments)
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(lines))

    assert "researchenv: oracle at slow: agent at work" in lines
    assert "researchenv: oracle at slow: probing C1" in lines
    assert all(line.startswith("researchenv:") for line in lines if "agent at work" in line or "probing" in line)
    assert re.search(r"2 passed in ", text)
    assert re.search(r"passed of judged +1 of 1 +1 of 1", text)


def test_a_verbose_log_tells_a_tests_name_beside_its_outcome(suite: pytest.Pytester) -> None:
    """After lines of ours, pytest writes the test's name again, so that the outcome does not stand alone."""
    assert [line for line in _logged(suite, "-v") if re.match(r"mine/\S+::test_c1_\S+ PASSED", line)]


def test_twice_quiet_is_silent(suite: pytest.Pytester) -> None:
    """`-qq` asks for nothing but outcomes."""
    assert _ours(_logged(suite, "-qq")) == []


def test_workers_tell_the_controller_who_does_what(suite: pytest.Pytester) -> None:
    """With `-n 2` phases of both workers are shown, each as its own."""
    _add(suite, "other")

    ours = _ours(_logged(suite, "-n", "2"))

    assert {"researchenv: oracle at slow: agent at work", "researchenv: oracle at other: agent at work"} <= set(ours)


def test_a_crashed_workers_phase_ends_with_it(suite: pytest.Pytester) -> None:
    """What a dead worker did last is not shown for ever; its successor is heard."""
    _add(suite, "crash")
    _add(suite, "zz")

    # Not the default of our plugin: pytest-xdist 3.8 waits for ever when a worker dies under loadgroup.
    lines = _logged(suite, "-n", "1", "--dist", "load")
    crashed = next(number for number, line in enumerate(lines) if "node down" in line)

    assert "researchenv: oracle at crash: agent at work" in lines[:crashed]
    assert "researchenv: oracle at crash: agent at work" not in lines[crashed:]
    assert "researchenv: oracle at zz: agent at work" in lines[crashed:]


@pytest.mark.parametrize(
    "arguments",
    mostly_slow(([], ["-q"], ["-v"], ["-n", "2"], ["-v", "-n", "2"]), but=(["-v", "-n", "2"],)),
    ids=" ".join,
)
def test_on_a_terminal_progress_leaves_no_trace(suite: pytest.Pytester, arguments: list[str]) -> None:
    """Lines stand below pytest's own while work goes on; what stays is what pytest prints without them.

    So it is at the top of a terminal, and at its end, where everything scrolls.
    """
    _add(suite, "other")

    written = _written(suite, *arguments)
    without = _written(suite, *arguments, "-p", "no:researchenv-progress")

    for lines_before in (0, ROWS):
        screen = _shown(written, lines_before)
        assert any("researchenv: oracle at slow: agent at work" in line for line in screen.seen)
        assert any("researchenv: oracle at other: probing C1" in line for line in screen.seen)
        assert _stable(screen) == _stable(_shown(without, lines_before))


def _stable(screen: Screen) -> list[str]:
    """What is the same in every run: not times, and not which worker was first."""
    text = [re.sub(r"\d+\.\d+s", "N s", line) for line in screen.text]
    return sorted(re.sub(r"gw\d| *\d+%|=+", "", line) for line in text)


def test_on_a_terminal_several_lines_at_once_are_not_mixed_with_ours(suite: pytest.Pytester) -> None:
    """What pytest or another plugin writes while work goes on stands alone in its lines."""
    for name in ("b", "c", "d"):
        _add(suite, name)
    conftest = suite.path / "conftest.py"
    # Not in step: one worker's line is there when another's test ends.
    uneven = conftest.read_text().replace("time.sleep(0.25)", "time.sleep(1 if repository.slug == 'slow' else 0.2)")
    conftest.write_text(uneven + TALKATIVE)

    screen = _watched(suite, "-n", "2", "-q")

    assert [line for line in screen.text if line.startswith(("one", "two"))] == ["one", "two"] * 8


def test_on_a_terminal_a_line_is_cut_to_its_width(suite: pytest.Pytester) -> None:
    """A line that wrapped could not be erased."""
    name = "n" * 60
    _add(suite, name)
    conftest = suite.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("agent at work", "w" * 200))

    screen = _watched(suite)

    assert max(len(line) for line in screen.seen if line.startswith("researchenv: oracle at n")) == COLUMNS - 1


def test_uncaptured_output_is_not_disturbed(suite: pytest.Pytester) -> None:
    """With `-s` on a terminal, lines are written once, and what tests print stays."""
    screen = _watched(suite, "-s")

    assert "researchenv: oracle at slow: agent at work" in screen.text
    assert any("printed by the test" in line for line in screen.text)


def test_an_interrupted_run_leaves_no_line_behind(suite: pytest.Pytester) -> None:
    """Ctrl-C during a phase ends it on the screen, too."""
    conftest = suite.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("time.sleep(0.15)", "time.sleep(0.15); raise KeyboardInterrupt"))

    screen = _watched(suite)

    assert any("researchenv: oracle at slow: probing C0" in line for line in screen.seen)
    assert not [line for line in screen.text if "oracle at slow" in line]


def test_a_wrong_interval_is_a_usage_error(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the option and the value."""
    monkeypatch.setenv("RESEARCHENV_PROGRESS_INTERVAL", "0")

    done = subprocess.run(_command(), cwd=suite.path, check=False, capture_output=True, text=True, timeout=DEADLINE_S)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--researchenv-progress-interval (or its ini or environment twin) is '0'" in done.stderr


def test_a_session_without_agents_starts_nothing(pytester: pytest.Pytester) -> None:
    """No thread, no plugin, no guarded writer where no suite is run."""
    pytester.makepyfile(
        """
        import threading

        def test_nothing(pytestconfig):
            assert not pytestconfig.pluginmanager.hasplugin("researchenv-progress")
            assert threading.active_count() == 1
            assert "write_raw" not in vars(pytestconfig.get_terminal_writer())
        """
    )

    pytester.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=1)


def test_work_within_work_goes_back_to_what_was_done_before() -> None:
    """A tier that needs another's result says so, and then goes on with its own phase."""
    told: list[Phase | None] = []
    say = Teller(told.append)

    with say.at("a", "r"):
        say("probing C5")
        with say.at("a", "r"):
            say("probing C0")
    say("nobody's")

    assert told == [Phase("a", "r", "probing C5"), Phase("a", "r", "probing C0"), Phase("a", "r", "probing C5"), None]
