"""An endpoint that answers as a test says, to see what the client makes of it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CLOSE = "close"


def completion(text: str = "hello", finish: str = "stop", prompt: int = 10, tokens: int = 5) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice], "usage": usage}


class Fake:
    """`replies` are given in turn, the last one for ever: a dict (200), (status, headers, text), or CLOSE."""

    def __init__(self, replies: list[Any]) -> None:
        self.replies = replies
        self.requests: list[dict[str, Any]] = []
        fake = self

        class Exchange(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                reply = fake.replies.pop(0) if len(fake.replies) > 1 else fake.replies[0]
                if reply == CLOSE:
                    self.close_connection = True
                    return
                status, headers, text = (200, {}, json.dumps(reply)) if isinstance(reply, dict) else reply
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": len(text), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def fake_endpoint(*replies: Any) -> Iterator[Fake]:
    fake = Fake(list(replies))
    thread = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        fake.server.shutdown()
        thread.join()
        fake.server.server_close()
