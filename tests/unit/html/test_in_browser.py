"""What people do with a report: read it anywhere, filter, open cells, print; and what they need not fear."""

from __future__ import annotations

import re
from base64 import b64decode
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.browsing import look_as
from tests.unit.html.test_hostile import PIECES, hostile_attempt, pages_of


if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

#: A desk, and a phone.
DESK, PHONE = (1280, 900), (390, 844)


def open_page(chrome: Chrome, page: Path, *, screen: tuple[int, int] = DESK, scheme: str = "light") -> None:
    """Look at a page."""
    look_as(chrome, width=screen[0], height=screen[1], scheme=scheme)
    chrome.get(page.as_uri())


def index(report: Path) -> Path:
    """The page of the run."""
    return report / "index.html"


def environment(report: Path) -> Path:
    """The page of one environment, in which something failed."""
    pages = sorted(report.glob("environments/**/*.html"))
    return next(page for page in pages if 'class="chip failed"' in page.read_text())


def one(chrome: Chrome, selector: str) -> WebElement:
    """The first element that fits."""
    return chrome.find_element("css selector", selector)


def count(chrome: Chrome, selector: str) -> int:
    """How many elements are seen."""
    return int(
        chrome.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter(one => one.checkVisibility({"
            "visibilityProperty: true})).length",
            selector,
        )
    )


def choose(chrome: Chrome, name: str, words: str) -> None:
    """Choose in a filter."""
    from selenium.webdriver.support.select import Select  # noqa: PLC0415 - only here

    Select(one(chrome, f"select[name={name}]")).select_by_visible_text(words)


def press(chrome: Chrome, key: str) -> None:
    """Press a key where the focus is."""
    from selenium.webdriver.common.keys import Keys  # noqa: PLC0415 - only here

    chrome.switch_to.active_element.send_keys(getattr(Keys, key))


# --- filters ----------------------------------------------------------------------------------------------


def test_filters_leave_what_fits(chrome: Chrome, report: Path) -> None:
    """By domain, agent, tier and verdict; the status line counts, and one button shows all again."""
    open_page(chrome, index(report))
    every = count(chrome, ".matrix td .c")

    assert count(chrome, ".matrix tbody tr") == 4
    assert every == 48
    choose(chrome, "domain", "hallucination detection")
    assert count(chrome, ".matrix tbody tr") == 1
    choose(chrome, "agent", "codex")
    assert count(chrome, ".matrix td .c") == 6
    choose(chrome, "tier", "C3 single-GPU execution")
    assert count(chrome, ".matrix td .c") == 1
    assert one(chrome, ".count").text == "1 of 4 repositories, 1 cells"
    one(chrome, "form.filters button").click()
    chrome.execute_async_script("setTimeout(arguments[0], 50)")
    assert count(chrome, ".matrix td .c") == every


def test_a_cause_shows_the_cells_that_have_it(chrome: Chrome, report: Path) -> None:
    """And nothing else."""
    open_page(chrome, index(report))
    causes = [option.text for option in chrome.find_elements("css selector", "select[name=cause] option")][1:]

    for number, cause in enumerate(causes):
        choose(chrome, "cause", cause)
        having = chrome.execute_script(
            "const data = JSON.parse(document.getElementById('data').textContent);"
            "return data.rows.flat().flatMap(one => one.t).filter(of => of.some(a => a[2] === arguments[0])).length",
            number,
        )
        assert count(chrome, ".matrix td .c") == having > 0


def test_a_name_is_searched_for(chrome: Chrome, report: Path) -> None:
    """Part of it, without regard to case."""
    open_page(chrome, index(report))

    one(chrome, "input[name=text]").send_keys("LETT")

    assert count(chrome, ".matrix tbody tr") == 1
    one(chrome, "input[name=text]").send_keys("x")
    assert one(chrome, ".count").text == "0 of 4 repositories, 0 cells"


# --- keys -------------------------------------------------------------------------------------------------


def test_a_cell_opens_and_closes_by_keys(chrome: Chrome, report: Path) -> None:
    """Enter opens what its attempts came to, Escape closes it, and the focus is back on the cell."""
    open_page(chrome, index(report))
    cell = one(chrome, ".matrix a.c")
    chrome.execute_script("arguments[0].focus()", cell)

    press(chrome, "ENTER")

    assert one(chrome, "dialog").is_displayed()
    assert one(chrome, "dialog h2").text.endswith(": C0 static imports")
    assert 1 <= count(chrome, "dialog tbody tr") <= 3
    assert chrome.execute_script("return document.querySelector('dialog').contains(document.activeElement)")
    press(chrome, "ESCAPE")
    assert not one(chrome, "dialog").is_displayed()
    assert chrome.execute_script("return document.activeElement === arguments[0]", cell)


def test_arrows_move_between_cells(chrome: Chrome, report: Path) -> None:
    """One cell is in the order of tabs; arrows go on from there, over cells that lead nowhere."""
    open_page(chrome, index(report))
    chrome.execute_script("document.querySelector('.matrix a.c').focus()")

    def at() -> str:
        return str(chrome.execute_script("return document.activeElement.getAttribute('aria-label')"))

    assert chrome.execute_script("return document.querySelectorAll('.matrix a.c[tabindex=\"0\"]').length") == 1
    assert ", C0: " in at()
    press(chrome, "ARROW_RIGHT")
    assert ", C1: " in at()
    press(chrome, "ARROW_DOWN")
    assert ", C1: " in at()
    assert not at().startswith("kvpress")
    press(chrome, "ARROW_LEFT")
    press(chrome, "ARROW_LEFT")
    assert ", C0: " in at()


def test_a_dialog_leads_to_the_environment(chrome: Chrome, report: Path) -> None:
    """To the part about the tier."""
    open_page(chrome, index(report))
    one(chrome, ".matrix a.c").click()

    one(chrome, "dialog tbody a").click()

    assert chrome.current_url.endswith("/attempt-001.html#C0")
    assert one(chrome, "#C0").is_displayed()
    one(chrome, "header a").click()
    assert chrome.current_url.endswith("/index.html")


def test_the_focus_is_seen(chrome: Chrome, report: Path) -> None:
    """Whoever uses keys sees where they are."""
    open_page(chrome, index(report))

    press(chrome, "TAB")
    press(chrome, "TAB")

    width = chrome.execute_script("return getComputedStyle(document.activeElement).outlineWidth")
    assert float(width.removesuffix("px")) >= 2


# --- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [index, environment])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_page_is_wider_than_its_screen(chrome: Chrome, report: Path, page: object, width: int) -> None:
    """What is wide scrolls in a box of its own."""
    assert callable(page)
    open_page(chrome, page(report), screen=(width, 844))
    chrome.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")

    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("page", [index, environment])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [DESK, PHONE])
def test_axe_finds_nothing(chrome: Chrome, report: Path, page: object, scheme: str, screen: tuple[int, int]) -> None:
    """By the rules of WCAG 2.1 AA, contrast among them, and by good practice."""
    assert callable(page)
    open_page(chrome, page(report), screen=screen, scheme=scheme)
    assert violations(chrome) == []


def test_axe_finds_nothing_in_an_open_cell(chrome: Chrome, report: Path) -> None:
    """Its table, its button, its links."""
    open_page(chrome, index(report))
    one(chrome, ".matrix a.c").click()

    assert violations(chrome) == []


def violations(chrome: Chrome) -> list[tuple[str, list[str]]]:
    """What axe-core finds on the page as it is, everything unfolded: rule, and elements that break it."""
    chrome.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
    found = chrome.execute_async_script(
        "const done = arguments[0];"
        "document.querySelectorAll('details').forEach(one => { one.open = true; });"
        "axe.run({resultTypes: ['violations']}).then(done)"
    )
    return [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]


def luminance(colour: str) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdicts_can_be_read(chrome: Chrome, report: Path, scheme: str) -> None:
    """What stands on each colour has a contrast of 4.5 at least, and colours of verdicts differ for everybody."""
    open_page(chrome, index(report), scheme=scheme)
    pairs = chrome.execute_script(
        "return Object.fromEntries(['passed', 'failed', 'mixed', 'error', 'skipped'].map(name => {"
        "const one = document.createElement('span'); one.className = `c ${name}`; document.body.append(one);"
        "const style = getComputedStyle(one); return [name, [style.color, style.backgroundColor]]; }))"
    )

    for ink, paper in pairs.values():
        lighter, darker = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5
    # Blue tells green from orange where red and green look the same.
    blue = {name: int(re.findall(r"\d+", paper)[2]) for name, (_, paper) in pairs.items()}
    assert blue["passed"] - blue["failed"] > 20


def test_it_is_dark_at_night(chrome: Chrome, report: Path) -> None:
    """Where the system asks for it."""
    shades = []
    for scheme in ("light", "dark"):
        open_page(chrome, index(report), scheme=scheme)
        shades.append(luminance(chrome.execute_script("return getComputedStyle(document.body).backgroundColor")))

    assert shades[0] > 0.85
    assert shades[1] < 0.02


def test_it_prints(chrome: Chrome, report: Path) -> None:
    """Without what only a screen can do, with all of the matrix, and on paper that is white even by night."""
    look_as(chrome, width=800, height=1100, scheme="dark", medium="print")
    chrome.get(index(report).as_uri())

    assert chrome.execute_script("return document.documentElement.scrollWidth") <= 800
    assert count(chrome, "nav.parts, form.filters") == 0
    assert count(chrome, ".matrix tbody tr") == 4
    assert chrome.execute_script("return getComputedStyle(document.querySelector('.matrix')).overflow") == "visible"
    assert chrome.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = chrome.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert b64decode(paper["data"]).startswith(b"%PDF")


def test_without_scripts_every_cell_is_a_link(chrome: Chrome, report: Path) -> None:
    """Who forbids scripts can still read all of it."""
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(chrome, index(report))
        one(chrome, ".matrix a.c").click()
        assert "/environments/" in chrome.current_url
    finally:
        chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


# --- hostile words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["".join(PIECES), *PIECES[:6]])
def test_no_script_of_anybody_runs(chrome: Chrome, tmp_path: Path, words: str) -> None:
    """Of a log, a name, a self-report, a trajectory: not when pages are opened, nor when cells are."""
    pages = pages_of(hostile_attempt(tmp_path, words, words.encode("utf-8", "surrogatepass")))

    for html in pages:
        (tmp_path / "page.html").write_text(html)
        open_page(chrome, tmp_path / "page.html")
        for cell in chrome.find_elements("css selector", ".matrix a.c")[:2]:
            chrome.execute_script("arguments[0].click()", cell)
            assert one(chrome, "dialog").is_displayed()
            press(chrome, "ESCAPE")
        assert chrome.execute_script("return window.pwned") is None
        assert not [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("words", ["x" * 5000, "x " * 2500, "\u202e" * 300])
def test_huge_names_break_no_layout(chrome: Chrome, tmp_path: Path, words: str) -> None:
    """Whoever chose them: a page is no wider than a phone."""
    for html in pages_of(hostile_attempt(tmp_path, words, words.encode())):
        (tmp_path / "page.html").write_text(html)
        open_page(chrome, tmp_path / "page.html", screen=PHONE)
        chrome.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")

        assert chrome.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("page", [index, environment])
def test_a_script_that_got_in_would_not_run(chrome: Chrome, report: Path, tmp_path: Path, page: object) -> None:
    """If escaping failed, the page's policy would still stop scripts, handlers, styles and requests."""
    assert callable(page)
    payload = (
        "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'><style>body { display: none }</style>"
        "<p id=seen style='display: none'>seen</p><a href='javascript:window.pwned=3'>x</a>"
    )
    html = page(report).read_text().replace("</main>", f"{payload}</main>")
    (tmp_path / "page.html").write_text(html)

    open_page(chrome, tmp_path / "page.html")
    chrome.execute_script("document.querySelector('main > a[href^=javascript]').click()")
    chrome.execute_async_script("setTimeout(arguments[0], 200)")

    assert chrome.execute_script("return window.pwned") is None
    assert one(chrome, "#seen").is_displayed()
