"""A server that starts at once and says the same of every sentence, in the form of the peer."""

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint")
parser.add_argument("--port", type=int)
parser.add_argument("--label")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--apart", action="store_true", help="in a session of its own, as BentoML")
parser.add_argument("--computes-on", type=float, default=0.0, help="seconds after each answer")
given = parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content = json.loads(body)
        sentences = content["sentences"] if "sentences" in content else [content["sentence"]]
        time.sleep(given.seconds)
        answer = json.dumps([{"label": given.label, "score": 1.0} for _ in sentences]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        threading.Thread(target=compute_on).start()


def compute_on() -> None:
    while time.thread_time() < given.computes_on:
        pass


if __name__ == "__main__":
    if given.apart and os.fork():
        os.wait()
    elif given.apart:
        os.setsid()
    ThreadingHTTPServer(("127.0.0.1", given.port), Handler).serve_forever()
