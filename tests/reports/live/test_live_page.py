"""The live page: what it serves to which hosts, and how updates reach viewers."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from coterie.reports.html.page_data import VIEWS
from coterie.reports.live import page_updates
from coterie.reports.live.broadcaster import END, UPDATE, Broadcaster
from coterie.reports.live.page_updates import PageUpdates
from coterie.reports.live.run_follower import RunFollower
from coterie.reports.live.web_app import make_app


def broadcaster_of(folder) -> Broadcaster:
    return Broadcaster(PageUpdates(RunFollower(folder)))


class Client:
    """Asks the application without a network in between."""

    def __init__(self, broadcaster: Broadcaster) -> None:
        self._way = httpx.ASGITransport(make_app(broadcaster))

    def request(self, method: str, path: str, **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._way, base_url="http://127.0.0.1:8000"
            ) as asking:
                return await asking.request(method, path, headers=headers)

        return asyncio.run(ask())

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.request("GET", path, **headers)


@pytest.fixture
def client(runs) -> Client:
    return Client(broadcaster_of(runs))


def test_the_page_holds_everything_and_may_load_nothing(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "EventSource" in answer.text
    policy = answer.text.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src &#39;none&#39;" in policy
    assert "connect-src &#39;self&#39;" in policy
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
)
@pytest.mark.parametrize("page", ["/", "/events"])
def test_other_names_for_this_computer_are_refused(client, host, page):
    """A page elsewhere makes its own name lead to 127.0.0.1 and asks (DNS rebinding)."""
    assert client.get(page, host=host).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1:5", "localhost:5", "localhost"])
def test_this_computer_by_its_own_names(client, host):
    assert client.get("/", host=host).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/config.yaml", "/../../etc/passwd"])
def test_there_is_nothing_else(client, path):
    assert client.get(path).status_code == 404


def test_requests_change_nothing(client):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/").status_code == 405


async def first_events(broadcaster: Broadcaster, count: int) -> list[tuple[str, dict]]:
    """Return the first events of a new viewer."""
    found = []
    async for kind, data in broadcaster.events():
        assert "\n" not in data
        found.append((kind, json.loads(data)))
        if len(found) == count:
            break
    return found


def test_a_viewer_gets_all_parts_at_first(runs):
    ((kind, data),) = asyncio.run(first_events(broadcaster_of(runs), 1))
    assert kind == UPDATE
    assert data["names"] == list(data["parts"])
    assert data["parts"]["progress"]["text"] == "28 of 28 rounds (100%), 4 of 4 runs done, finished"
    assert data["parts"]["groups"] == ["digits: local, random"]
    assert {name for name in data["names"] if "/" in name} == {f"0/{name}" for name in VIEWS}


def test_a_folder_that_is_not_there_is_waited_for(tmp_path):
    ((_, data),) = asyncio.run(first_events(broadcaster_of(tmp_path / "later"), 1))
    assert data["names"] == ["progress", "groups"]
    assert data["parts"]["progress"]["text"].startswith("Waiting for ")


def test_hostile_names_stay_text(runs):
    """Names come from folders and files; JSON carries them, and nothing else is made of them."""
    name = '</script><img src=x onerror="alert(1)">\n\ndata: {}'
    for summary in runs.glob("*/summary.json"):
        content = json.loads(summary.read_text())
        summary.write_text(json.dumps({**content, "cluster_names": [name] * 4}))
    ((_, data),) = asyncio.run(first_events(broadcaster_of(runs), 1))
    assert data["parts"]["0/curves"]["clusters"][0]["name"] == name


def test_later_only_what_changed_is_sent(runs, monkeypatch):
    """A run whose summary is missing goes on; when it comes, its settings are not sent again."""
    monkeypatch.setattr("coterie.reports.live.broadcaster.READ_SECONDS", 0.01)
    summary = runs / "random-seed1" / "summary.json"
    kept = summary.read_text()
    summary.unlink()

    async def watch() -> tuple[dict, dict]:
        broadcaster = broadcaster_of(runs)
        viewer = broadcaster.events()
        _, first = await anext(viewer)
        summary.write_text(kept)
        _, second = await anext(viewer)
        return json.loads(first), json.loads(second)

    first, second = asyncio.run(watch())
    assert first["parts"]["progress"]["done"] == 28
    assert "progress" in second["parts"]
    assert "0/settings" not in second["parts"]
    assert second["names"] == first["names"]


def test_many_viewers_cost_one_reader(runs, monkeypatch):
    looks = []
    real = PageUpdates.collect

    def look(self, **options):
        looks.append(1)
        return real(self, **options)

    monkeypatch.setattr(PageUpdates, "collect", look)

    async def watch() -> list[list[tuple[str, dict]]]:
        broadcaster = broadcaster_of(runs)
        return await asyncio.gather(*(first_events(broadcaster, 1) for _ in range(5)))

    assert len({json.dumps(each) for each in asyncio.run(watch())}) == 1
    assert len(looks) == 1


def test_the_end_comes_with_the_last_news(runs, monkeypatch):
    """Expensive views are updated less often, but the last update is complete."""
    monkeypatch.setattr(page_updates, "VIEW_SHARE", 1e-12)
    monkeypatch.setattr(page_updates, "READ_SHARE", 1e-12)
    summary = runs / "random-seed1" / "summary.json"
    kept = summary.read_text()
    summary.unlink()

    async def watch() -> list[tuple[str, dict]]:
        broadcaster = broadcaster_of(runs)
        found = []
        async for kind, data in broadcaster.events():
            found.append((kind, json.loads(data)))
            if len(found) == 1:
                summary.write_text(kept)
                await broadcaster.finish()
        return found

    found = asyncio.run(watch())
    assert [kind for kind, _ in found] == [UPDATE, UPDATE, END]
    assert found[1][1]["parts"]["progress"]["text"].endswith("finished")
    assert "0/summary" in found[1][1]["parts"]


def test_expensive_views_are_updated_less_often(runs, monkeypatch):
    """Each view has a share of the processor; above it, the page shows its last data."""
    (runs / "random-seed1" / "summary.json").unlink()
    updates = PageUpdates(RunFollower(runs))
    made: list[str] = []

    def view(group):
        made.append("made")
        return {"number": len(made)}

    monkeypatch.setattr(page_updates, "VIEWS", {"expensive": view})
    monkeypatch.setattr(page_updates, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(page_updates, "VIEW_SHARE", 1e-12)
    stamps = runs / "random-seed0" / "summary.json"
    for number in range(1, 5):
        stamps.touch()
        stamps.write_text(stamps.read_text() + " ")
        updates.collect()
        updates._due = 0.0
        assert len(made) == min(number, 2)


def test_the_end_is_sent_at_once_even_if_reading_is_expensive(runs, monkeypatch):
    monkeypatch.setattr(page_updates, "READ_SHARE", 1e-12)
    monkeypatch.setattr(page_updates, "FIRST_SECONDS", 1e9)
    summary = runs / "random-seed1" / "summary.json"
    kept = summary.read_text()
    summary.unlink()
    updates = PageUpdates(RunFollower(runs))
    assert updates.collect() is not None
    assert updates.collect() is None
    summary.write_text(kept)
    parts = updates.collect()
    assert json.loads(parts["progress"])["text"].endswith("finished")
    assert updates.collect() is None


def test_a_view_that_fails_does_not_end_the_watching(runs, monkeypatch, caplog):
    def broken(group):
        raise ZeroDivisionError

    monkeypatch.setattr(page_updates, "VIEWS", {"broken": broken})
    broadcaster = broadcaster_of(runs)

    async def watch() -> list[tuple[str, str]]:
        found = []

        async def view() -> None:
            async for event in broadcaster.events():
                found.append(event)

        viewer = asyncio.create_task(view())
        await asyncio.sleep(0.5)
        await broadcaster.finish()
        await viewer
        return found

    assert asyncio.run(watch()) == [(END, "{}")]
    assert "ZeroDivisionError" in caplog.text
