// Hands one notification to handle_notify with the PostgreSQL JDBC driver.
//
// usage: java Notify.java TRANSACTION_ID EVENT_TYPE ORDER_NO BODY_FILE [DATA]
//
// Prints the answer for the peer: HTTP status and body. The environment
// variables PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD say where the
// database is.
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

public class Notify {
    record Ack(int status, String body) {}

    static final String SQL = "SELECT outcome, ack_status, ack_body"
        + " FROM handle_notify(?, ?, ?, ?::bytea, data => ?::jsonb)";

    // db is in autocommit mode, as it is by default; body is as received; data is JSON text or null
    static Ack handle(Connection db, String txnId, String eventType, String orderNo,
                      byte[] body, String data) {
        for (int attempt = 1; attempt <= 3; attempt++) {
            try (PreparedStatement call = db.prepareStatement(SQL)) {
                call.setString(1, txnId);
                call.setString(2, eventType);
                call.setString(3, orderNo);
                call.setBytes(4, body);
                call.setString(5, data);
                ResultSet answer = call.executeQuery();
                answer.next();
                if (!answer.getString("outcome").equals("BUSY") || attempt > 1) // BUSY: again, once
                    return new Ack(answer.getInt("ack_status"), answer.getString("ack_body"));
            } catch (SQLException error) {
                String state = String.valueOf(error.getSQLState());
                if (!state.equals("40001") && !state.equals("40P01")) {         // those two: again
                    System.err.println(state + " " + error.getMessage());
                    break;                                                      // the peer sends again
                }
            }
        }
        return new Ack(500, "FAIL");
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT")
            + "/" + System.getenv("PGDATABASE");
        try (Connection db = DriverManager.getConnection(url, System.getenv("PGUSER"),
                                                         System.getenv("PGPASSWORD"))) {
            Ack ack = handle(db, args[0], args[1], args[2], Files.readAllBytes(Path.of(args[3])),
                             args.length > 4 ? args[4] : null);
            System.out.println(ack.status() + " " + ack.body());
        }
    }
}
