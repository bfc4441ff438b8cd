"""A server in this process that does with every request what a test says."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RefusedError(Exception):
    """What a request is not answered but refused for."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    # As most servers: what a client asked that has gone is done all the same, by nobody's order.
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Nobody reads that a client has gone."""


@contextmanager
def answering(handle: Callable[[str], object]) -> Iterator[int]:
    """Answers requests of one sentence, each on a thread of its own; the block gets the port.

    Args:
        handle: gets the sentence, and takes the time that it takes.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            (sentence,) = json.loads(self.rfile.read(int(self.headers["Content-Length"])))[
                "sentences"
            ]
            status = 200
            try:
                handle(sentence)
            except RefusedError:
                status = 500
            answer = b'[{"label": "good", "score": 1.0}]'
            self.send_response(status)
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
