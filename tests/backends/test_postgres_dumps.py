"""What pg_dump writes is a store where it is restored, also one of version 1.2."""

from __future__ import annotations

import lzma
import threading
from pathlib import Path

from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.behaviour.samples import NOW, conversation, ids, message, trace
from tests.servers import postgres

OLD = Path(__file__).with_name("postgres_1_2.sql.xz")


def restore(dump: str, dsn: str) -> None:
    postgres.run_program("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, input=dump)


def test_a_dump_of_a_store_in_use_goes_on_where_it_is_restored() -> None:
    schema = "agents"
    is_dumped = threading.Event()
    with postgres.new_database() as source, postgres.new_database() as target:
        config = {"storage": "postgres", "schema": schema, "search": True}
        with MessageStore.initialize({**config, "dsn": source}) as store:
            store.store_conversation(conversation())

            def write() -> None:
                number = 0
                while number < 50 or not is_dumped.is_set():
                    said = message(f"m{number}", original_content=f"tea {number}", timestamp=NOW)
                    made = trace(said.id, id=f"t{number}", turn_number=number)
                    store.append_messages("c1", [said], trace=made)
                    number += 1

            writer = threading.Thread(target=write)
            writer.start()
            while store.count_messages(["c1"])["c1"] < 10:
                pass
            try:
                dump = postgres.run_program("pg_dump", f"--schema={schema}", "-d", source)
            finally:
                is_dumped.set()
                writer.join()

        restore(dump, target)
        with MessageStore.initialize({**config, "dsn": target}) as copy:
            kept = ids(copy.get_messages_by_conversation_id("c1"))
            assert kept == [f"m{number}" for number in range(len(kept))]
            assert len(kept) >= 10
            traces = copy.get_turn_traces_by_conversation_id("c1")
            assert [one.message_id for one in traces] == kept
            assert copy.search_messages(f"tea {len(kept) - 1}", limit=1)[0].message.id == kept[-1]

            copy.append_messages("c1", [message("new", timestamp=NOW)], expected_last=kept[-1])
            assert copy.pop_message("c1") is not None
            assert copy.erase_user("u1").messages == len(kept)


def test_a_dump_of_version_1_2_is_brought_up_to_date_with_all_that_is_in_it() -> None:
    with postgres.new_database() as dsn:
        restore(lzma.decompress(OLD.read_bytes()).decode(), dsn)
        with postgres.connect(dsn) as admin:  # it has expired since the dump was made
            later = "UPDATE agents.working_memory SET expires_at = now() + interval '1 hour'"
            admin.execute(later)
        config = {"storage": "postgres", "schema": "agents", "dsn": dsn}
        with MessageStore.initialize({**config, "search": True}) as store:
            found = store.get_conversation_by_id("c1")
            assert found is not None
            assert found.title == "Größe"
            assert found.metadata == {"x": -0.0, "y": 1e16, "\ud7ff": "a\0b"}
            stored = store.get_messages_by_conversation_id("c1")
            assert ids(stored) == [f"m{number}" for number in range(7)]
            assert [one.original_content for one in stored] == [
                *(f"tea \0 number {number}" for number in range(6)),
                "last cup of tea",
            ]
            assert [one.id for one in stored if one.is_flagged] == ["m3"]
            (made,) = store.get_turn_traces_by_conversation_id("c1")
            assert (made.id, made.llm_calls[0].total_tokens) == ("t1", 7)
            assert {one.message.id for one in store.search_messages("tea")} == set(ids(stored))

            store.append_messages("c1", [message("m7")], expected_last="m6")
            assert store.flag_message("m7")
        with WorkingMemoryStore.initialize(config) as memory:
            known = memory.get("c1")
            assert known is not None
            assert known.user_id == "u1"
        with LongTermMemoryStore.initialize(config) as items:
            item = items.get(("n",), "k")
            assert item is not None
            assert (item.value, item.data, item.user_id) == ({"likes": "tea"}, b"\0\1", "u1")
        with postgres.connect(dsn) as admin:
            query = "SELECT count(*) FROM pg_class WHERE relname LIKE '%lease%'"
            assert admin.execute(query).fetchone() == (0,)
