"""A scripted model on 127.0.0.1, whatever its dialect: the test reads every request and gives every answer.

A dialect says which requests are turns of the conversation and writes the answers; see `Chat` here, and the
other clients' own. The rest (titles, model lists) gets a harmless answer.
"""

import http.server
import json
import queue
import threading

from kit import Broken

LIMIT = 60  # seconds until the client's next request


class Scripted(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.answers = queue.Queue(), queue.Queue()
        self.count, self.over = 0, False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A client that was killed leaves its connections; that is no news."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def asked(self, limit=LIMIT):
        """What the model is asked next: the body of the request."""
        try:
            return self.requests.get(timeout=limit)
        except queue.Empty:
            raise Broken(f"the client sent no request within {limit} s") from None

    def run(self, command, **more):
        """Has the client run a command, and gives the request that brings its result."""
        self.tell_to_run(command, **more)
        return self.asked()

    def tell_to_run(self, command, **more):
        self.answers.put({"command": command, "more": more})

    def say(self, text):
        self.answers.put({"text": text})

    def close(self):
        self.over = True
        self.shutdown()
        self.server_close()

    def next_answer(self, body):
        if self.over:
            return {"text": "done"}
        self.requests.put(body)
        self.count += 1
        return self.answers.get()

    # What a dialect must know.

    def is_turn(self, path, body):
        raise NotImplementedError

    def write(self, handler, body, answer):
        raise NotImplementedError

    def texts(self, body):
        raise NotImplementedError

    def stub(self, handler, path, body):
        handler.reply_json({})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, kind, data):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def reply_json(self, value):
        self.reply("application/json", json.dumps(value).encode())

    def reply_events(self, events):
        """Server-sent events: pairs of a name (or None) and a value (or text)."""
        lines = []
        for name, value in events:
            if name:
                lines.append(f"event: {name}\n")
            lines.append(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n")
        self.reply("text/event-stream", "".join(lines).encode())

    def do_GET(self):
        self.server.stub(self, self.path.split("?")[0], {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.split("?")[0]
        if not self.server.is_turn(path, body):
            return self.server.stub(self, path, body)
        try:
            return self.server.write(self, body, self.server.next_answer(body))
        except (BrokenPipeError, ConnectionResetError):
            return None


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


class Chat(Scripted):
    """OpenAI's chat completions, as OpenCode's compatible provider speaks them."""

    def is_turn(self, path, body):
        names = [tool.get("function", {}).get("name") for tool in body.get("tools") or []]
        return path.endswith("/chat/completions") and "bash" in names

    def texts(self, body):
        wanted = [message for message in body["messages"] if message["role"] in ("user", "tool")]
        return [text_of(message.get("content")) for message in wanted]

    def stub(self, handler, path, body):
        if path.endswith("/chat/completions"):
            return self.write(handler, body, {"text": "a title"})
        return handler.reply_json({})

    def write(self, handler, body, answer):
        text, calls = answer.get("text"), []
        if "command" in answer:
            arguments = {"command": answer["command"], "description": "a step of the test", **answer["more"]}
            calls = [{"index": 0, "id": f"call_{self.count}", "type": "function",
                      "function": {"name": "bash", "arguments": json.dumps(arguments)}}]
        finish = "tool_calls" if calls else "stop"
        base = {"id": f"chat-{self.count}", "created": 1, "model": body.get("model", "m")}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
            choice = {"index": 0, "finish_reason": finish, "message": message}
            return handler.reply_json({**base, "object": "chat.completion", "usage": usage, "choices": [choice]})

        def chunk(delta, end=None):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            return None, {**base, "object": "chat.completion.chunk", "choices": [choice]}

        first = {"role": "assistant", **({"content": text} if text else {})}
        events = [chunk(first)] + ([chunk({"tool_calls": calls})] if calls else []) + [chunk({}, finish)]
        events += [(None, {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}), (None, "[DONE]")]
        return handler.reply_events(events)
