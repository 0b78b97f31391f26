#!/usr/bin/env python3
"""Sends receiver.py one webhook: forged, then signed, then the signed one again.

usage: receiver_test.py BODY_FILE

Prints the three answers.
"""
import hashlib
import hmac
import http.client
import os
import sys
import threading
from http.server import ThreadingHTTPServer

import receiver

os.environ["WEBHOOK_SECRET"] = "It's a Secret to Everybody"


def deliver(port, body, signed_body):
    digest = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), signed_body, hashlib.sha256).hexdigest()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/", body, {
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "push",
        "X-Hub-Signature-256": "sha256=" + digest})
    response = connection.getresponse()
    return f"{response.status} {response.read().decode()}"


with open(sys.argv[1], "rb") as file:
    body = file.read()
server = ThreadingHTTPServer(("127.0.0.1", 0), receiver.Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(", ".join(deliver(server.server_port, body, signed) for signed in (body + b" ", body, body)))
server.shutdown()
