"""A report's folder."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest

from benchmarks.synthetic import AGENTS, make_run
from pytest_researchenv import cli
from pytest_researchenv.model import Tier, Verdict
from pytest_researchenv.runs.reading import read_runs
from pytest_researchenv.suite import find_suite, load_suite
from tests.unit.html.made import quickstart
from tests.unit.html.reading import read


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with one run."""
    quickstart(tmp_path / "results", attempts=1)
    return tmp_path / "results"


def report(results: Path, output: Path, *names: str) -> int:
    """Run the command."""
    return cli.main(["report", *names, "--results", str(results), "--output", str(output)])


def test_every_link_leads_to_a_page(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the run to its environments, and back."""
    assert report(results, tmp_path / "report") == 0

    index = tmp_path / "report" / "index.html"
    links = {value for tag, name, value in read(index.read_text()).attributes if (tag, name) == ("a", "href")}
    pages = {link.partition("#")[0] for link in links} - {""}
    assert len(pages) == len(list(results.glob("default/*/*/*/attempt-*")))
    for page in pages:
        back = {value for _, name, value in read((index.parent / page).read_text()).attributes if name == "href"}
        homes = [link for link in back if link.endswith("index.html")]
        assert [(index.parent / page).parent.joinpath(home).resolve() for home in homes] == [index.resolve()]
    assert str(index) in capsys.readouterr().out


def test_a_link_leads_to_its_tier(results: Path, tmp_path: Path) -> None:
    """A cell of C3 opens C3."""
    report(results, tmp_path / "report")

    index = tmp_path / "report" / "index.html"
    links = {value for tag, name, value in read(index.read_text()).attributes if (tag, name) == ("a", "href")}
    for page, _, anchor in (link.partition("#") for link in links if link.startswith("environments/")):
        ids = {value for _, name, value in read((index.parent / page).read_text()).attributes if name == "id"}
        assert anchor in ids or "This attempt left no environment" in (index.parent / page).read_text()


def test_odd_names_are_found(tmp_path: Path) -> None:
    """What means something in an address means nothing in a name."""
    agent = replace(AGENTS[0], name="a#b?c%2F é&'\"<i>")
    make_run(tmp_path / "results", "default", load_suite(find_suite("quickstart")).repositories[:1], agents=[agent])

    report(tmp_path / "results", tmp_path / "report")

    page = read((tmp_path / "report" / "index.html").read_text())
    links = [value for tag, name, value in page.attributes if (tag, name) == ("a", "href") and "environments" in value]
    assert links
    assert all((tmp_path / "report" / unquote(link.partition("#")[0])).is_file() for link in links)


def test_figures_are_files_too(results: Path, tmp_path: Path) -> None:
    """SVG always; PNG where what draws it is installed."""
    report(results, tmp_path / "report")

    found = {path.name for path in (tmp_path / "report" / "plots").iterdir()}
    names = {"rates", "falls", "causes", "claims", "spreads"}
    drawn = importlib.util.find_spec("resvg_py") is not None
    assert found == {f"{name}.svg" for name in names} | ({f"{name}.png" for name in names} if drawn else set())


def test_each_agent_has_a_badge(results: Path, tmp_path: Path) -> None:
    """What passed of what was judged, in each tier; whatever the agent is called."""
    agent = replace(AGENTS[0], name="x<i>&y")
    make_run(results, "odd", load_suite(find_suite("quickstart")).repositories, agents=[agent])
    run = read_runs(results, ["odd"])[0]
    passed = sum(attempt.verdict(Tier.C1) is Verdict.PASSED for attempt in run.attempts if attempt.key.attempt == 1)

    report(results, tmp_path / "report", "odd")

    (path,) = (tmp_path / "report" / "badges").iterdir()
    texts = list(ET.parse(path).getroot().itertext())  # noqa: S314 - our own file
    assert {"x<i>&y", f"C1 {passed}/4"} <= set(texts)
    assert path.name == "x<i>&y.svg"


def test_programs_are_told_what_was_written(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page of the run and its figures, as JSON."""
    cli.main(["report", "--results", str(results), "--output", str(tmp_path / "report"), "--json"])

    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(tmp_path / "report" / "index.html")
    assert str(tmp_path / "report" / "plots" / "rates.svg") in told["figures"]


def test_a_report_is_replaced_whole(results: Path, tmp_path: Path) -> None:
    """No page of another run is left behind."""
    report(results, tmp_path / "report")
    stale = tmp_path / "report" / "environments" / "stale.html"
    stale.touch()

    assert report(results, tmp_path / "report") == 0

    assert not stale.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_no_report_is_left_alone(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody loses a folder for having named it."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years")

    assert report(results, tmp_path / "thesis") == 1

    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years"
    assert "is there, and no report: name another place with --output" in " ".join(capsys.readouterr().err.split())


def test_several_runs_have_one_report(results: Path, tmp_path: Path) -> None:
    """Their environments lie in folders of their own."""
    quickstart(results, "other", attempts=1)

    report(results, tmp_path / "report", "default", "other")

    assert {path.name for path in (tmp_path / "report" / "environments").iterdir()} == {"default", "other"}


def test_a_run_that_is_not_there_is_named(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is written."""
    assert report(results, tmp_path / "report", "nothing") == 1

    assert "there is no run in" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
