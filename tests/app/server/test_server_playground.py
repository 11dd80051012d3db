"""The playground in a real browser: typed into, clicked, read; light and dark, on a desk and on a phone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chromium import CHROMIUM, Browser
from keyword_model import keyword_texts

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NOT LOOKED AT IN A BROWSER: chromium is missing, run `make browser`"),
    pytest.mark.slow,
]
TEXT = keyword_texts(3, seed=11)[0][1]
NASTY = "good <img src=x onerror=\"document.title='broken'\"></script> \u202e\u200bfilm \U0001f600 bad"
READ = ("h1", "h2", "h3", "#about", "label", ".hint", "#status", "#label", ".card dt", ".card dd", ".votes span")
READ += ("#legend", ".copy h4", ".mask", "textarea", "select", "#attack-go", "#attack-status", "td", "thead th")
READ += ("ins", "footer p", "footer a", "#certificate p")


@pytest.fixture(scope="module")
def address(live):
    with live(attack_queries=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_to_complain_about(browser, address):
    browser.complaints.clear()
    browser.requests.clear()
    yield
    assert browser.complaints == []
    assert all(each.startswith((address, "data:", "about:")) for each in browser.requests), browser.requests


def opened(browser, address, **how):
    browser.visit(f"{address}/", **how)
    browser.until("document.getElementById('about').textContent.startsWith('keywords')")


def typed(browser, text, settled="/^(neg|pos), /.test(document.getElementById('status').textContent)"):
    browser.run("document.getElementById('text').focus()")
    browser.type(text)
    browser.until(settled)
    browser.until("!document.getElementById('result').classList.contains('old')")


def read(browser, name):
    return browser.run(f"document.getElementById('{name}').textContent")


def test_typing_shows_decision_votes_tokens_masks_and_certificate(browser, address, classifier):
    opened(browser, address)
    typed(browser, TEXT)
    (expected,) = classifier.explain([TEXT])
    share = f"{100 * max(expected.probabilities.values()):.1f} %"
    assert read(browser, "label") == f"{expected.label} {share}"
    assert read(browser, "status").startswith(f"{expected.label}, {share}")
    total = sum(expected.first_votes.values())
    for label, count in expected.first_votes.items():
        assert f"{label}{count} of {total}" in read(browser, "votes")
    hidden = [expected.tokens[place].text for place in expected.masked]
    assert (
        browser.run("[...document.querySelectorAll('.token.hidden')].map((own) => own.firstChild.textContent)")
        == hidden
    )
    assert browser.run("document.querySelector('.copy .text').textContent") == TEXT.replace(hidden[0], "hidden", 1)
    assert read(browser, "tokens").replace(" (hidden)", "") == TEXT
    browser.until("/radius|proved/.test(document.getElementById('certificate').textContent)")
    (certificate,) = classifier.certify([TEXT], estimation_samples=100, selection_samples=20)
    told = read(browser, "certificate")
    assert f"radius {certificate.radius:.3f}" in told
    assert certificate.space in told
    assert "0.001" in told


def test_typing_on_gives_up_the_older_question(browser, address):
    opened(browser, address)
    typed(browser, "good film")
    typed(browser, " bad bad bad dull poor hate", "document.getElementById('status').textContent.startsWith('neg')")
    assert "good film bad" in read(browser, "tokens")
    browser.run(
        "(() => { const own = document.getElementById('text'); own.value = '  ';"
        " own.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    assert read(browser, "status") == "Nothing to decide about yet."
    assert browser.run("document.getElementById('result').hidden")


def test_quality_and_example_are_followed(browser, address):
    opened(browser, address)
    browser.run("document.getElementById('example').click()")
    browser.until("/^(neg|pos), /.test(document.getElementById('status').textContent)")
    browser.run(
        "(() => { const own = document.getElementById('quality'); own.value = 'fast';"
        " own.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    browser.until("document.getElementById('legend').textContent.startsWith('No saliency')")
    assert "of 3" in read(browser, "votes")
    assert "Nothing is hidden" in read(browser, "copies")


def test_an_attack_shows_each_query_and_how_it_ends(browser, address):
    opened(browser, address)
    typed(browser, TEXT)
    assert browser.run("[...document.getElementById('attack-name').options].map((own) => own.value)") == ["deepwordbug"]
    browser.run("document.getElementById('attack-go').focus()")
    browser.press("Enter")
    browser.until(
        "!document.getElementById('attack-go').disabled && document.querySelector('#attack-result .outcome') !== null",
        60,
    )
    outcome = browser.run("document.querySelector('.outcome').textContent")
    first = {"attack succeeded": "Fooled after", "attack failed": "Withstood"}[outcome]
    assert read(browser, "attack-status").startswith(first)
    rows = browser.run(
        "[...document.querySelectorAll('#attack-log tr')].map((own) => Number(own.cells[0].textContent))"
    )
    assert rows == list(range(len(rows), 0, -1))
    assert len(rows) > 2
    assert browser.run("document.querySelector('#attack-log tr:last-child').cells[3].textContent") == TEXT
    assert browser.run("document.querySelectorAll('#attack-log ins').length") > 0
    assert browser.run("document.querySelector('#attack-chart .gold').getAttribute('points').split(' ').length") == len(
        rows
    )
    assert "of 60 queries" in read(browser, "attack-caption")


def test_hostile_texts_are_text(browser, address):
    opened(browser, address)
    typed(browser, NASTY)
    assert "<img src=x" in read(browser, "tokens")
    assert "\u27e8U+202E\u27e9\u27e8U+200B\u27e9film \U0001f600 bad" in read(browser, "tokens").replace(" (hidden)", "")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title") == "keywords \u00b7 rsmi playground"


def test_a_long_text_says_that_it_was_windowed_and_what_is_not_proved(browser, address):
    opened(browser, address)
    typed(browser, "good film and a warm story " * 12)
    assert "This text has 72 tokens; the model reads 32 at once" in read(browser, "windows")
    browser.until("document.getElementById('certificate').textContent.includes('longer than the model reads')")
    assert read(browser, "tokens").count("warm") == 12


def test_what_goes_wrong_is_said(browser, address):
    opened(browser, address)
    browser.run(
        "(() => { const own = document.getElementById('text'); own.value = 'good '.repeat(20000);"
        " own.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    browser.until("document.getElementById('status').classList.contains('error')")
    assert "expected at most 16384 tokens" in read(browser, "status")
    assert any("422" in each for each in browser.complaints)  # chromium notes every status that is no success
    browser.complaints.clear()


def test_a_key_is_asked_for_and_used(browser, live):
    with live(api_key="open-sesame") as address:
        browser.visit(f"{address}/")
        browser.until("document.getElementById('about').textContent === 'a key is needed'")
        assert not browser.run("document.getElementById('key-row').hidden")
        browser.run("document.getElementById('key').focus()")
        browser.type("open-sesame")
        browser.press("Tab")
        browser.until("document.getElementById('about').textContent.startsWith('keywords')")
        typed(browser, TEXT)
        assert any("401" in each for each in browser.complaints)
        browser.complaints.clear()
        browser.requests.clear()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_window_and_all_of_it_can_be_read(browser, address, width, dark, tmp_path):
    opened(browser, address, width=width, dark=dark)
    typed(browser, TEXT)
    browser.until("/radius|proved/.test(document.getElementById('certificate').textContent)")
    browser.run("document.getElementById('attack-go').click()")
    browser.until("document.querySelector('#attack-result .outcome') !== null", 60)
    assert browser.overflowing(width) == []
    assert browser.run("document.documentElement.scrollWidth") == browser.run("innerWidth") == width
    assert {name: ratio for name, ratio in browser.contrasts(READ).items() if ratio < 4.5} == {}
    kept = Path(os.environ.get("RSMI_SCREENSHOTS", tmp_path))
    browser.screenshot(kept / f"playground-{width}-{'dark' if dark else 'light'}.png", 0, 2600 if width < 600 else 1900)


def test_controls_have_names_and_tab_reaches_them_in_order(browser, address):
    opened(browser, address)
    unnamed = "[...document.querySelectorAll('select, input, textarea')].filter((own) => !own.labels.length).length"
    assert browser.run(unnamed) == 0
    reached = []
    browser.run("document.getElementById('text').focus()")
    for _ in range(9):
        reached.append(browser.run("document.activeElement.id || document.activeElement.tagName"))
        browser.press("Tab")
    assert reached == [
        "text",
        "SUMMARY",
        "quality",
        "samples",
        "example",
        "attack-name",
        "attack-queries",
        "attack-go",
        "A",
    ]
    live_regions = "[...document.querySelectorAll('[role=status], [aria-live]')].map((own) => own.id)"
    assert browser.run(live_regions) == ["status", "certificate", "attack-status"]
