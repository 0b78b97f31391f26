#!/usr/bin/env python3
"""Receives webhooks in GitHub's format and hands them to handle_notify.

usage: WEBHOOK_SECRET=... receiver.py PORT

Listens on the loopback interface. The PG* environment variables say where the
database is.
"""
import hashlib
import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

from notify import notify


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))     # the bytes, unparsed
        digest = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest("sha256=" + digest, self.headers.get("X-Hub-Signature-256", "")):
            return self.answer(403, "FAIL")
        with psycopg.connect(autocommit=True) as conn:                  # or one from your pool
            self.answer(*notify(conn, self.headers["X-GitHub-Delivery"], self.headers["X-GitHub-Event"],
                                json.loads(body)["repository"]["full_name"], body))

    def answer(self, ack_status, ack_body):
        self.send_response(ack_status)
        self.send_header("Content-Length", str(len(ack_body)))
        self.end_headers()
        self.wfile.write(ack_body.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
