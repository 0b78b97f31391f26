#!/usr/bin/env node
// Publishes the messages of notify_outbox to Redis streams, at least once and in order.
// REDIS_URL says where Redis is, the PG* variables where the database is; SIGTERM ends it.
'use strict';
const { setTimeout: sleep } = require('timers/promises');
const pg = require('pg');
const redis = require('redis');

const BATCH = Number(process.env.BATCH || 100);       // messages
const LEASE = Number(process.env.LEASE || 30);        // seconds
let stop = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { stop = true; });

// These errors are about Redis, others about the message.
const REDIS_ERROR = /^(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY) /;

// Publishes messages of one order, each when Redis has confirmed the one before.
async function publish(stream, messages, lease) {
  for (const { seq, id, aggregatetype, aggregateid, type, payload, attempt } of messages) {
    if (stop || lease.lost) return;
    try {
      await stream.xAdd(`notify_outbox:${aggregatetype}`, '*',
        { id, seq, aggregateid, type, payload, attempt });
      lease.done.push(seq);
    } catch (error) {
      if (!(error instanceof redis.ErrorReply) || REDIS_ERROR.test(error.message)) throw error;
      lease.failed.push([lease.token, seq, error.message]);
      return;                                         // nothing overtakes what failed
    }
  }
}

// Leases a batch, publishes it and acks what was confirmed; returns how many it leased.
async function relay(db, stream) {
  const { rows } = await db.query(`
    SELECT token, seq, id, aggregatetype, aggregateid, type, payload::text, attempt::text
      FROM notify_outbox_lease('redis', $1, make_interval(secs => $2))`, [BATCH, LEASE]);
  if (rows.length === 0) return 0;
  const lease = { token: rows[0].token, lost: false, done: [], failed: [] };
  const timer = setInterval(() => {
    db.query('SELECT notify_outbox_extend($1, make_interval(secs => $2)) AS ok', [lease.token, LEASE])
      .then((answer) => { lease.lost = !answer.rows[0].ok; }, () => { lease.lost = true; });
  }, LEASE * 1000 / 3);
  const orders = {};
  for (const row of rows) (orders[JSON.stringify([row.aggregatetype, row.aggregateid])] ||= []).push(row);
  const results = await Promise.allSettled(
    Object.values(orders).map((messages) => publish(stream, messages, lease)));
  clearInterval(timer);
  await db.query('SELECT notify_outbox_ack($1, $2)', [lease.token, lease.done]);
  for (const failure of lease.failed) await db.query('SELECT notify_outbox_nack($1, $2, $3)', failure);
  if (lease.done.length < rows.length) await db.query('SELECT notify_outbox_release($1)', [lease.token]);
  for (const { reason } of results) if (reason) throw reason;
  return rows.length;
}

async function main() {
  for (let pause = 0; !stop; await sleep(pause)) {
    const db = new pg.Client();
    const stream = redis.createClient({
      url: process.env.REDIS_URL,
      disableOfflineQueue: true,                      // or it would send what we have given back
      socket: { reconnectStrategy: () => new Error('no connection to Redis') },
    });
    for (const client of [db, stream]) client.on('error', () => {});  // what is asked next fails too
    try {
      await db.connect();
      await stream.connect();
      for (; !stop; await sleep(pause)) pause = await relay(db, stream) ? 0 : Math.min(2 * pause + 10, 1000);
    } catch (error) {
      console.error('connecting again:', error.message);
      pause = Math.min(2 * pause + 100, 5000);
    }
    db.end().catch(() => {});                         // of a broken connection there is no end
    if (stream.isOpen) await stream.disconnect();
  }
}

main();
