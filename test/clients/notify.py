#!/usr/bin/env python3
"""Hands one notification to handle_notify with psycopg 3.

usage: notify.py TRANSACTION_ID EVENT_TYPE ORDER_NO BODY_FILE [DATA]

Prints the answer for the peer: HTTP status and body. The PG* environment
variables say where the database is.
"""
import logging
import sys

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

SQL = """SELECT outcome, ack_status, ack_body
           FROM handle_notify(%s, %s, %s, %s::bytea, data => %s::jsonb)"""


def notify(conn, txn_id, event_type, order_no, body, data=None):
    """conn is in autocommit mode; body is bytes as received; data is JSON text."""
    for attempt in 1, 2, 3:
        try:
            outcome, ack_status, ack_body = conn.execute(
                SQL, (txn_id, event_type, order_no, body, data)).fetchone()
        except (SerializationFailure, DeadlockDetected):    # 40001, 40P01: again
            continue
        except psycopg.Error as error:                      # the peer sends again
            logging.error("%s %s", error.sqlstate, error)
            break
        if outcome != "BUSY" or attempt > 1:                # BUSY: again, once
            return ack_status, ack_body
    return 500, "FAIL"


if __name__ == "__main__":
    txn_id, event_type, order_no, body_file, *data = sys.argv[1:]
    with open(body_file, "rb") as file:
        body = file.read()
    with psycopg.connect(autocommit=True) as conn:
        print(*notify(conn, txn_id, event_type, order_no, body, *data))
