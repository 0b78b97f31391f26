SELECT * FROM floor.hash(:key::text, :event, :order_no::text, :body::bytea);
