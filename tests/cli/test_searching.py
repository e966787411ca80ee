"""The commands that find messages by their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import objects, run


def test_a_store_gets_an_index_and_is_searched(url: str) -> None:
    refused = run("search", "answers", "--store", url)
    assert refused.status == 1
    assert "`jazzmine index` adds it" in refused.errors

    indexed = run("index", "--language", "english", "--store", url)
    assert indexed.status == 0, indexed.errors
    assert "with the stems of english" in indexed.output
    assert run("index", "--store", url).status == 0

    ran = run("search", "answers", "--store", url)
    assert "an answer" in ran.output
    assert ran.status == 0
    [found] = objects(run("search", "hello", "there", "--newest", "--json", "--store", url).output)
    assert found["message"]["id"] == "z"
    assert found["spans"][0] == [0, 5]
    assert run("search", "hello", "--user", "nobody", "--store", url).status == 1
    assert run("search", "hello", "--user", "nobody", "--json", "--store", url).status == 1


def test_an_index_is_removed(url: str) -> None:
    assert run("index", "--language", "none", "--store", url).status == 0

    assert run("index", "--off", "--store", url).status == 0

    assert run("search", "hello", "--store", url).status == 1


@pytest.mark.parametrize("options", [["--language", "klingon"], ["--off", "--language", "english"]])
def test_a_wrong_option_changes_nothing(url: str, options: list[str]) -> None:
    assert run("index", *options, "--store", url).status in (1, 2)
    assert "has no search" in run("search", "hello", "--store", url).errors


def test_a_copy_and_an_import_are_indexed_by_their_target(url: str, tmp_path: Path) -> None:
    run("index", "--language", "english", "--store", url)
    exported = tmp_path / "exported.jsonl"
    exported.write_text(run("export", "--store", url).output, encoding="utf-8")
    copy, imported, plain = (
        f"sqlite:{tmp_path / name}.db" for name in ("copy", "imported", "plain")
    )

    assert run("copy", url, f"{copy}?search=english").status == 0
    assert run("import", str(exported), "--store", f"{imported}?search=english").status == 0
    assert run("copy", url, plain).status == 0

    found = run("search", "answers", "--json", "--store", url).output
    assert found
    for target in (copy, imported):
        assert run("search", "answers", "--json", "--store", target).output == found
    assert "entry" not in exported.read_text(encoding="utf-8")
    assert "has no search" in run("search", "answers", "--store", plain).errors
