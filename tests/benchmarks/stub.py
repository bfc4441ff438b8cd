"""A server in this process that does with every sentence what a test wants."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def answering(handle: Callable[[str], int | None]) -> Iterator[int]:
    """Answers each sentence with the status that `handle` returns, else 200; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            (sentence,) = json.loads(body)["sentences"]
            self.send_response(handle(sentence) or 200)
            answer = b'[{"label": "good", "score": 1.0}]'
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
