SELECT order_no, digest_mode, payload_hash, outcome, result_json, created_at FROM floor.claim WHERE biz_key = :key::text || ':' || :event AND channel = 'default';
