#!/usr/bin/env python3
"""Publishes the messages of notify_outbox to RabbitMQ, at least once and in order."""
# AMQP_URL says where RabbitMQ is, the PG* variables where the database is; SIGTERM ends it.
import logging
import os
import signal
import time

import pika
import psycopg
from pika.exceptions import AMQPChannelError, AMQPError, ShortStringTooLong

BATCH = int(os.environ.get("BATCH", "100"))         # messages
LEASE = float(os.environ.get("LEASE", "30"))        # seconds
logging.getLogger("pika").setLevel(logging.CRITICAL)    # what it raises is enough
stop = []                                           # the signals that came
for number in signal.SIGINT, signal.SIGTERM:
    signal.signal(number, lambda *arrived: stop.append(arrived))


def publish(channel, message):
    """Returns when RabbitMQ has confirmed the message, and raises if it does not."""
    headers = {"aggregateid": message.aggregateid, "seq": message.seq, "attempt": message.attempt}
    properties = pika.BasicProperties("application/json", headers=headers, delivery_mode=2,
                                      message_id=str(message.id), type=message.type)
    channel.basic_publish("notify_outbox", message.aggregatetype, message.payload.encode(),
                          properties, mandatory=True)


def relay(db, channel):
    """Leases a batch, publishes it and acks what was confirmed; returns the batch."""
    extend_at = time.monotonic() + LEASE / 3
    batch = db.execute("""SELECT token, seq, id, aggregatetype, aggregateid, type, payload::text, attempt
        FROM notify_outbox_lease('rabbitmq', %s, make_interval(secs => %s))""", (BATCH, LEASE)).fetchall()
    done, failed = [], {}
    try:
        for message in batch:
            if time.monotonic() > extend_at:
                extend_at = time.monotonic() + LEASE / 3
                if not db.execute("SELECT notify_outbox_extend(%s, make_interval(secs => %s))",
                                  (message.token, LEASE)).fetchone()[0]:
                    break                           # the lease is lost: its messages come again
            order = message.aggregatetype, message.aggregateid
            if not stop and order not in failed:    # nothing overtakes what failed
                try:
                    publish(channel, message)
                    done.append(message.seq)
                except (AMQPChannelError, ShortStringTooLong) as error:     # the message's fault
                    failed[order] = message.token, message.seq, repr(error)
                    if channel.is_closed:
                        raise
    finally:
        if done:
            db.execute("SELECT notify_outbox_ack(%s, %s::bigint[])", (batch[0].token, done))
        for failure in failed.values():
            db.execute("SELECT notify_outbox_nack(%s, %s, %s)", failure)
        if len(done) < len(batch):
            db.execute("SELECT notify_outbox_release(%s)", (batch[0].token,))
    return batch


pause = 0
while not stop:
    try:
        with psycopg.connect(autocommit=True, prepare_threshold=None) as db, \
                pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as rabbitmq:
            db.row_factory = psycopg.rows.namedtuple_row
            channel = rabbitmq.channel()
            channel.confirm_delivery()
            channel.exchange_declare("notify_outbox", "topic", durable=True)
            channel.queue_declare("notify_outbox", durable=True)
            channel.queue_bind("notify_outbox", "notify_outbox", "#")
            while not stop:
                pause = 0 if relay(db, channel) else min(2 * pause + 0.01, 1)
                rabbitmq.sleep(pause)               # and answers heartbeats
    except (AMQPError, OSError, psycopg.Error) as error:
        logging.warning("connecting again: %r", error)
        time.sleep(pause := min(2 * pause + 0.1, 5))
