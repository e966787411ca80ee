"""The project's own tests, which use a temporary file: `manage.py test`."""

from __future__ import annotations

import json
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, override_settings

from chat import stores


class ChatTests(SimpleTestCase):
    """Each test has empty stores."""

    def setUp(self) -> None:
        """Set stores of this test in the settings."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        url = f"json:{Path(folder.name) / 'messages.json'}"
        own = override_settings(JAZZMINE={"message_store": url, "working_memory": "memory:"})
        own.enable()
        self.addCleanup(own.disable)
        stores.close()
        self.addCleanup(stores.close)

    def say(self, text: str, **more: str) -> Any:
        """Send a message with Django's test client."""
        body = {"user_id": "ada", "text": text, **more}
        return self.client.post("/conversations/c1/messages", body, "application/json")

    def read(self, user: str, **options: str) -> Any:
        """Read the conversation as a user."""
        return self.client.get("/conversations/c1/messages", {"user_id": user, **options})

    def test_it_is_the_tea_that_was_mentioned(self) -> None:
        """Two turns, the second of which needs the first."""
        self.say("How much is assam?")
        self.assertEqual(
            self.say("And what does it cost by the pound?").json(),
            {"reply": "A tin of assam is 9.00."},
        )

    def test_a_page_follows_another(self) -> None:
        """Paging through a conversation."""
        self.say("Hello", id="m1")
        rest = self.read("ada", after="c1/m1").json()
        self.assertEqual([each["id"] for each in rest], ["c1/m1/reply"])

    def test_odd_requests_are_refused(self) -> None:
        """Each gets the right status."""
        self.say("Hello")
        self.assertEqual(self.say("").status_code, 422)
        self.assertEqual(self.say("Hello", user_id="eve").status_code, 403)
        self.assertEqual(self.read("ada", after="nobody").status_code, 404)
        self.assertEqual(self.read("").status_code, 422)
        self.assertEqual(self.read("eve").json(), [])

    def test_a_conversation_is_exported_line_by_line(self) -> None:
        """The conversation first, then its messages."""
        self.say("Hello")
        out = StringIO()
        call_command("export_conversation", "c1", stdout=out)
        conversation, *messages = [json.loads(line) for line in out.getvalue().splitlines()]
        self.assertEqual(conversation["id"], "c1")
        self.assertEqual([each["role"] for each in messages], ["user", "assistant"])

    def test_an_unknown_conversation_is_not_exported(self) -> None:
        """The command fails with an error."""
        with self.assertRaisesMessage(CommandError, "there is no conversation 'c2'"):
            call_command("export_conversation", "c2")
