"""The page as a real browser shows it: Chromium, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chromium import CHROMIUM, Browser
from report_runs import EVIDENCE, record, run, suite
from rsmi.report import CertifiedCurve, Report

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NOT LOOKED AT IN A BROWSER: chromium is missing, run `make browser`"),
    pytest.mark.slow,
]
NASTY = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"> \u2028 good"
READ = ("h1", "h2", "a", "p", ".source", "caption span", "td", "td small", "thead th", "figcaption", "del", "ins")
READ += (".facts", ".outcome", ".warnings li", "button", "summary", ".card dt", "#filters label")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of everything: long names, hostile texts, pairs, certificates, 2,000 more examples."""
    folder = tmp_path_factory.mktemp("page")
    hostile = [
        record("s", original=f"a good {NASTY}", adversarial=f"a bad {NASTY}", evidence=EVIDENCE),
        record(
            "s", 1, original=("is it good", "it is \U0001f600 good"), adversarial=("is it good", "it is \U0001f600 bad")
        ),
        record("f", 2, original="a zero\u200bwidth film", adversarial="a zero\u202ewidth film"),
    ]
    many = [replace(record("sf"[place % 2], place), queries=place % 700 + 2) for place in range(2000)]
    runs = [
        *suite(),
        run(
            "",
            records=hostile,
            data="hostile",
            model=NASTY,
            attack="a-very-long-name-of-an-attack-without-any-space" * 2,
        ),
        run("", records=many, data="many"),
    ]
    curve = CertifiedCurve.of("noisy", "L2 after layer 0", [{"radius": 0.5, "certified": True}])
    Report.from_runs(runs, [curve]).save(folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_to_complain_about(browser: Browser) -> Iterator[None]:
    browser.complaints.clear()
    browser.requests.clear()
    yield
    assert browser.complaints == []
    assert all(address.startswith(("file:", "data:", "about:")) for address in browser.requests), browser.requests


def shown(browser: Browser) -> int:
    count: int = browser.run("document.querySelectorAll('.example').length")
    return count


def test_examples_are_listed_a_few_at_a_time(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("document.getElementById('count').textContent") == "2,059 of 2,059 examples, 20 shown"
    assert shown(browser) == 20
    browser.run("document.getElementById('more').click()")
    assert shown(browser) == 40
    assert browser.run("document.title").startswith("Robustness report")


def test_an_address_filters_and_filters_become_the_address(browser: Browser, page: Path) -> None:
    browser.open(page, "#model=noisy&outcome=succeeded&protocol=eot-20")
    assert browser.run("document.getElementById('count').textContent") == "3 of 2,059 examples"
    assert shown(browser) == 3
    assert browser.run("document.querySelector('#filters [name=outcome]').value") == "succeeded"
    browser.run(
        "(() => { const box = document.querySelector('#filters [name=q]'); box.value = 'film 2';"
        " box.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    browser.until("document.querySelectorAll('.example').length === 1")
    assert "q=film+2" in browser.run("location.hash")
    browser.run("document.getElementById('reset').click()")
    assert browser.run("location.hash") == "#examples"
    assert shown(browser) == 20


def test_one_input_can_be_seen_in_every_run(browser: Browser, page: Path) -> None:
    browser.open(page, "#model=noisy&protocol=vote")
    browser.run("document.querySelector('.example button').click()")
    assert shown(browser) == 7
    assert "input 0 only" in browser.run("document.getElementById('count').textContent")


def test_changed_words_saliency_and_votes_are_shown(browser: Browser, page: Path) -> None:
    browser.open(page, "#protocol=vote&outcome=succeeded")
    assert browser.run("document.querySelector('.example del').textContent") == "good"
    assert browser.run("document.querySelector('.example ins').textContent") == "bad"
    browser.run("document.querySelector('.example details').open = true")
    browser.until("document.querySelectorAll('.example .token').length === 6")
    assert browser.run("document.querySelector('.token.hidden').firstChild.textContent") == "good"
    assert browser.run("document.querySelector('.votes').textContent") == "neg1 of 5pos4 of 5"


def test_hostile_texts_are_text(browser: Browser, page: Path) -> None:
    browser.open(page, "#q=onerror")
    assert shown(browser) == 1
    assert "<img src=x" in browser.run("document.querySelector('.text').textContent")
    assert "\u27e8U+2028\u27e9" in browser.run("document.querySelector('.text').textContent")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title").startswith("Robustness report: plain, noisy, </script>")
    browser.open(page, "#q=is+it+good")
    second = "[...document.querySelectorAll('.texts > div:last-child .text')].map((own) => own.textContent)"
    assert browser.run(second) == ["is it good", "it is \U0001f600 bad"]
    assert browser.run("document.querySelector('ins').textContent") == "bad"
    browser.open(page, "#q=zero")
    assert "\u27e8U+200B\u27e9" in browser.run("document.querySelector('.text').textContent")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_window(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, "#q=good", width=width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach((own) => { own.open = true; })")
    assert browser.overflowing(width) == []
    assert browser.run("document.documentElement.scrollWidth") == browser.run("innerWidth") == width


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read_in_light_and_dark(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, "#outcome=succeeded", dark=dark)
    assert {name: ratio for name, ratio in browser.contrasts(READ).items() if ratio < 4.5} == {}
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")


def test_the_button_switches_colours_and_the_page_remembers(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("document.getElementById('theme').textContent") == "Dark"
    browser.run("document.getElementById('theme').click()")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    browser.open(page)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    browser.run("localStorage.clear()")


def test_controls_have_names_and_can_be_reached_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)
    unnamed = "[...document.querySelectorAll('select, input')].filter((own) => !own.labels.length).length"
    assert browser.run(unnamed) == 0
    scrolling = "[...document.querySelectorAll('.scroll')].filter((own) => own.tabIndex !== 0).length"
    assert browser.run(scrolling) == 0


def test_the_page_can_be_printed(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    assert browser.print_pages().startswith(b"%PDF")
    assert browser.run("[...document.querySelectorAll('#sample-0 details')].every((own) => own.open)")
