"""The page around the figures: nothing hostile gets out of the data, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources

import pytest
from report_runs import metrics, run

from coterie.reports.html.page_data import build_page_data, make_titles
from coterie.reports.html.page_shell import COMPONENTS, read_static, render_page
from coterie.reports.html.run_groups import group_runs
from coterie.results.read_runs import Runs

HOSTILE = "</script><script>alert(1)</script><!--\u2028&amp;<img src=x onerror=alert(2)>"


def made(title="title", data=None, **more):
    return render_page(title, data or {"groups": []}, **more)


def test_the_data_cannot_close_their_element():
    data = {"groups": [{"title": HOSTILE}]}
    text = made(HOSTILE, data)
    assert HOSTILE not in text
    inside = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', text, re.S)
    assert "<" not in inside[1]
    assert "\u2028" not in inside[1]
    assert json.loads(inside[1]) == data
    assert html.escape(HOSTILE) in text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")


def test_only_the_scripts_whose_hashes_are_named_may_run():
    text = made()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    policy = html.unescape(policy)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    hashes = re.findall(r"'sha256-([^']*)'", policy)
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    assert hashes == [base64.b64encode(digest).decode() for digest in digests]
    assert len(hashes) > len(COMPONENTS)
    assert policy.startswith("default-src 'none'")
    assert "connect-src 'none'" in policy
    assert "http" not in policy


def test_a_live_page_may_ask_its_own_server_and_has_no_data():
    text = render_page("live", None, more_scripts=["let live = 1;"], connect="'self'")
    assert "connect-src &#39;self&#39;" in text
    assert 'id="page-data"' not in text
    assert "<script>let live = 1;</script>" in text


def test_every_view_has_a_component_and_every_script_is_used():
    files = {each.name for each in (resources.files("coterie.reports.html") / "static").iterdir()}
    text = made()
    for name in files - {"style.css"}:
        assert read_static(name) in text
    for name in COMPONENTS:
        assert f'Coterie.component("{name}"' in read_static(f"{name}.js")


def test_our_files_ask_for_nothing_from_elsewhere():
    for each in (resources.files("coterie.reports.html") / "static").iterdir():
        text = each.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in ("http:", "https:", "@import", "fetch(", "innerHTML", "eval(", "new Function"):
            assert word not in text, f"{each.name} contains {word}"


@pytest.mark.parametrize(
    ("names", "title"), [("abcde", "own: a, b, c, d, e"), ("abcdef", "own: a, b, c, d, 2 more")]
)
def test_a_title_names_few_strategies(names, title):
    runs = tuple(run(name, metrics=metrics(0, [0.5] * 4)) for name in names)
    assert make_titles(group_runs(Runs(runs, ()))) == [title]


def test_runs_on_other_data_form_another_group():
    rows = metrics(0, [0.5] * 4)
    other = metrics(0, [0.5] * 6, clusters=(0, 0, 0, 1, 1, 1))
    runs = (run("dac", metrics=rows), run("random", metrics=other, num_peers=6))
    data = build_page_data(Runs(runs, ("something is wrong",)))
    first, second = data["groups"]
    assert (first["title"], second["title"]) == ("own: dac", "own: random")
    assert "something is wrong" in first["views"]["summary"]["problems"]
    assert "something is wrong" not in second["views"]["summary"]["problems"]
    assert set(first["views"]) == set(COMPONENTS)
