SELECT * FROM handle_notify(:key::text, :event, :order_no::text, :body::bytea);
