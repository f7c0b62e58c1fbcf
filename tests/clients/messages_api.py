"""A scripted model that speaks Anthropic's Messages API on 127.0.0.1."""

import http.server
import json
import queue
import threading
import time


class Model(http.server.ThreadingHTTPServer):
    """Answers the Messages API with what `answers` holds. Only requests that offer the Bash tool are turns
    of the conversation; the client's others (titles, token counts, ...) get a harmless answer."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.answers = queue.Queue(), queue.Queue()
        self.awaited = None  # id of the tool call whose result the next turn must bring
        self.over = False
        self.whole = False  # whether the test wants every request as it came, not a tool's result
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, body):
        if not any(tool.get("name") == "Bash" for tool in body.get("tools") or []):
            return [{"type": "text", "text": "{}"}]
        with self.lock:
            result = None if self.awaited is None else find_result(body, self.awaited)
            if self.over or (self.awaited is not None and result is None):
                return [{"type": "text", "text": "done"}]
            self.requests.put(body if self.whole else result)
            return self.answers.get()


def find_result(body, call):
    """(text, is_error) of a tool call, from the conversation so far."""
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        for block in blocks:
            if block.get("type") == "tool_result" and block.get("tool_use_id") == call:
                content = block.get("content") or ""
                if isinstance(content, list):
                    content = "\n".join(part.get("text", "") for part in content)
                return content, bool(block.get("is_error"))
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, kind, data):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self):
        self.reply("application/json", b"")

    def do_GET(self):
        self.reply("application/json", b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if not self.path.split("?")[0].endswith("/messages"):
            return self.reply("application/json", b'{"input_tokens": 1}')
        blocks = self.server.answer(body)
        stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        message = {
            "id": f"msg_{time.monotonic_ns()}", "type": "message", "role": "assistant",
            "model": body.get("model", "scripted"), "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            data = json.dumps(dict(message, content=blocks, stop_reason=stop))
            return self.reply("application/json", data.encode())
        events = [{"type": "message_start", "message": dict(message, content=[], stop_reason=None)}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty, delta = dict(block, text=""), {"type": "text_delta", "text": block["text"]}
            else:
                empty = dict(block, input={})
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        ending = {"stop_reason": stop, "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.reply("text/event-stream", text.encode())


def texts(body):
    """Every piece of text of a conversation that the model did not write itself."""
    found = []
    for message in body["messages"]:
        if message["role"] == "assistant":
            continue
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        for block in blocks:
            content = block.get("text") or block.get("content") or ""
            if isinstance(content, list):
                content = "\n".join(part.get("text", "") for part in content)
            found.append(content)
    return found
