"""A stand-in for the API that the program of the Claude Agent SDK calls, on the loopback address.

It calls the tool `Read` for each new input, and answers after the tool's result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

__all__ = ["TOOL", "Server", "scripted_claude"]

TOOL = "Read"


class Server(ThreadingHTTPServer):
    """Keeps the messages of each request in which the tool was offered.

    Args:
        arguments: what the tool is called with.
    """

    daemon_threads = True

    def __init__(self, arguments: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arguments = arguments
        self.requests: list[list[Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)))
        if not self.path.startswith("/v1/messages?") and self.path != "/v1/messages":
            self.send_error(404)
            return
        block: dict[str, Any] = {"type": "text", "text": "A title"}
        if any(tool.get("name") == TOOL for tool in asked.get("tools", [])):
            self.server.requests.append(asked["messages"])
            if not _has_result(asked["messages"][-1]):
                called = {"name": TOOL, "input": self.server.arguments}
                block = {"type": "tool_use", "id": f"toolu_{uuid4()}", **called}
            else:
                block["text"] = "It rains."
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in _events(block):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _has_result(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(one.get("type") == "tool_result" for one in content)


def _events(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{uuid4()}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    called = block["type"] == "tool_use"
    empty = {**block, "input": {}} if called else {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if called
        else {"type": "text_delta", "text": block["text"]}
    )
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": usage}
    yield {"type": "message_stop"}


@contextmanager
def scripted_claude(arguments: dict[str, str]) -> Iterator[Server]:
    """Run the server in a thread."""
    with Server(arguments) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
