<?php
// Hands one notification to handle_notify with PDO.
//
// usage: php notify.php TRANSACTION_ID EVENT_TYPE ORDER_NO BODY_FILE [DATA]
//
// Prints the answer for the peer: HTTP status and body. The PG* environment
// variables say where the database is.

const SQL = 'SELECT outcome, ack_status, ack_body
    FROM handle_notify(?, ?, ?, ?::bytea, data => ?::jsonb)';

// $body is a string of bytes as received; $data is JSON text
function notify(PDO $db, string $txnId, string $eventType, string $orderNo,
                string $body, ?string $data = null): array
{
    for ($attempt = 1; $attempt <= 3; $attempt++) {
        try {
            $call = $db->prepare(SQL);
            $call->bindValue(1, $txnId);
            $call->bindValue(2, $eventType);
            $call->bindValue(3, $orderNo);
            $call->bindValue(4, $body, PDO::PARAM_LOB);
            $call->bindValue(5, $data);
            $call->execute();
            [$outcome, $ackStatus, $ackBody] = $call->fetch(PDO::FETCH_NUM);
            if ($outcome !== 'BUSY' || $attempt > 1) {              // BUSY: again, once
                return [$ackStatus, $ackBody];
            }
        } catch (PDOException $error) {
            if (!in_array($error->getCode(), ['40001', '40P01'], true)) { // those two: again
                error_log($error->getMessage());
                break;                                              // the peer sends again
            }
        }
    }
    return [500, 'FAIL'];
}

[, $txnId, $eventType, $orderNo, $bodyFile] = $argv;
$db = new PDO('pgsql:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
echo implode(' ', notify($db, $txnId, $eventType, $orderNo, file_get_contents($bodyFile), $argv[5] ?? null)), "\n";
