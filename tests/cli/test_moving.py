"""Export to JSON Lines or to a page, and import."""

from __future__ import annotations

import json
import os
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jazzmine.cli.places import Messages
from jazzmine.sync import Conversation, Message, MessageRole, MessageStore
from tests.cli.conftest import ESCAPES
from tests.cli.program import all_records, objects, run, run_program

# Round trips


def test_what_was_exported_is_imported_in_the_same_order(url: str, tmp_path: Path) -> None:
    exported = run("export", "--store", url)
    target = f"json:{tmp_path / 'copy.json'}"
    imported = run("import", "--store", target, stdin=exported.output)
    assert (exported.status, imported.status) == (0, 0)
    assert all_records(target) == all_records(url)
    assert run("export", "--store", target).output == exported.output


def test_one_conversation_alone_is_exported(url: str, tmp_path: Path) -> None:
    target = f"json:{tmp_path / 'one.json'}"
    run("import", "--store", target, stdin=run("export", "c2", "--store", url).output)
    found = all_records(target)
    assert [len(found[kind]) for kind in Messages.kinds] == [1, 1, 1]
    assert found["messages"][0].conversation_id == "c2"


def test_one_user_alone_is_exported(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'all.db'}"
    with MessageStore.initialize(url) as store:
        for number in range(6):
            owner = "ada" if number % 2 else "bob"
            chat = Conversation(id=f"c{number}", user_id=owner, agent_id="a", created_at=1)
            store.store_conversation(chat)
            message = Message(
                id=f"m{number}",
                role=MessageRole.USER,
                original_content="",
                conversation_id=chat.id,
                user_id=owner,
            )
            store.store_message(message)

    lines = objects(run("export", "--user", "ada", "--store", url).output)

    exported = [(kind, record["id"]) for line in lines[:-1] for kind, record in line.items()]
    ids = [("conversation", f"c{n}") for n in (1, 3, 5)] + [("message", f"m{n}") for n in (1, 3, 5)]
    assert exported == ids
    assert run("export", "c1", "--user", "ada", "--store", url).status == 2


def test_each_line_names_its_kind_and_the_last_one_counts_them(url: str) -> None:
    lines = objects(run("export", "--store", url).output)
    assert [next(iter(line)) for line in lines] == [
        *["conversation"] * 3, *["message"] * 5, *["trace"] * 3, "end"
    ]  # fmt: skip
    assert lines[-1] == {"end": {"conversations": 3, "messages": 5, "traces": 3}}


# Refusals


@pytest.mark.parametrize("option", ["--html", "--output"])
@pytest.mark.parametrize(
    ("place", "reason"),
    [("nodir/page", "No such file or directory"), ("", "Is a directory"),
     ("/dev/full", "No space left on device")],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_named_and_is_not_the_store(
    option: str, place: str, reason: str, url: str, tmp_path: Path
) -> None:
    target = tmp_path / place
    before = sorted(tmp_path.iterdir())
    ran = run("export", "c1", option, str(target), "--store", url)
    assert ran.status == 1
    assert reason in ran.errors
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "reason"), [("none", "No such file or directory"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_imported_is_named_and_is_not_the_store(
    name: str, reason: str, tmp_path: Path
) -> None:
    ran = run("import", str(tmp_path / name), "--store", f"json:{tmp_path / 'new.json'}")
    assert ran.status == 1
    assert reason in ran.errors
    assert str(tmp_path / name) in ran.errors
    assert os.listdir(tmp_path) == []


def test_a_file_that_was_cut_off_is_noticed(url: str, tmp_path: Path) -> None:
    lines = run("export", "--store", url).output.splitlines(keepends=True)
    target = f"json:{tmp_path / 'copy.json'}"
    without_end = run("import", "--store", target, stdin="".join(lines[:-1]))
    without_one = run("import", "--store", target, stdin="".join(lines[:-2] + lines[-1:]))
    assert (without_end.status, without_one.status) == (1, 1)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '"text"', '{"other": {}}', '{"message": {}}', '{"message": 1}', '{"a": 1, "b": 2}',
     '{"message": {"id": "m", "conversation_id": "c", "user_id": "u", "role": "user",'
     ' "original_content": "x"}}', '{"end": 5}', '{"end": {"messages": "1"}}',
     '{"message": ' + "[" * 100_000],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: str) -> None:
    ran = run("import", "--store", f"json:{tmp_path / 'new.json'}", stdin=f"\n{line}\n")
    assert ran.status == 1
    assert "line 2" in ran.errors


def test_a_file_in_another_encoding_comes_with_what_to_do(url: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text(run("export", "--store", url).output, encoding="utf-16")
    ran = run("import", str(file), "--store", f"json:{tmp_path / 'new.json'}")
    assert ran.status == 1
    assert "line 1 is not UTF-8" in ran.errors
    assert "-o FILE" in ran.errors


def test_a_record_that_is_refused_is_told_by_its_fields_alone(tmp_path: Path) -> None:
    lines = '{"conversation": {"id": ["sesame"], "user_id": "u1", "agent_id": "a1"}}\n'
    ran = run("import", "--store", f"json:{tmp_path / 'new.json'}", stdin=lines)
    reason = "line 1: Conversation: id: Input should be a valid string"
    assert (ran.status, ran.errors) == (1, f"jazzmine: {reason}\n")


# Files


def test_an_exported_file_is_private_and_complete_or_absent(url: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    run("export", "--store", url, "-o", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("export", "unknown", "--store", url, "-o", str(tmp_path / "none")).status == 1
    assert {one.partition(".lock")[0] for one in os.listdir(tmp_path)} == {
        "all.jsonl",
        "messages.json",
    }


def test_an_export_in_any_locale_is_utf_8(url: str) -> None:
    ran = run_program("export", "--store", url, LC_ALL="C", PYTHONIOENCODING="latin-1")
    assert "Müsli" in ran.output
    assert ran.status == 0


# Pages


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_holds_the_conversation_and_escapes_it(url: str, tmp_path: Path) -> None:
    file = tmp_path / "talk.html"
    assert run("export", "c1", "--html", str(file), "--store", url).status == 0
    page = Page(file.read_text(encoding="utf-8"))
    assert "<script>alert('&')</script>" in page.text
    assert "an answer" in page.text
    assert "it failed" in page.text
    assert "script" not in page.tags
    assert not set(file.read_text(encoding="utf-8")) & set(ESCAPES).intersection(
        "\x1b\x07\x9b\u202e"
    )


def test_hostile_texts_stay_text_in_a_page(tmp_path: Path) -> None:
    from tests.behaviour.samples import conversation, full_message, full_trace, message

    hostile = "\"'></title></pre><script>x</script><img src=x onerror=y><!--"
    url = f"json:{tmp_path / 'messages.json'}"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation(hostile, user_id=hostile, title=hostile))
        told = full_message(hostile, hostile, conversation_id=hostile, is_flagged=False)
        store.store_messages([told, message("m", conversation_id=hostile)])
        store.store_turn_trace(full_trace(hostile, hostile, id=hostile, conversation_id=hostile))
    file = tmp_path / "talk.html"
    assert run("export", hostile, "--html", str(file), "--store", url).status == 0
    page = Page(file.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img"}
    assert page.text.count(hostile) > 10


def test_a_page_of_everything_is_a_wrong_usage(url: str, tmp_path: Path) -> None:
    assert run("export", "--html", str(tmp_path / "x.html"), "--store", url).status == 2
    assert json.loads(run("export", "--store", url).output.splitlines()[-1])["end"]
