SELECT * FROM floor.nothing(:key::text, :event, :order_no::text, :body::bytea);
