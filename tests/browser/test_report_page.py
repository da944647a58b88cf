"""The page of a report in a real browser: everything renders, moves, and can be saved."""

from __future__ import annotations

import json
import re
import subprocess
import zlib
from contextlib import suppress

import pytest

from coterie.reports.html.page_shell import render_page as make_page

PLOTS = ("curves", "gains", "frontier", "recovery", "merge")
MATRICES = ("heatmap", "estimates")
SHOWN = "button[aria-pressed=true], li:not(:has(button))"
# What is drawn of a plot: lines, bars or pictures of cells.
MARKS = ".scatterlayer path, .barlayer path, .heatmaplayer image"


def picture(opened, name):
    """Return the picture of a figure as it is now."""
    return opened.page.locator(f"#{name} .picture").inner_html()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_of_a_real_run_renders(open_page, digits, theme):
    opened = open_page(digits, theme=theme)
    for name in (*PLOTS, *MATRICES):
        assert opened.page.locator(f"#{name} .picture").locator(MARKS).count() > 0, name
    assert opened.page.locator("#graph circle").count() == 16
    assert opened.page.locator("#graph line").count() > 16
    said = opened.page.locator("#summary").inner_text()
    assert "± is the 95% interval of the difference, paired over 3 seeds." in said
    assert "Yardsticks, not competitors: oracle (told the true clusters)" in said
    marks = opened.page.locator("#summary tbody .mark").all_inner_texts()
    assert marks == ["told the true clusters"]
    assert "watch.peers" in opened.page.locator("#similarity .missing").inner_text()
    assert opened.page.locator("#summary tbody tr").count() == 3
    assert opened.page.evaluate("document.documentElement.dataset.theme") == theme


def test_every_picture_says_what_it_shows(open_page, digits):
    opened = open_page(digits)
    pictures = opened.page.locator(".picture").all()
    assert len(pictures) == 8
    for each in pictures:
        assert each.get_attribute("role") == "img"
        assert len(each.get_attribute("aria-label")) > 40


def test_a_drift_marks_its_shifts_and_shows_watched_peers(open_page, drift):
    opened = open_page(drift)
    assert opened.page.locator("#curves .shapelayer path").count() == 2
    assert opened.page.locator("#similarity .picture").locator(MARKS).count() > 0
    metrics = opened.page.locator("#similarity select").nth(3)
    before = picture(opened, "similarity")
    metrics.select_option(index=1)
    assert picture(opened, "similarity") != before


def test_poisoned_peers_are_rings_in_the_graph(open_page, drift):
    opened = open_page(drift)
    dots = opened.page.locator("#graph circle").all()
    rings = [each for each in dots if each.get_attribute("stroke-width") == "3"]
    assert (len(dots), len(rings)) == (12, 2)
    assert all("poisoned" in each.locator("title").text_content() for each in rings)
    assert "poisoned" in opened.page.locator("#graph .legend").inner_text()
    assert "2 of 12 peers are poisoned" in opened.page.locator("#summary").inner_text()
    assert "(2) are left out" in opened.page.locator("#gains").inner_text()


def test_whiskers_stay_within_what_an_accuracy_can_be(open_page, digits):
    opened = open_page(digits)
    bars = opened.page.evaluate(
        """() => document.querySelector("#frontier .picture").data.filter((t) => t.error_y)
        .map((t) => [t.y[0] - t.error_y.arrayminus[0], t.y[0] + t.error_y.array[0]])"""
    )
    assert len(bars) == 3
    assert all(0 <= low < high <= 100 for low, high in bars)


@pytest.mark.parametrize("name", ["heatmap", "graph", "estimates"])
def test_the_slider_moves_through_time_by_keyboard(open_page, digits, name):
    opened = open_page(digits)
    opened.page.locator(f"#{name}").scroll_into_view_if_needed()
    slider = opened.page.locator(f"#{name} input[type=range]")
    slider.wait_for()
    before, said = picture(opened, name), slider.get_attribute("aria-valuetext")
    slider.focus()
    opened.page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") != said
    opened.page.wait_for_function(
        "([name, before]) => document.querySelector(`#${name} .picture`).innerHTML !== before",
        arg=[name, before],
    )


def test_play_goes_on_by_itself_and_stops_at_the_end(open_page, digits):
    opened = open_page(digits)
    opened.page.locator("#graph").scroll_into_view_if_needed()
    play, slider = (
        opened.page.locator(f"#graph {each}") for each in (".play", "input[type=range]")
    )
    play.wait_for()
    before = picture(opened, "graph")
    last = slider.get_attribute("max")
    slider.press("End")
    play.click()
    assert play.get_attribute("aria-pressed") == "true"
    assert slider.input_value() == "0"
    at = "document.querySelector('#graph input[type=range]').value"
    opened.page.wait_for_function(f"() => {at} !== '0'")
    assert picture(opened, "graph") != before
    opened.page.wait_for_function(f"() => {at} === '{last}'", timeout=60_000)
    opened.page.wait_for_function(
        "() => document.querySelector('#graph .play').getAttribute('aria-pressed') === 'false'"
    )


def test_the_heatmap_can_be_added_up(open_page, digits):
    opened = open_page(digits)
    opened.page.locator("#heatmap").scroll_into_view_if_needed()
    box = opened.page.locator("#heatmap input[type=checkbox]")
    box.wait_for()
    opened.page.locator("#heatmap input[type=range]").press("End")
    before = picture(opened, "heatmap")
    box.check()
    assert picture(opened, "heatmap") != before
    assert "rounds 1–10" in opened.page.locator("#heatmap .words").inner_text()


def test_choices_and_the_legend_change_the_picture(open_page, digits):
    opened = open_page(digits)
    seen = [picture(opened, "curves")]
    opened.page.locator("#curves select").nth(1).select_option(label="dac")
    seen.append(picture(opened, "curves"))
    opened.page.locator("#curves .legend button").first.click()
    seen.append(picture(opened, "curves"))
    opened.page.locator("#curves select").first.select_option(index=1)
    seen.append(picture(opened, "curves"))
    assert len(set(seen)) == 4


def test_the_theme_can_be_changed_and_pictures_follow(open_page, digits):
    opened = open_page(digits, theme="light")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    paper = "() => document.querySelector('#curves .main-svg').style.background"
    before = (opened.page.evaluate(ground), opened.page.evaluate(paper))
    opened.page.locator("#theme").click()
    after = (opened.page.evaluate(ground), opened.page.evaluate(paper))
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize("name", ["curves", "heatmap", "graph"])
def test_figures_can_be_saved(open_page, digits, tmp_path, name):
    opened = open_page(digits)
    opened.page.locator(f"#{name}").scroll_into_view_if_needed()
    for form, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        button = opened.page.locator(f"#{name} button[data-format={form}]")
        with opened.page.expect_download() as started:
            button.click()
        target = tmp_path / f"{name}.{form}"
        started.value.save_as(target)
        assert started.value.suggested_filename == f"{name}.{form}"
        content = target.read_bytes()
        assert content.startswith(start)
        assert len(content) > 3000
        if form == "svg":  # the legend comes along, though the page shows it beside the picture
            named = opened.page.locator(f"#{name} .legend").locator(SHOWN).all_inner_texts()
            assert bool(named) == (name != "heatmap")
            assert [text for text in named if text not in content.decode()] == []
        opened.page.get_by_text(f"Saved as {name}.{form}").wait_for()


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_overlaps_and_nothing_is_wider_than_the_screen(open_page, drift, width):
    opened = open_page(drift, width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = opened.page.evaluate(
        """() => [...document.querySelectorAll(
             "h1, h2, .explain, .controls .control, .legend li, .words, .savers, nav a, .xtitle, " +
             ".ytitle, .xtick text, .ytick text")]
           .filter((each) => each.getClientRects().length)
           .map((each) => {
             const { x, y, width, height } = each.getBoundingClientRect();
             return [each.textContent.slice(0, 40), x, y + scrollY, width, height];
           })"""
    )
    assert len(boxes) > 80
    assert [text for text, x, _, wide, _ in boxes if x < -1 or x + wide > width + 1] == []
    assert list(overlapping(boxes)) == []


def overlapping(boxes):
    """Yield pairs of texts whose boxes share more than a rim."""
    rim = 2
    for place, (one, x, y, wide, high) in enumerate(boxes):
        for other, x2, y2, wide2, high2 in boxes[place + 1 :]:
            across = min(x + wide, x2 + wide2) - max(x, x2)
            down = min(y + high, y2 + high2) - max(y, y2)
            if across > rim and down > rim:
                yield one, other


def test_the_top_says_when_and_how_the_runs_were_started(open_page, digits):
    said = open_page(digits).page.locator("header #origin")
    assert re.match(
        r"Preset digits, started on \d{4}-\d\d-\d\d at \d\d:\d\d UTC with Coterie \d",
        said.inner_text(),
    )
    command = said.locator("code").inner_text()
    assert command.startswith("coterie run digits --strategy local,dac,oracle --seeds 3")
    assert command.endswith("--out .../runs")


SCROLLED = ["summary", "recovery"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", SCROLLED)
def test_a_table_wider_than_the_screen_says_so_and_scrolls_by_keyboard(
    open_page, drift, name, theme
):
    opened = open_page(drift, width=400, theme=theme)
    opened.page.locator(f"#{name}").scroll_into_view_if_needed()
    around, box = (opened.page.locator(f"#{name} {each}") for each in (".sideways", ".scroll"))
    around.locator(".hint").wait_for()
    assert "Scroll sideways" in around.locator(".hint").inner_text()
    assert box.get_attribute("role") == "region"
    assert box.get_attribute("aria-label").endswith("; scrolls sideways")
    fade = "each => getComputedStyle(each.querySelector('.edge'), '::after').backgroundImage"
    assert "gradient" in around.evaluate(fade)
    box.focus()
    place = f"document.querySelector('#{name} .scroll')"
    opened.page.keyboard.press("ArrowRight")
    opened.page.wait_for_function(f"() => {place}.scrollLeft > 0")
    box.evaluate("each => each.scrollTo({ left: 10_000 })")
    opened.page.wait_for_function(f"() => !{place}.closest('.sideways').matches('.more')")
    assert around.evaluate(fade) == "none"
    first, left = (each.bounding_box()["x"] for each in (box.locator("tbody th").first, box))
    assert first == pytest.approx(left, abs=1), "the names of rows stay in view"


@pytest.mark.parametrize("name", SCROLLED)
def test_a_table_that_fits_gives_no_hint_and_is_no_stop_for_the_keyboard(open_page, drift, name):
    opened = open_page(drift, width=1400)
    assert not opened.page.locator(f"#{name} .hint").is_visible()
    for attribute in ("tabindex", "role"):
        assert opened.page.locator(f"#{name} .scroll").get_attribute(attribute) is None


def test_the_best_ends_for_their_cost_are_steps_with_a_name(open_page, digits):
    opened = open_page(digits)
    steps = "best final result at this cost or less"
    find = """name => document.querySelector("#frontier .picture").data
              .filter((trace) => trace.name === name).map((t) => [t.line.shape, t.x, t.y])"""
    [[shape, cost, level]] = opened.page.evaluate(find, steps)
    assert shape == "hv", "level until the cost of a better one is reached"
    assert cost == sorted(cost)
    assert level == sorted(level)
    assert level[-1] == level[-2], "the last one holds to the edge"
    entry = opened.page.locator("#frontier .legend button", has_text=steps)
    entry.click()
    assert opened.page.evaluate(find, steps) == []
    entry.click()


ON_PAPER = """() => addEventListener("beforeprint", () => {
  const pictures = [...document.querySelectorAll(".picture")];
  window.onPaper = {
    theme: document.documentElement.dataset.theme,
    drawn: pictures.filter((each) => each.querySelector(".main-svg, .drawing")).length,
    widths: pictures.map((each) => each.firstElementChild.getBoundingClientRect().width),
    tables: [...document.querySelectorAll("table")].map((each) => each.offsetWidth),
  };
})"""


def test_paper_has_every_figure_in_light_colours_and_within_its_width(open_unseen, digits):
    page = open_unseen(digits, theme="dark")
    page.locator("#curves .picture .main-svg").first.wait_for()
    assert page.locator("#merge .picture").count() == 0, "it is far below what was looked at"
    page.evaluate(ON_PAPER)
    page.pdf()
    paper = page.evaluate("window.onPaper")
    assert paper["theme"] == "light"
    assert paper["drawn"] == len(PLOTS) + len(MATRICES) + 1
    assert max(paper["widths"] + paper["tables"]) <= 710
    # Afterwards all is as before, but that every figure is there.
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.querySelector('#curves .picture svg').clientWidth") > 900


def test_chromium_prints_every_figure_from_the_command_line(browser_command, digits, tmp_path):
    """Without scrolling: the colours of lines are in the file."""
    target = tmp_path / "report.pdf"
    subprocess.run(
        [*browser_command, "--headless", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}",
         f"--print-to-pdf={target}", digits.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    content = target.read_bytes()
    assert len(re.findall(rb"/Type /Page\b", content)) >= 8
    strokes = sum(text.count(b" l\n") for text in streams(content))
    assert strokes > 500


def streams(content):
    """Yield what a PDF file holds, unpacked."""
    for found in re.finditer(rb"stream\r?\n(.*?)endstream", content, re.S):
        with suppress(zlib.error):
            yield zlib.decompress(found[1])


def test_hostile_names_stay_text(open_page, digits, tmp_path):
    evil = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'"
    text = digits.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', text, re.S)[1])
    as_text = json.dumps(data)
    for name in ("dac", "90°"):
        as_text = as_text.replace(json.dumps(name), json.dumps(evil))
    hostile = tmp_path / "hostile.html"
    hostile.write_text(make_page(evil, json.loads(as_text)), encoding="utf-8")
    opened = open_page(hostile)
    opened.page.locator("#heatmap .nsewdrag").hover()
    assert opened.page.locator("img").count() == 0
    assert opened.page.title() == evil
    assert evil in opened.page.locator("#curves .legend").inner_text()


def test_newer_data_keep_what_the_reader_chose(open_page, digits):
    opened = open_page(digits)
    chosen = opened.page.locator("#heatmap select").first
    chosen.select_option(label="oracle")
    before = picture(opened, "curves")
    opened.page.evaluate(
        """() => {
             const pageData = JSON.parse(document.getElementById("page-data").textContent);
             const { test, validation } = pageData.groups[0].views.curves.curves;
             for (const series of [...test, ...validation].flat()) {
               series.round.push(20);
               for (const key of ["mean", "low", "high"]) series[key].push(99);
             }
             Coterie.show(pageData);
           }"""
    )
    assert picture(opened, "curves") != before
    assert chosen.evaluate("select => select.selectedOptions[0].textContent") == "oracle"
    assert opened.page.locator("section").count() == 11
