"""What the inspector refuses, and what each response forbids to the browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.inspector.conftest import Site

PATHS = ("/", "/conversation?id=c1", "/turn?message=m2", "/turns", "/usage?by=all", "/memory?id=c1")


@pytest.mark.parametrize("path", [*PATHS, "/conversation/new?id=c1", "/nowhere"])
async def test_nothing_is_shown_without_the_token(site: Site, path: str) -> None:
    answer = await site.stranger.get(path)
    assert answer.status_code == 403
    assert "jazzmine inspect" in answer.text
    assert "u1" not in answer.text


@pytest.mark.parametrize("token", ["", "x", "ä", "x" * 43])
async def test_a_wrong_token_is_refused(site: Site, token: str) -> None:
    answer = await site.stranger.get("/", params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_the_token_becomes_a_cookie_and_leaves_the_address(site: Site) -> None:
    answer = await site.stranger.get(
        "/conversation", params={"id": "c/3 ?&#%", "token": site.access.token}
    )
    assert answer.status_code == 303
    assert answer.headers["location"] == "./conversation?id=c%2F3+%3F%26%23%25"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert site.access.token.lower() not in cookie
    assert (await site.stranger.get(answer.headers["location"])).status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example"])
async def test_the_redirect_stays_on_this_host(site: Site, path: str) -> None:
    url = f"http://127.0.0.1{path}?token={site.access.token}"
    location = (await site.stranger.get(url)).headers["location"]
    assert re.fullmatch(r"\./[^/\\]*", location)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
@pytest.mark.parametrize("path", [*PATHS, "/static/inspector.css"])
async def test_no_method_but_reading_is_accepted(site: Site, method: str, path: str) -> None:
    assert (await site.client.request(method, path)).status_code == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"]
)
@pytest.mark.parametrize("path", ["/", "/static/inspector.css"])
async def test_another_host_name_is_refused(site: Site, host: str, path: str) -> None:
    answer = await site.client.get(path, headers={"host": host})
    assert answer.status_code == 400
    assert "c1" not in answer.text


@pytest.mark.parametrize("path", [*PATHS, "/nowhere", "/static/inspector.css", "/?token=x"])
async def test_each_response_forbids_scripts_frames_and_caching(site: Site, path: str) -> None:
    headers = (await site.client.get(path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("part", [False, True])
async def test_stored_text_is_no_markup(site: Site, path: str, part: bool) -> None:
    answer = await site.client.get(path, headers={"HX-Request": "true"} if part else {})
    found = Elements(answer.text)
    assert "alert(" in answer.text
    assert found.wrong == []
    for mark in ("\x00", "\x1b", "\u202e"):
        assert mark not in answer.text


class Elements(HTMLParser):
    """Finds what the templates never have: code, styles, pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("style", "img", "iframe", "object") or (tag == "script" and not given["src"]):
            self.wrong.append(tag)
        for name, value in given.items():
            if name == "style" or name.startswith("on") or "hx-on" in name:
                self.wrong.append(name)
            if name in ("href", "src", "action", "data-hx-get") and not str(value).startswith(
                ("./", "#")  # relative, also behind a proxy that serves it below a path
            ):
                self.wrong.append(f"{name}={value}")


async def test_a_parameter_is_escaped_where_it_is_shown_again(site: Site) -> None:
    for name in ("user", "agent", "id"):
        text = await site.text("/", **{name: '"><script>alert(1)</script>'})
        assert "<script>alert" not in text
    assert "<script>alert" not in await site.text("/usage", agent='"><script>alert(1)</script>')
    text = await site.text("/conversation", 404, id="<script>alert(1)</script>")
    assert "<script>alert" not in text
