#!/usr/bin/env python3
"""What test/examples/run asks of RabbitMQ at AMQP_URL.

usage: rabbitmq.py count|read|refuse|accept

count prints how many messages have arrived, read takes and prints them, in order, one
JSON object a line; between refuse and accept no message can be published.
"""
import json
import os
import sys

import pika
from pika.exceptions import ChannelClosedByBroker

NAME = "notify_outbox"


def count(channel):
    try:
        print(channel.queue_declare(NAME, passive=True).method.message_count)
    except ChannelClosedByBroker:           # the relay has not declared it
        print(0)


def read(channel):
    while True:
        method, properties, body = channel.basic_get(NAME, auto_ack=True)
        if method is None:
            break
        print(json.dumps({"stream": method.routing_key, "id": properties.message_id, "type": properties.type,
                          "payload": body.decode(), **properties.headers}))


def refuse(channel):
    channel.queue_unbind(NAME, NAME, "#")


def accept(channel):
    channel.queue_bind(NAME, NAME, "#")


with pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
    {"count": count, "read": read, "refuse": refuse, "accept": accept}[sys.argv[1]](connection.channel())
