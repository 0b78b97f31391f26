#!/usr/bin/env node
// Hands one notification to handle_notify with pg (node-postgres).
//
// usage: notify.js TRANSACTION_ID EVENT_TYPE ORDER_NO BODY_FILE [DATA]
//
// Prints the answer for the peer: HTTP status and body. The PG* environment
// variables say where the database is.
'use strict';
const fs = require('fs');
const { Pool } = require('pg');

const SQL = `SELECT outcome, ack_status, ack_body
               FROM handle_notify($1, $2, $3, $4::bytea, data => $5::jsonb)`;

// body is a Buffer as received; data is JSON text
async function notify(pool, txnId, eventType, orderNo, body, data = null) {
  for (let attempt = 1; attempt <= 3; attempt++) {
    try {
      const { rows: [answer] } = await pool.query(SQL, [txnId, eventType, orderNo, body, data]);
      if (answer.outcome !== 'BUSY' || attempt > 1) {         // BUSY: again, once
        return [answer.ack_status, answer.ack_body];
      }
    } catch (error) {
      if (error.code !== '40001' && error.code !== '40P01') { // those two: again
        console.error(error.code, error.message);
        break;                                                // the peer sends again
      }
    }
  }
  return [500, 'FAIL'];
}

async function main([txnId, eventType, orderNo, bodyFile, data]) {
  const pool = new Pool();
  console.log(...await notify(pool, txnId, eventType, orderNo, fs.readFileSync(bodyFile), data));
  await pool.end();
}

main(process.argv.slice(2));
