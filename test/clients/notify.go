// Hands one notification to handle_notify with pgx. Written for pgx v4; with v5
// only the import path changes.
//
// usage: notify TRANSACTION_ID EVENT_TYPE ORDER_NO BODY_FILE [DATA]
//
// Prints the answer for the peer: HTTP status and body. The PG* environment
// variables say where the database is.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v4/pgxpool"
)

const notifySQL = `SELECT outcome, ack_status, ack_body
	FROM handle_notify($1, $2, $3, $4::bytea, data => $5::jsonb)`

// body is as received, not nil; data is JSON text or nil.
func notify(ctx context.Context, pool *pgxpool.Pool, txnID, eventType, orderNo string,
	body []byte, data *string) (ackStatus int, ackBody string) {
	for attempt := 1; attempt <= 3; attempt++ {
		var outcome string
		var failed interface{ SQLState() string }
		err := pool.QueryRow(ctx, notifySQL, txnID, eventType, orderNo, body, data).
			Scan(&outcome, &ackStatus, &ackBody)
		switch {
		case err == nil && (outcome != "BUSY" || attempt > 1): // BUSY: again, once
			return ackStatus, ackBody
		case err == nil:
		case errors.As(err, &failed) && (failed.SQLState() == "40001" || failed.SQLState() == "40P01"):
		default:
			log.Print(err)
			return 500, "FAIL" // the peer sends again
		}
	}
	return 500, "FAIL"
}

func main() {
	ctx := context.Background()
	body, err := os.ReadFile(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	if body == nil {
		body = []byte{} // nil would be NULL
	}
	var data *string
	if len(os.Args) > 5 {
		data = &os.Args[5]
	}
	pool, err := pgxpool.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(notify(ctx, pool, os.Args[1], os.Args[2], os.Args[3], body, data))
}
