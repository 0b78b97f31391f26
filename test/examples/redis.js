#!/usr/bin/env node
// What test/examples/run asks of Redis at REDIS_URL.
//
// usage: redis.js count|read|refuse|accept|refused
//
// count prints how many messages have arrived, read prints them, in order for each
// stream, one JSON object a line; between refuse and accept none with the aggregatetype
// "parcel" can be published, and refused prints how many times that was tried.
'use strict';
const { createClient } = require('redis');

const PREFIX = 'notify_outbox:';
const PARCEL = `${PREFIX}parcel`;

async function streams(client) {
  const names = new Set();
  for await (const found of client.scanIterator({ MATCH: `${PREFIX}*`, TYPE: 'stream' })) {
    for (const name of [found].flat()) names.add(name);     // one by one in version 4, some at once in 5
  }
  return names;
}

const commands = {
  async count(client) {
    let sum = 0;
    for (const name of await streams(client)) sum += await client.xLen(name);
    console.log(sum);
  },
  async read(client) {
    for (const name of await streams(client)) {
      for (const { message } of await client.xRange(name, '-', '+')) {
        console.log(JSON.stringify({ stream: name.slice(PREFIX.length), ...message }));
      }
    }
  },
  async refuse(client) {
    await client.rename(PARCEL, `${PARCEL}:aside`);
    await client.set(PARCEL, 'no stream');
  },
  async accept(client) {
    await client.rename(`${PARCEL}:aside`, PARCEL);
  },
  async refused(client) {
    console.log(/^errorstat_WRONGTYPE:count=(\d+)/m.exec(await client.info('errorstats'))[1]);
  },
};

async function main(command) {
  const client = createClient({ url: process.env.REDIS_URL });
  await client.connect();
  await commands[command](client);
  await client.disconnect();
}

main(process.argv[2]);
