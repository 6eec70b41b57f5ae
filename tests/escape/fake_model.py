# SPDX-License-Identifier: Apache-2.0
"""A model on loopback that asks for one execution of code and then ends: what a model that was talked into it would do."""
import http.server
import json
import threading


class FakeModel:
    """The chat-completions API. `code` is what it wants executed next, `said` what it was told of the execution."""

    def __init__(self):
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(request, model.answer(request))

            def answer(self, request, message):
                reason = "tool_calls" if "tool_calls" in message else "stop"
                whole = {"id": "x", "object": "chat.completion", "model": "fake", "created": 0,
                         "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
                if request.get("stream"):
                    for index, call in enumerate(message.get("tool_calls", [])):
                        call["index"] = index
                    whole["object"] = "chat.completion.chunk"
                    whole["choices"] = [{"index": 0, "delta": message, "finish_reason": reason}]
                    body, kind = b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(whole).encode(), "text/event-stream"
                else:
                    whole["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
                    body, kind = json.dumps(whole).encode(), "application/json"
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.code, self.said = "", None
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/v1" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, request):
        last = request["messages"][-1]
        if last["role"] == "tool":
            self.said = last["content"] if isinstance(last["content"], str) else json.dumps(last["content"])
        if last["role"] == "tool" or not request.get("tools"):
            return {"role": "assistant", "content": "done"}
        arguments = json.dumps({"code": self.code})
        return {"role": "assistant", "content": None,
                "tool_calls": [{"id": "call_1", "type": "function",
                                "function": {"name": "execute_python", "arguments": arguments}}]}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
