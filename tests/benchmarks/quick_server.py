"""A server that starts at once and gives every sentence the same label."""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint")
parser.add_argument("--port", type=int)
parser.add_argument("--label", default="good")
options = parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content = json.loads(body)
        sentences = content.get("sentences", [content.get("sentence")])
        answer = json.dumps([{"label": options.label, "score": 1.0} for _ in sentences]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
