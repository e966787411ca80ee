"""What pg_dump writes is a store where it is restored."""

from __future__ import annotations

import threading

from jazzmine.sync import MessageStore
from tests.behaviour.samples import NOW, conversation, ids, message, trace
from tests.servers import postgres


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

        postgres.run_program("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", target, input=dump)
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
