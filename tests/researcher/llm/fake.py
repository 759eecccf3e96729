"""A scripted HTTP endpoint. It rejects parameters that the server of its kind does not know."""

import inspect
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openai.resources.chat.completions import Completions

CLOSE = "close"
OPENAI = frozenset(inspect.signature(Completions.create).parameters) - {"self", "timeout"}
LLAMA_CPP = OPENAI | {"top_k", "min_p", "grammar"}
KNOWN = {
    "openai": OPENAI,
    "reasoning": OPENAI - {"max_tokens", "temperature", "top_p", "logprobs"},
    "vllm": OPENAI | {"top_k", "min_p", "structured_outputs"},
    "llama.cpp": LLAMA_CPP,
    "embedded": LLAMA_CPP,
}
"""Parameters by kind of server; `reasoning`: OpenAI's models of the o-series and from GPT-5 on."""


def completion(text: str = "hello", finish: str = "stop", prompt: int = 10, tokens: int = 5) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice], "usage": usage}


class Fake:
    """Sends `replies` in turn and then repeats the last one: a dict (200), (status, headers, text), CLOSE, or a function of the request that
    gives one of these."""

    def __init__(self, replies: list[Any], kind: str) -> None:
        self.replies, self.kind = replies, kind
        self.requests: list[dict[str, Any]] = []
        fake = self

        class Exchange(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                reply = fake.reply()
                reply = reply(fake.requests[-1]) if callable(reply) else reply
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

    def reply(self) -> Any:
        """The reply to the last request."""
        if unknown := sorted(self.requests[-1].keys() - KNOWN[self.kind]):
            error = {"message": f"Unsupported parameter: {', '.join(unknown)}", "code": "unsupported_parameter"}
            return 400, {}, json.dumps({"error": error})
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def fake_endpoint(*replies: Any, kind: str = "openai") -> Iterator[Fake]:
    fake = Fake(list(replies), kind)
    thread = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        fake.server.shutdown()
        thread.join()
        fake.server.server_close()
