"""When runs were started, and by which command: recorded, read again, and shown on the page."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from commands import coterie
from report_runs import metrics, run, run_group

from coterie.errors import StorageError
from coterie.experiments.provenance import UNKNOWN, Start, command_given, read_start, write_start
from coterie.reports.html.views.run_origin import describe_origin, shorten_paths
from coterie.results.read_runs import read_runs

NOON = datetime(2026, 5, 3, 12, 30, tzinfo=UTC)


def started(label, start, seed=0):
    found = run(label, seed, metrics=metrics(0, [0.5] * 4))
    return replace(found, start=start)


def test_what_is_recorded_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/coterie", "run", "digits", "--set", "a b=1"])
    before = datetime.now(UTC).replace(microsecond=0)
    write_start(tmp_path)
    (tmp_path / "software.json").write_text('{"coterie": "9.9"}')
    found = read_start(tmp_path)
    assert before <= found.at <= datetime.now(UTC)
    assert found.command == ("coterie", "run", "digits", "--set", "a b=1")
    assert found.version == "9.9"


def test_other_programs_leave_no_command(monkeypatch):
    """Their arguments would say nothing, such as those of a notebook."""
    monkeypatch.setattr(sys, "argv", ["/usr/lib/ipykernel_launcher.py", "-f", "kernel-7.json"])
    assert command_given() == ()


def test_older_folders_are_read(tmp_path):
    assert read_start(tmp_path) == UNKNOWN
    [line] = describe_origin(run_group(started("dac", Start(version="0.0.9"))))
    assert line["text"] == (
        "Preset own, run with Coterie 0.0.9; the date and the command were not recorded."
    )
    assert line["command"] is None


DAMAGE = (
    "", "{", "[]", "1", "{}{", "\x00", "[" * 100_000, '{"at": 7}', '{"command": ["x"]}',
    '{"at": "soon", "command": []}', '{"at": "2026-05-03T12:30:00Z", "command": 7}',
    '{"at": "2026-05-03T12:30:00Z", "command": "coterie run"}',
)  # fmt: skip


@pytest.mark.parametrize("text", DAMAGE)
def test_damaged_files_are_refused_in_words(tmp_path, text):
    (tmp_path / "started.json").write_text(text)
    with pytest.raises(StorageError, match=r"started\.json is damaged"):
        read_start(tmp_path)


def test_a_damaged_file_costs_no_run(tmp_path):
    folder = tmp_path / "runs"
    done = coterie(
        "run", "digits", "--strategy", "local", "--peers", 8, "--rounds", 1, "--threads", 1,
        "--out", folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    [whole] = read_runs([folder])
    assert whole.start.command[:3] == ("coterie", "run", "digits")
    (folder / "local-seed0" / "started.json").write_text("{")
    gathered = read_runs([folder])
    assert [each.start for each in gathered] == [UNKNOWN]
    assert "started.json is damaged" in gathered.problems[0]
    versions = json.loads((folder / "local-seed0" / "software.json").read_text())
    assert whole.start.version == versions["coterie"]


def test_the_page_names_date_command_and_version():
    start = Start(NOON, ("coterie", "run", "digits"), "0.1.0")
    assert describe_origin(run_group(started("dac", start), started("dac", start, 1))) == [
        {
            "text": "Preset own, started on 2026-05-03 at 12:30 UTC with Coterie 0.1.0, "
            "by this command:",
            "command": "coterie run digits",
        }
    ]


def test_runs_of_several_commands_are_listed_in_order():
    late = Start(NOON.replace(day=9), ("coterie", "run", "b"), "0.2.0")
    early = Start(NOON, ("coterie", "run", "a"), "0.1.0")
    longer = replace(early, at=NOON.replace(day=5))
    lines = describe_origin(
        run_group(started("x", late), started("y", early), started("z", longer))
    )
    assert [each["command"] for each in lines] == ["coterie run a", "coterie run b"]
    assert "from 2026-05-03 to 2026-05-05" in lines[0]["text"]


def test_runs_from_python_and_very_many_commands():
    [line] = describe_origin(run_group(started("dac", Start(NOON, (), "0.1.0"))))
    assert line["text"].endswith("with Coterie 0.1.0, from Python.")
    many = [started(f"s{n}", Start(NOON, ("coterie", str(n)), "1")) for n in range(7)]
    lines = describe_origin(run_group(*many))
    assert len(lines) == 5
    assert lines[-1] == {"text": "Runs of 3 more commands are not listed.", "command": None}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("--out=/home/me/runs", "--out=.../runs"),
        ("/home/me/secret place/runs/", "'.../runs'"),
        ("C:\\Users\\me\\runs", "'.../runs'"),
        ("~/runs", ".../runs"),
        ("data={root: /home/me/data, x: 1}", "'data={root: .../data, x: 1}'"),
        ("runs/mine", "runs/mine"),
        ("rate=1/2", "rate=1/2"),
        ("-o/home/me/x.html", "-o.../x.html"),
    ],
)
def test_pages_do_not_show_where_files_are(given, shown):
    """A page is for other people."""
    assert shorten_paths(["coterie", given]).removeprefix("coterie ") in (shown, shown.strip("'"))
