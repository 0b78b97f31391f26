-- What two deliveries of one notice have in common: which bodies have the same
-- digest under which mode and ignore list (cases 15 to 19, 31 to 33, 49).
SET client_min_messages = warning;
SET standard_conforming_strings = on;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all

-- Pairs of bodies: have they the same digest, and which mode makes that of each?
CREATE TABLE pair (
	n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	mode text, ignore text[], expected text, mode_a text, mode_b text, a bytea, b bytea);
-- most of them are text
CREATE TABLE spelled (LIKE pair INCLUDING IDENTITY);
ALTER TABLE spelled ALTER a TYPE text, ALTER b TYPE text;

-- raw: the bytes
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('raw', '{}', 'same', 'raw', 'raw', '{"a": 1}', '{"a": 1}'),
('raw', '{}', 'different', 'raw', 'raw', '{"a": 1}', '{"a":1}'),
('raw', '{}', 'different', 'raw', 'raw', 'a=1&b=2', 'b=2&a=1'),
('raw', '{}', 'same', 'raw', 'raw', '', ''),
('raw', '{}', 'different', 'raw', 'raw', '', ' ');

-- json: numbers are compared by value, without loss
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'same', 'json', 'json', '1', '1.0'),
('json', '{}', 'same', 'json', 'json', '1', '1e0'),
('json', '{}', 'same', 'json', 'json', '1', '10E-1'),
('json', '{}', 'same', 'json', 'json', '1', '0.001e+3'),
('json', '{}', 'same', 'json', 'json', '1', '1.000000000000000000000000000000'),
('json', '{}', 'same', 'json', 'json', '1', '1e0000000000000000000000000'),
('json', '{}', 'same', 'json', 'json', '100', '1e2'),
('json', '{}', 'same', 'json', 'json', '-1.50', '-15e-1'),
('json', '{}', 'same', 'json', 'json', '100.01', '1000100e-4'),
('json', '{}', 'different', 'json', 'json', '1', '-1'),
('json', '{}', 'different', 'json', 'json', '1', '10'),
('json', '{}', 'different', 'json', 'json', '1', '0.1'),
('json', '{}', 'different', 'json', 'json', '10.0', '1.00'),
('json', '{}', 'different', 'json', 'json', '12', '1.2'),
('json', '{}', 'different', 'json', 'json', '100.01', '100.1'),
('json', '{}', 'different', 'json', 'json', '0.1', '0.10000000000000000001'),
('json', '{}', 'same', 'json', 'json', '0.1', '0.10000000000000000000'),
('json', '{}', 'different', 'json', 'json', '0.3', '0.30000000000000004'),
('json', '{}', 'different', 'json', 'json', '9007199254740993', '9007199254740992'),
('json', '{}', 'different', 'json', 'json', '1234567890123456789012345678901234567890', '1234567890123456789012345678901234567891'),
('json', '{}', 'same', 'json', 'json', '1234567890123456789012345678901234567890', '1234567890123456789012345678901234567890.000'),
('json', '{}', 'same', 'json', 'json', '1234567890123456789012345678901234567890', '1.23456789012345678901234567890123456789e39'),
('json', '{}', 'same', 'json', 'json', '1e20', '100000000000000000000'),
('json', '{}', 'same', 'json', 'json', '1e21', '1000000000000000000000'),
('json', '{}', 'same', 'json', 'json', '1e-21', '0.000000000000000000001'),
('json', '{}', 'same', 'json', 'json', '1e-22', '0.0000000000000000000001'),
('json', '{}', 'different', 'json', 'json', '1e21', '1e22'),
-- zero has neither sign nor exponent
('json', '{}', 'same', 'json', 'json', '0', '-0'),
('json', '{}', 'same', 'json', 'json', '0', '-0.000e-5'),
('json', '{}', 'same', 'json', 'json', '0', '0e1000000000'),
('json', '{}', 'same', 'json', 'json', '0', '0E-99999999999999999999999'),
('json', '{}', 'different', 'json', 'json', '0', '1e-1000000000'),
-- an exponent costs nothing
('json', '{}', 'same', 'json', 'json', '1e1000000000', '10e999999999'),
('json', '{}', 'same', 'json', 'json', '1e1000000000', '0.1E+1000000001'),
('json', '{}', 'same', 'json', 'json', '1e-1000000000', '0.01e-999999998'),
('json', '{}', 'different', 'json', 'json', '1e1000000000', '1e1000000001'),
('json', '{}', 'different', 'json', 'json', '1e1000000000', '1e-1000000000'),
('json', '{}', 'different', 'json', 'json', '1e1000000000', '-1e1000000000'),
('json', '{}', 'same', 'json', 'json', '1e999999999999999999', '10e999999999999999998'),
-- one beyond all reason is not read
('json', '{}', 'different', 'raw', 'json', '1e1000000000000000000', '1e999999999999999999'),
('json', '{}', 'different', 'raw', 'raw', '1e1000000000000000000', '10e999999999999999999'),
-- a number is not its spelling, and these are none
('json', '{}', 'different', 'json', 'json', '1', '"1"'),
('json', '{}', 'different', 'raw', 'json', '01', '1'),
('json', '{}', 'different', 'raw', 'json', '+1', '1'),
('json', '{}', 'different', 'raw', 'json', '.5', '0.5'),
('json', '{}', 'different', 'raw', 'json', '1.', '1'),
('json', '{}', 'different', 'raw', 'json', '1e', '1'),
('json', '{}', 'different', 'raw', 'json', '0x10', '16'),
('json', '{}', 'different', 'raw', 'json', '- 1', '-1'),
('json', '{}', 'same', 'raw', 'raw', 'NaN', 'NaN');

-- json: strings are compared unescaped
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'same', 'json', 'json', '"a"', '"\u0061"'),
('json', '{}', 'same', 'json', 'json', '"/"', '"\/"'),
('json', '{}', 'same', 'json', 'json', '"\"\\\b\f\n\r\t"', '"\u0022\u005c\u0008\u000c\u000a\u000D\u0009"'),
('json', '{}', 'same', 'json', 'json', '"größe 货"', '"gr\u00f6\u00DFe\u0020\u8d27"'),
('json', '{}', 'same', 'json', 'json', '"😀"', '"\uD83d\ude00"'),
('json', '{}', 'same', 'json', 'json', E'"\u2028"', '"\u2028"'),
('json', '{}', 'same', 'json', 'json', E'"\x7f"', '"\u007f"'),
('json', '{}', 'different', 'json', 'json', '"\n"', '"\\n"'),
('json', '{}', 'different', 'json', 'json', '"\u00e4"', '"a\u0308"'),
('json', '{}', 'different', 'json', 'json', '"a"', '"A"'),
('json', '{}', 'different', 'json', 'json', '"a"', '"a "'),
('json', '{}', 'different', 'json', 'json', '"a\""', '"a\\"'),
-- what a text cannot hold
('json', '{}', 'same', 'json', 'json', '"\u0000"', ' "\u0000" '),
('json', '{}', 'different', 'json', 'json', '"\u0000"', '""'),
('json', '{}', 'different', 'json', 'json', '"\u0000"', '"\\u0000"'),
('json', '{}', 'different', 'json', 'json', '"\u0000"', '"\u0001"'),
('json', '{}', 'same', 'json', 'json', '"\ud83d"', '"\uD83D"'),
('json', '{}', 'different', 'json', 'json', '"\ud83d"', '"\ude00"'),
('json', '{}', 'different', 'json', 'json', '"\ud83d"', '"\ufffd"'),
('json', '{}', 'different', 'json', 'json', '"\ud83d"', '"\\ud83d"'),
('json', '{}', 'different', 'json', 'json', '"\ud83d"', '"\ud83d\ud83d"'),
('json', '{}', 'different', 'json', 'json', '"\ude00\ud83d"', '"\ud83d\ude00"'),
('json', '{}', 'different', 'json', 'json', '"\ud83d \ude00"', '"\ud83d\ude00"'),
('json', '{}', 'same', 'json', 'json', '"\ud83d\ud83d\ude00"', '"\ud83d😀"'),
-- no strings of JSON
('json', '{}', 'different', 'raw', 'json', E'"\t"', '"\t"'),
('json', '{}', 'different', 'raw', 'json', '"\x41"', '"A"'),
('json', '{}', 'different', 'raw', 'json', '"\u41"', '"A"'),
('json', '{}', 'different', 'raw', 'json', '"\u{41}"', '"A"'),
('json', '{}', 'different', 'raw', 'json', '"a', '"a"'),
('json', '{}', 'different', 'raw', 'json', '"a\"', '"a"'),
('json', '{}', 'different', 'raw', 'json', '''a''', '"a"');

-- json: null, absent and empty are not the same
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'different', 'json', 'json', '{"a": null}', '{}'),
('json', '{}', 'different', 'json', 'json', '{"a": null}', '{"a": ""}'),
('json', '{}', 'different', 'json', 'json', '{"a": null}', '{"a": "null"}'),
('json', '{}', 'different', 'json', 'json', '{"a": null}', '{"a": 0}'),
('json', '{}', 'different', 'json', 'json', '{"a": null}', '{"a": false}'),
('json', '{}', 'different', 'json', 'json', '{"a": []}', '{"a": {}}'),
('json', '{}', 'different', 'json', 'json', '{"a": []}', '{"a": [null]}'),
('json', '{}', 'different', 'json', 'json', '{"a": {}}', '{}'),
('json', '{}', 'different', 'json', 'json', '{"": 1}', '{}'),
('json', '{}', 'different', 'json', 'json', '[]', '[[]]'),
('json', '{}', 'different', 'json', 'json', 'true', 'false'),
('json', '{}', 'different', 'json', 'json', 'true', '"true"'),
('json', '{}', 'same', 'json', 'json', 'null', ' null');

-- json: the order of members and white space do not count, the rest does
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'same', 'json', 'json', '{"a": 1, "b": 2}', '{"b":2,"a":1}'),
('json', '{}', 'same', 'json', 'json', '{"a": [1, {"b": 2}]}', E'\t{ "a"\r\n:[\n1 ,{"b" : 2 } ] }\n'),
('json', '{}', 'same', 'json', 'json', '{"a": {"x": 1, "y": [2]}, "b": {"z": 3}}', '{"b": {"z": 3}, "a": {"y": [2], "x": 1}}'),
('json', '{}', 'same', 'json', 'json', '{"x": {"b": {"d": 1, "c": 2}, "a": 3}}', '{"x": {"a": 3, "b": {"c": 2, "d": 1}}}'),
('json', '{}', 'same', 'json', 'json', '[{"a": 1, "b": 2}, 3]', '[{"b": 2, "a": 1}, 3]'),
('json', '{}', 'same', 'json', 'json', '{"a": 1, "aa": 2, "ab": 3, "": 4}', '{"": 4, "ab": 3, "a": 1, "aa": 2}'),
('json', '{}', 'same', 'json', 'json', '{"a\"": 1, "a": 2, "ä": 3, "é": 4}', '{"a": 2, "a\u0022": 1, "\u00e9": 4, "\u00e4": 3}'),
('json', '{}', 'same', 'json', 'json', '{"\u0000": 1, "\ud800": 2, "😀": 3}', '{"\ud83d\ude00": 3, "\ud800": 2, "\u0000": 1}'),
('json', '{}', 'different', 'json', 'json', '[1, 2]', '[2, 1]'),
('json', '{}', 'different', 'json', 'json', '{"a": [{"b": 1}, {"b": 2}]}', '{"a": [{"b": 2}, {"b": 1}]}'),
('json', '{}', 'different', 'json', 'json', '[1, 1]', '[1]'),
('json', '{}', 'different', 'json', 'json', '[12]', '[1, 2]'),
('json', '{}', 'different', 'json', 'json', '[[1, 2], [3]]', '[[1], [2, 3]]'),
('json', '{}', 'different', 'json', 'json', '[1, [2]]', '[[1], 2]'),
('json', '{}', 'different', 'json', 'json', '{"a": 1, "b": 2}', '{"a": 2, "b": 1}'),
('json', '{}', 'different', 'json', 'json', '{"a": 1}', '{"A": 1}'),
('json', '{}', 'different', 'json', 'json', '{"a": 1}', '{"a ": 1}'),
('json', '{}', 'different', 'json', 'json', '{"a": {"b": 1}}', '{"a.b": 1}'),
('json', '{}', 'different', 'json', 'json', '{"a": {"b": 1}, "c": 2}', '{"a": {"b": 1, "c": 2}}'),
('json', '{}', 'different', 'json', 'json', '{"a": "b\",\"c\":\"d"}', '{"a": "b", "c": "d"}'),
('json', '{}', 'different', 'json', 'json', '{"a": 1}', '[{"a": 1}]'),
('json', '{}', 'different', 'json', 'json', '{"a": 1}', '["a", 1]');

-- json: an object that repeats a name is compared as it is
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'different', 'raw', 'json', '{"a": 1, "a": 1}', '{"a": 1}'),
('json', '{}', 'different', 'raw', 'raw', '{"a": 1, "a": 2}', '{"a": 2, "a": 1}'),
('json', '{}', 'different', 'raw', 'raw', '{"a": 1, "a": 2}', '{"a":1,"a":2}'),
('json', '{}', 'same', 'raw', 'raw', '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
('json', '{}', 'different', 'raw', 'json', '{"a": 1, "\u0061": 2}', '{"a": 2}'),
('json', '{}', 'different', 'raw', 'json', '{"😀": 1, "\ud83d\ude00": 1}', '{"😀": 1}'),
('json', '{}', 'different', 'raw', 'json', '{"\u0000": 1, "b": 2, "\u0000": 3}', '{"\u0000": 1, "b": 2}'),
('json', '{}', 'different', 'raw', 'json', '[{"b": {"a": 1, "c": 2, "a": 3}}]', '[{"b": {"a": 1, "c": 2}}]'),
('json', '{}', 'same', 'json', 'json', '[{"a": 1}, {"a": {"a": 1}}]', '[{"a":1},{"a":{"a":1}}]');

-- json: what does not parse is compared as it is
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'different', 'raw', 'json', '{"a": 1} x', '{"a": 1}'),
('json', '{}', 'different', 'raw', 'raw', '{"a": 1} x', '{"a": 1}x'),
('json', '{}', 'different', 'raw', 'json', '{} {}', '{}'),
('json', '{}', 'different', 'raw', 'json', '{"a": 1,}', '{"a": 1}'),
('json', '{}', 'different', 'raw', 'json', '[1,]', '[1]'),
('json', '{}', 'different', 'raw', 'json', '[,1]', '[1]'),
('json', '{}', 'different', 'raw', 'json', '[1 2]', '[1, 2]'),
('json', '{}', 'different', 'raw', 'json', '{"a" 1}', '{"a": 1}'),
('json', '{}', 'different', 'raw', 'json', '{"a":}', '{"a": null}'),
('json', '{}', 'different', 'raw', 'json', '{"a"}', '["a"]'),
('json', '{}', 'different', 'raw', 'json', '{a: 1}', '{"a": 1}'),
('json', '{}', 'different', 'raw', 'json', '{1: 1}', '{"1": 1}'),
('json', '{}', 'different', 'raw', 'json', '[1}', '[1]'),
('json', '{}', 'different', 'raw', 'json', '[1', '[1]'),
('json', '{}', 'different', 'raw', 'json', '1]', '1'),
('json', '{}', 'different', 'raw', 'json', '[1] // one', '[1]'),
('json', '{}', 'different', 'raw', 'json', 'True', 'true'),
('json', '{}', 'different', 'raw', 'json', 'nul', 'null'),
('json', '{}', 'different', 'raw', 'json', E'\f1', '1'),
('json', '{}', 'different', 'raw', 'json', E'\u00a01', '1'),
('json', '{}', 'same', 'raw', 'raw', '', ''),
('json', '{}', 'different', 'raw', 'raw', '', ' '),
('json', '{}', 'different', 'raw', 'json', 'a=1&b=2', '"a=1&b=2"'),
-- nesting ends at 512
('json', '{}', 'same', 'json', 'json', repeat('[', 512) || repeat(']', 512), repeat(' [', 512) || repeat(' ]', 512)),
('json', '{}', 'same', 'json', 'json', repeat('{"a":', 511) || '{"c": 1, "b": 2}' || repeat('}', 511), repeat('{"a":', 511) || '{"b": 2, "c": 1}' || repeat('}', 511)),
('json', '{}', 'different', 'raw', 'raw', repeat('[', 513) || repeat(']', 513), repeat(' [', 513) || repeat(' ]', 513)),
('json', '{}', 'different', 'raw', 'raw', repeat('[{"a":', 257) || '1' || repeat('}]', 257), repeat('[{"a": ', 257) || '1' || repeat('}]', 257));
-- nor do these bytes; a byte may be spelled \ooo here
INSERT INTO pair (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{}', 'different', 'raw', 'json', '\357\273\277{}', '{}'),                    -- byte order mark
('json', '{}', 'different', 'raw', 'json', '"\377"', '"\303\277"'),
('json', '{}', 'same', 'raw', 'raw', '"\377"', '"\377"'),
('json', '{}', 'different', 'raw', 'json', '{}\000', '{}'),
('json', '{}', 'different', 'raw', 'json', '"\000"', '"\\u0000"'),
('json', '{}', 'different', 'raw', 'json', '{"a": "\273\365"}', '{"a": "\350\264\247"}'),    -- GBK, UTF-8
('json', '{}', 'different', 'raw', 'json', '"\300\257"', '"/"'),                       -- overlong
('json', '{}', 'different', 'raw', 'json', '"\355\240\275\355\270\200"', '"\360\237\230\200"'),  -- surrogates as UTF-8
('json', '{}', 'different', 'raw', 'json', '{\000}\000', '{}'),                        -- UTF-16
('json', '{}', 'different', 'raw', 'raw', '\000', '');

-- json: what is ignored may differ, or not be there
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('json', '{notify_time,sign}', 'same', 'json', 'json', '{"amount": 1, "notify_time": "10:00", "sign": "x"}', '{"sign": "y", "amount": 1.0, "notify_time": "10:04"}'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '{"amount": 1, "notify_time": "10:00", "sign": "x"}', '{"amount": 2, "notify_time": "10:00", "sign": "x"}'),
('json', '{notify_time,sign}', 'same', 'json', 'json', '{"amount": 1, "sign": null}', '{"amount": 1}'),
('json', '{notify_time,sign}', 'same', 'json', 'json', '{"sign": [1, {"a": "x"}]}', '{}'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '{"Sign": 1}', '{"Sign": 2}'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '{"sign_type": 1}', '{"sign_type": 2}'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '{"sig": 1}', '{"sig": 2}'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '{"a": {"sign": 1}}', '{"a": {"sign": 2}}'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '{"a": "sign"}', '{"a": "notify_time"}'),
('json', '{notify_time,sign}', 'same', 'json', 'json', '{"\u0073ign": 1, "a": 1}', '{"a": 1, "sign": 2}'),
('json', '{notify_time,sign}', 'same', 'json', 'json', '[{"sign": 1, "a": 1}, [{"sign": 2}]]', '[{"a": 1}, [{"sign": 3}]]'),
('json', '{notify_time,sign}', 'different', 'json', 'json', '["sign", 1]', '["sign", 2]'),
('json', '{notify_time,sign}', 'different', 'raw', 'raw', '{"sign": 1, "sign": 2}', '{"sign": 1, "sign": 3}'),
('json', '{notify_time,sign}', 'different', 'raw', 'json', '{"a": 1, "sign": x}', '{"a": 1}'),
('json', '{notify_time,sign}', 'same', 'json', 'json', '"sign"', ' "sign"'),
-- a path
('json', '{resource.nonce}', 'same', 'json', 'json', '{"resource": {"nonce": 1, "x": 1}}', '{"resource": {"x": 1, "nonce": 2}}'),
('json', '{resource.nonce}', 'same', 'json', 'json', '{"resource": {"nonce": 1}}', '{"resource": {}}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"resource": {"nonce": 1}}', '{}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"resource": {"nonce": 1, "x": 1}}', '{"resource": {"nonce": 1, "x": 2}}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"resource": {"nonces": 1}}', '{"resource": {"nonces": 2}}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"nonce": 1}', '{"nonce": 2}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"resource": 1}', '{"resource": 2}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"resource": {"x": {"nonce": 1}}}', '{"resource": {"x": {"nonce": 2}}}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"x": {"resource": {"nonce": 1}}}', '{"x": {"resource": {"nonce": 2}}}'),
('json', '{resource.nonce}', 'different', 'json', 'json', '{"resource.nonce": 1}', '{"resource.nonce": 2}'),
-- all that is below, and a path below what is ignored
('json', '{resource}', 'same', 'json', 'json', '{"resource": {"a": [1, {"b": 2}]}, "x": 1}', '{"x": 1}'),
('json', '{a,a.b}', 'same', 'json', 'json', '{"a": {"b": 1, "c": 2}}', '{"a": 3}'),
('json', '{a.b,a.c.d}', 'same', 'json', 'json', '{"a": {"b": 1, "c": {"d": 2, "e": 3}}}', '{"a": {"c": {"e": 3}}}'),
('json', '{a.b,a.c.d}', 'different', 'json', 'json', '{"a": {"c": {"d": 2, "e": 3}}}', '{"a": {"c": {"d": 2, "e": 4}}}'),
-- through arrays, each element of which stays an element
('json', '{items.at}', 'same', 'json', 'json', '{"items": [{"at": 1, "id": 1}, {"id": 2}]}', '{"items": [{"id": 1}, {"id": 2, "at": 3}]}'),
('json', '{items.at}', 'same', 'json', 'json', '{"items": [[{"at": 1}], 2]}', '{"items": [[{"at": 3}], 2]}'),
('json', '{items.at}', 'different', 'json', 'json', '{"items": [{"at": 1}]}', '{"items": [{"at": 1}, {"at": 2}]}'),
('json', '{items.at}', 'different', 'json', 'json', '{"items": [{"at": 1}]}', '{"items": {"at": 1}}'),
('json', '{items.at}', 'different', 'json', 'json', '{"items": [{"x": {"at": 1}}]}', '{"items": [{"x": {"at": 2}}]}'),
-- names with a dot, a backslash, a quote, a tab, a blank, and others
('json', ARRAY['a\.b'], 'same', 'json', 'json', '{"a.b": 1, "c": 1}', '{"a.b": 2, "c": 1}'),
('json', ARRAY['a\.b'], 'different', 'json', 'json', '{"a": {"b": 1}}', '{"a": {"b": 2}}'),
('json', ARRAY['a.b'], 'different', 'json', 'json', '{"a.b": 1, "c": 1}', '{"a.b": 2, "c": 1}'),
('json', ARRAY['a\\b.c'], 'same', 'json', 'json', '{"a\\b": {"c": 1, "d": 1}}', '{"a\u005cb": {"c": 2, "d": 1}}'),
('json', ARRAY['a"b', E'a\tb', ' '], 'same', 'json', 'json', '{"a\"b": 1, "a\tb": 1, " ": 1}', '{"a\u0022b": 2, "a\u0009b": 2}'),
('json', ARRAY['größe.货.😀'], 'same', 'json', 'json', '{"größe": {"货": {"😀": 1, "x": 1}}}', '{"gr\u00f6\u00dfe": {"\u8d27": {"\ud83d\ude00": 2, "x": 1}}}'),
('json', ARRAY['größe.货.😀'], 'different', 'json', 'json', '{"größe": {"货": {"😀": 1, "x": 1}}}', '{"größe": {"货": {"😀": 1, "x": 2}}}'),
-- names that are not there
('json', '{no.such}', 'same', 'json', 'json', '{"a": 1}', '{"a": 1.0}'),
('json', '{no.such}', 'different', 'json', 'json', '{"a": 1}', '{"a": 2}');

-- form: the decoded pairs, in any order
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('form', '{}', 'same', 'form', 'form', 'a=1&b=2', 'b=2&a=1'),
('form', '{}', 'different', 'form', 'form', 'a=1&b=2', 'a=1&b=3'),
('form', '{}', 'different', 'form', 'form', 'a=1&b=2', 'a=2&b=1'),
('form', '{}', 'different', 'form', 'form', 'a=1&b=2', 'a=1%26b=2'),
('form', '{}', 'different', 'form', 'form', 'a=1&b=2', 'a=1%26b%3D2'),
('form', '{}', 'different', 'form', 'form', 'a=12&b=3', 'a=1&2b=3'),
('form', '{}', 'different', 'form', 'form', 'ab=c', 'a=bc'),
('form', '{}', 'same', 'form', 'form', 'a=x+y', 'a=x%20y'),
('form', '{}', 'different', 'form', 'form', 'a=x+y', 'a=x%2By'),
('form', '{}', 'same', 'form', 'form', 'a=x%2by', 'a=x%2By'),
('form', '{}', 'same', 'form', 'form', 'amount=10', '%61mount=1%30'),
('form', '{}', 'same', 'form', 'form', 'a=~*''()!/:;?@[]{}|', 'a=%7E%2A%27%28%29%21%2f%3a%3b%3f%40%5b%5d%7b%7d%7c'),
('form', '{}', 'same', 'form', 'form', 'a=b=c', 'a=b%3Dc'),
('form', '{}', 'different', 'form', 'form', 'a=b=c', 'a%3Db=c'),
('form', '{}', 'different', 'form', 'form', 'a=%25', 'a=%2525'),
('form', '{}', 'different', 'form', 'form', 'a=', 'a=%00'),
('form', '{}', 'same', 'form', 'form', 'a=%e8%b4%a7', 'a=%E8%B4%A7'),
('form', '{}', 'same', 'form', 'form', 'a=%bb%f5', 'a=%BB%F5'),
('form', '{}', 'different', 'form', 'form', 'a=%bb%f5', 'a=%E8%B4%A7'),
('form', '{}', 'different', 'form', 'form', 'a=1', 'A=1'),
('form', '{}', 'different', 'form', 'form', 'a=1', 'a=1.0'),
('form', '{}', 'different', 'form', 'form', 'a=1&b=2', 'a=1;b=2'),
-- pairs are counted
('form', '{}', 'different', 'form', 'form', 'a=1&a=1', 'a=1'),
('form', '{}', 'same', 'form', 'form', 'a=1&a=2', 'a=2&a=1'),
('form', '{}', 'different', 'form', 'form', 'a=1&a=2', 'a=1&a=2&a=2'),
-- empty names, values and pairs
('form', '{}', 'different', 'form', 'form', 'a=1&b=', 'a=1'),
('form', '{}', 'same', 'form', 'form', 'a=1&b=', 'a=1&b'),
('form', '{}', 'same', 'form', 'form', 'a=1&b=2', '&&b=2&&a=1&'),
('form', '{}', 'different', 'form', 'form', '=1', '1='),
('form', '{}', 'different', 'form', 'form', '=&a=1', 'a=1'),
-- a text without an equals sign is no form, nor are these
('form', '{}', 'different', 'raw', 'form', 'a', 'a='),
('form', '{}', 'different', 'raw', 'raw', 'a&b', 'b&a'),
('form', '{}', 'different', 'raw', 'form', '', '='),
('form', '{}', 'different', 'raw', 'form', 'a=%', 'a=%25'),
('form', '{}', 'different', 'raw', 'form', 'a=%4', 'a=%04'),
('form', '{}', 'different', 'raw', 'form', 'a=%4x', 'a=%254x'),
('form', '{}', 'different', 'raw', 'form', 'a=1&b=2%', 'a=1&b=2%25'),
('form', '{}', 'different', 'raw', 'form', 'a=x y', 'a=x+y'),
('form', '{}', 'different', 'raw', 'form', E'a=1\n', 'a=1'),
('form', '{}', 'different', 'raw', 'form', 'a=货', 'a=%E8%B4%A7'),
('form', '{}', 'different', 'raw', 'form', '{"a": "="}', 'a=1'),
('form', '{}', 'different', 'raw', 'raw', '{"a":1,"b":2}', '{"b":2,"a":1}'),
-- names to ignore are decoded, and have no steps
('form', '{notify_time,sign}', 'same', 'form', 'form', 'amount=1&notify_time=10%3A00&sign=x', 'sign=y%3D%3D&amount=1&notify_time=10:04'),
('form', '{notify_time,sign}', 'different', 'form', 'form', 'amount=1&sign=x', 'amount=2&sign=x'),
('form', '{notify_time,sign}', 'same', 'form', 'form', 'sign=1&a=1&si%67n=2', 'a=1'),
('form', '{notify_time,sign}', 'different', 'form', 'form', 'sign_type=RSA&a=1', 'sign_type=RSA2&a=1'),
('form', '{notify_time,sign}', 'different', 'raw', 'raw', 'sign=%&a=1', 'sign=%%&a=1'),
('form', ARRAY['a&b=c d%+'], 'same', 'form', 'form', 'a%26b%3Dc+d%25%2B=1&x=1', 'a%26b%3dc%20d%25%2b=2&x=1'),
('form', ARRAY['a&b=c d%+'], 'different', 'form', 'form', 'a&b=1', 'a&b=2'),
('form', ARRAY['a.b', 'c\'], 'same', 'form', 'form', 'a.b=1&c%5C=1&x=1', 'a%2Eb=2&c\=2&x=1'),
('form', ARRAY['签名'], 'same', 'form', 'form', '%E7%AD%BE%E5%90%8D=1&x=1', '%e7%ad%be%e5%90%8d=2&x=1'),
('form', '{no_such}', 'same', 'form', 'form', 'a=1&b=2', 'b=2&a=1');
INSERT INTO pair (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('form', '{}', 'different', 'raw', 'form', '\357\273\277a=1', 'a=1'),
('form', '{}', 'different', 'raw', 'form', 'a=\377', 'a=%FF'),
('form', '{}', 'different', 'raw', 'form', 'a=\000', 'a=%00'),
('form', '{}', 'different', 'raw', 'form', 'a=\273\365', 'a=%BB%F5'),
('form', '{}', 'same', 'raw', 'raw', 'a=\273\365', 'a=\273\365');

-- xml: the flat one of WeChat Pay, whose elements are pairs in any order
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>1</a><b>2</b></xml>', '<xml><b>2</b><a>1</a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a><b>2</b></xml>', '<xml><a>1</a><b>3</b></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a><b>2</b></xml>', '<xml><a>2</a><b>1</b></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a></xml>', '<xml><A>1</A></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>1</a><b>2</b></xml>', E'<?xml version="1.0" encoding="UTF-8"?>\n<xml >\n\t<a >1</a>\r\n <b>2</b\n>\n</xml >\n'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>1</a></xml>', '<?xml version=''1.0'' encoding = ''utf-8'' standalone=''yes'' ?><xml><a>1</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>1</a></xml>', '<xml><a><![CDATA[1]]></a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>123</a></xml>', '<xml><a>1<![CDATA[2]]><![CDATA[]]>3</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a><![CDATA[<&>"'']]></a></xml>', '<xml><a>&lt;&amp;&gt;&quot;&apos;</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>>"''</a></xml>', '<xml><a>&#62;&#x22;&#39;</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>货😀</a></xml>', '<xml><a>&#x8d27;&#128512;</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>&#x1F600;</a></xml>', '<xml><a>&#x000001f600;</a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>&lt;</a></xml>', '<xml><a><![CDATA[&lt;]]></a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>&amp;lt;</a></xml>', '<xml><a>&lt;</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>]]&gt;</a></xml>', '<xml><a><![CDATA[]]]]><![CDATA[>]]></a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>+</a></xml>', '<xml><a> </a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>%31</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a><b>2</b></xml>', '<xml><a>1&amp;b=2</a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a><b>2</b></xml>', '<xml><a><![CDATA[1</a><b>2]]></a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a></xml>', '<xml><a>1.0</a></xml>'),
-- white space within an element counts, but a line ends as it likes
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a></xml>', '<xml><a> 1</a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a></a></xml>', '<xml><a> </a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a><![CDATA[]]></a></xml>', E'<xml><a>\n</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', E'<xml><a>1\n2\n</a></xml>', E'<xml><a>1\r\n2\r</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', E'<xml><a>1\n2</a></xml>', E'<xml><a><![CDATA[1\r\n2]]></a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', E'<xml><a>1\n2</a></xml>', '<xml><a>1&#13;&#10;2</a></xml>'),
-- empty elements, and elements are counted
('xml', '{}', 'same', 'xml', 'xml', '<xml><a/></xml>', '<xml><a></a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a /></xml>', '<xml><a><![CDATA[]]></a></xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a/></xml>', '<xml></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml/>', '<xml> </xml>'),
('xml', '{}', 'different', 'xml', 'xml', '<xml><a>1</a><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><a>1</a><a>2</a></xml>', '<xml><a>2</a><a>1</a></xml>'),
('xml', '{}', 'same', 'xml', 'xml', '<xml><_a.b-c1>1</_a.b-c1></xml>', '<xml><_a.b-c1>&#49;</_a.b-c1></xml>'),
-- all other XML is compared as it is
('xml', '{}', 'different', 'raw', 'xml', '<xml><a x="1">1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml x="1"><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a><b>1</b></a></xml>', '<xml><b>1</b></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><!-- one --><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1<!-- one --></a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<!DOCTYPE xml [<!ENTITY e "1">]><xml><a>&e;</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<!DOCTYPE xml><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<?x y?><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1<?x y?></a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml>1<a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><![CDATA[ ]]><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<root><a>1</a></root>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<XML><a>1</a></XML>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><x:a>1</x:a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><ä>1</ä></xml>', '<xml> <ä>1</ä></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<?xml version="1.0" encoding="GBK"?><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<?xml version="1.0" encoding="UTF8"?><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<?xml version="1.1"?><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<?xml?><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', ' <?xml version="1.0"?><xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
-- what is not well-formed, too
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</b></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</aa></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</A></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml>< a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</ a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><1a>1</1a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</a>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</a></xml', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</a></xml>x', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</a></xml><xml/>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xmla><a>1</a></xmla>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>]]></a></xml>', '<xml><a>]]&gt;</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a><![CDATA[1]]</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>&</a></xml>', '<xml><a>&amp;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&nbsp;</a></xml>', '<xml> <a>&nbsp;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&AMP;</a></xml>', '<xml> <a>&AMP;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#;</a></xml>', '<xml> <a>&#;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#X31;</a></xml>', '<xml> <a>&#X31;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#49</a></xml>', '<xml> <a>&#49</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#0;</a></xml>', '<xml> <a>&#0;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#1;</a></xml>', '<xml> <a>&#1;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#xD83D;</a></xml>', '<xml> <a>&#xD83D;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#xFFFE;</a></xml>', '<xml> <a>&#xFFFE;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#x110000;</a></xml>', '<xml> <a>&#x110000;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '<xml><a>&#x100000031;</a></xml>', '<xml> <a>&#x100000031;</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', E'<xml><a>\x01</a></xml>', E'<xml> <a>\x01</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', E'<xml><a>\uffff</a></xml>', E'<xml> <a>\uffff</a></xml>'),
('xml', '{}', 'different', 'raw', 'raw', '', ' '),
('xml', '{}', 'different', 'raw', 'raw', '{"a":1,"b":2}', '{"b":2,"a":1}'),
-- names to ignore
('xml', '{nonce_str,sign}', 'same', 'xml', 'xml', '<xml><fee>1</fee><nonce_str>x</nonce_str><sign>x</sign></xml>', '<xml><sign><![CDATA[y]]></sign><nonce_str>y</nonce_str><fee>1</fee></xml>'),
('xml', '{nonce_str,sign}', 'different', 'xml', 'xml', '<xml><fee>1</fee><sign>x</sign></xml>', '<xml><fee>2</fee><sign>x</sign></xml>'),
('xml', '{nonce_str,sign}', 'same', 'xml', 'xml', '<xml><sign>x</sign><a>1</a><sign/></xml>', '<xml><a>1</a></xml>'),
('xml', '{nonce_str,sign}', 'same', 'xml', 'xml', '<xml><sign>x</sign></xml>', '<xml/>'),
('xml', '{nonce_str,sign}', 'different', 'xml', 'xml', '<xml><sign_type>MD5</sign_type></xml>', '<xml><sign_type>SHA</sign_type></xml>'),
('xml', '{nonce_str,sign}', 'different', 'raw', 'raw', '<xml><sign><a/></sign></xml>', '<xml><sign></sign ></xml x>'),
('xml', '{a.b,"c d"}', 'same', 'xml', 'xml', '<xml><a.b>1</a.b><a>1</a></xml>', '<xml><a.b>2</a.b><a>1</a></xml>'),
('xml', '{no_such}', 'different', 'xml', 'xml', '<xml><a>1</a></xml>', '<xml><a>2</a></xml>');
INSERT INTO pair (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('xml', '{}', 'different', 'raw', 'xml', '\357\273\277<xml><a>1</a></xml>', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>\377</a></xml>', '<xml><a>\303\277</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>1</a></xml>\000', '<xml><a>1</a></xml>'),
('xml', '{}', 'different', 'raw', 'xml', '<xml><a>\273\365</a></xml>', '<xml><a>\350\264\247</a></xml>'),
('xml', '{}', 'same', 'raw', 'raw', '<xml><a>\273\365</a></xml>', '<xml><a>\273\365</a></xml>');

-- a body that is, byte for byte, another's canonical form
INSERT INTO spelled (mode, ignore, expected, mode_a, mode_b, a, b) VALUES
('xml', '{}', 'different', 'xml', 'raw', '<xml><a>1</a></xml>', 'a=1'),
('xml', '{}', 'different', 'xml', 'raw', '<xml/>', ''),
('xml', '{nonce_str,sign}', 'different', 'xml', 'raw', '<xml><sign>x</sign></xml>', ''),
('form', '{notify_time,sign}', 'different', 'form', 'raw', 'sign=x', ''),
('form', '{}', 'same', 'form', 'form', 'b=x+y&a=1', 'a=1&b=x%20y'),
('json', '{}', 'same', 'json', 'json', '{"b": "\u00e4", "a": 1.50}', '{"a":1.5,"b":"ä"}');

INSERT INTO pair (mode, ignore, expected, mode_a, mode_b, a, b)
SELECT mode, ignore, expected, mode_a, mode_b, convert_to(a, 'UTF8'), convert_to(b, 'UTF8') FROM spelled ORDER BY n;
SELECT mode, expected, count(*) FROM pair GROUP BY 1, 2 ORDER BY 1, 2;

-- a channel for each mode and list
CREATE FUNCTION channel(mode text, ignore text[]) RETURNS text LANGUAGE sql AS $$
	SELECT mode || ' ' || ignore::text $$;
SELECT count(*) FROM (SELECT DISTINCT mode, ignore FROM pair) AS p,
	LATERAL notify_channel_add(channel(mode, ignore), digest => mode, ignore => ignore);
CREATE TABLE digested AS
SELECT p.*, x.digest AS digest_a, x.canonical AS canonical_a, x.mode AS made_a,
	y.digest AS digest_b, y.canonical AS canonical_b, y.mode AS made_b
FROM pair AS p, LATERAL notify_digest(channel(p.mode, ignore), a) AS x,
	LATERAL notify_digest(channel(p.mode, ignore), b) AS y;

-- those that are not as expected: none
SELECT n, mode, ignore, encode(a, 'escape') AS a, encode(b, 'escape') AS b, made_a, made_b, digest_a = digest_b AS same_digest
FROM digested
WHERE (CASE WHEN made_a = made_b AND digest_a = digest_b THEN 'same' ELSE 'different' END, made_a, made_b)
	IS DISTINCT FROM (expected, mode_a, mode_b)
ORDER BY n;
-- the mode alone tells the canonical form from the body that looks like it
SELECT encode(a, 'escape') AS a, made_a, encode(b, 'escape') AS b, made_b
FROM digested WHERE digest_a = digest_b AND made_a <> made_b ORDER BY n;

-- and none here: each digest is the SHA-256 of the canonical form, which for raw is the body
CREATE VIEW body AS
SELECT n, mode, ignore, a AS body, digest_a AS digest, canonical_a AS canonical, made_a AS made FROM digested
UNION ALL
SELECT n, mode, ignore, b, digest_b, canonical_b, made_b FROM digested;
SELECT n, mode, ignore, encode(body, 'escape') AS body, canonical FROM body
WHERE digest <> encode(sha256(CASE made WHEN 'raw' THEN body ELSE convert_to(canonical, 'UTF8') END), 'hex')
ORDER BY n;
-- bytes that are no text are shown in hexadecimal
SELECT DISTINCT encode(body, 'escape') AS body, canonical FROM body
WHERE made = 'raw' AND octet_length(body) < 5 AND canonical LIKE '\\x%' ORDER BY 1;
-- the canonical form of a canonical form is itself: none
SELECT n, body.mode, ignore, body.canonical, again.canonical AS again
FROM body, LATERAL notify_digest(channel(body.mode, ignore), body.canonical) AS again
WHERE made IN ('json', 'form') AND body.canonical <> ''
	AND (again.digest, again.canonical, again.mode) IS DISTINCT FROM (body.digest, body.canonical, made)
ORDER BY n;
-- and JSON that says what the body says, as far as jsonb can tell: none
SELECT n, encode(body, 'escape') AS body, canonical FROM body
WHERE CASE WHEN made = 'json' AND ignore = '{}' AND canonical !~ '\\u(0000|d[8-f])' AND encode(body, 'escape') !~* '\de[+-]?\d{5}'
	THEN canonical::jsonb <> convert_from(body, 'UTF8')::jsonb END
ORDER BY n;
-- text and bytes are one notice
SELECT count(*), bool_and(x.digest = body.digest) AS same
FROM body, LATERAL notify_digest(channel(body.mode, ignore), convert_from(body, 'UTF8')) AS x
WHERE made <> 'raw';

-- some to read
SELECT v.mode, v.body, x.canonical, x.mode AS made
FROM (VALUES
	(1, 'json', '{}'::text[], '{"b" : [1.50, -0, 1E3, 0.001, 12e30, 1e-30], "a": {"y": null, "x": true}}'),
	(2, 'json', '{}', '"\u00e4 \/ \" \\ \u0009 \u0000 \ud83d\ude00 \uDEAD"'),
	(3, 'json', '{}', '[123456789012345678901234567890123456789.0, -1e1000000000, 0.10000000000000000001]'),
	(4, 'json', '{}', '[1e20, 1e21, 1.5e21, 12e20, 1.5e-20, 1e-21, 1e-22, 123.4e-1, -12.30e-22]'),
	(5, 'json', '{notify_time,sign}', '{"sign": "x", "amount": "10.00", "notify_time": "2024-11-11 10:00:04"}'),
	(6, 'json', '{items.at}', '{"items": [{"at": 1, "id": 2}, {"at": 3}, [], 4]}'),
	(7, 'json', '{}', '{"a": 1, "a": 2}'),
	(8, 'form', '{}', 'b=x+y&a=%e8%b4%a7&b=%41~&&c&d=e=f'),
	(9, 'form', '{notify_time,sign}', 'sign=x%3D&amount=10.00&notify_time=10%3A00'),
	(10, 'form', '{}', 'amount'),
	(11, 'xml', '{nonce_str,sign}', '<xml><fee>1</fee><sign>x</sign><attach><![CDATA[a & b]]></attach><b>&#x8d27;</b><c/></xml>'),
	(12, 'xml', '{}', '<xml><a b="c">1</a></xml>')) AS v (n, mode, ignore, body),
	LATERAL notify_digest(channel(v.mode, ignore), v.body) AS x
ORDER BY n;

-- delivered: the first is applied, the second is its replay or a conflict
SELECT notify_event_add('push');
SELECT a.outcome, a.replayed, count(*)
FROM pair, LATERAL handle_notify(n::text, 'push', '1', a, channel(mode, ignore)) AS a GROUP BY 1, 2;
SELECT expected, a.outcome, a.replayed, count(*)
FROM pair, LATERAL handle_notify(n::text, 'push', '1', b, channel(mode, ignore)) AS a GROUP BY 1, 2, 3 ORDER BY 1;
-- the claim says what made its digest, a fallback included
SELECT r.mode AS rule, digest_mode, count(*), bool_and(c.payload_hash = d.digest_a AND digest_mode = made_a) AS as_shown
FROM notify_claim AS c JOIN digested AS d ON c.biz_key = d.n || ':push'
	LEFT JOIN notify_digest_rule AS r ON r.id = c.digest_rule
GROUP BY 1, 2 ORDER BY 1, 2;

-- what a list cannot hold
CREATE FUNCTION list(mode text, entry text) RETURNS text LANGUAGE sql AS $$
	SELECT left(attempt(format('SELECT notify_channel_add(%L, digest => %L, ignore => ARRAY[%L])', mode || '/' || entry, mode, entry)), 5) $$;
SELECT entry, list('json', entry) AS json, list('form', entry) AS form, list('xml', entry) AS xml, list('raw', entry) AS raw
FROM unnest(ARRAY['', '.', '.a', 'a.', 'a..b', 'a\', 'a\b', 'a.\', 'a\.', 'a']) AS entry;
SELECT attempt('SELECT notify_channel_add(''new'', digest => ''json'', ignore => ARRAY[''a'', ''b..c''])');
SELECT attempt('SELECT notify_channel_add(''new'', digest => ''form'', ignore => ARRAY[''''])');

-- however deep or long, and the backend lives
SELECT what, channel, d.mode, length(d.canonical) AS canonical
FROM (VALUES
	(1, 'brackets', repeat('[', 200000)),
	(2, 'brackets that are closed', repeat('[', 200000) || repeat(']', 200000)),
	(3, 'braces', repeat('{"a":', 200000)),
	(4, 'both', repeat('[{"a":', 100000) || '1' || repeat('}]', 100000)),
	(5, 'neighbours', '[' || repeat('[],', 200000) || '[]]'),
	(6, 'names', (SELECT '{' || string_agg(format('"%s":%s', 300001 - n, n), ',') || '}' FROM generate_series(100001, 200000) AS n)),
	(7, 'quotes', repeat('"', 200000)),
	(8, 'backslashes', '"' || repeat('\', 200000) || '"'),
	(9, 'elements', '<xml>' || repeat('<a>', 200000)),
	(10, 'zeros', '1' || repeat('0', 1000000) || 'e-1000000'),
	(11, 'minus signs', repeat('-', 200000))) AS v (n, what, body),
	unnest(ARRAY['json {}', 'form {}', 'xml {}']) AS channel, LATERAL notify_digest(channel, body) AS d
WHERE channel = 'json {}' OR n IN (1, 9)
ORDER BY n, channel;
SELECT mode, length(canonical) FROM notify_digest('json {}', '1' || repeat('0123456789', 2621440));
SELECT mode, length(canonical) FROM notify_digest('json {}', '"' || repeat('0123456789abcde\/', 1638400) || '"');

-- cases 31 to 33: bytes are taken in every mode
CREATE TABLE delivered (name text PRIMARY KEY, bytes bytea);
INSERT INTO delivered VALUES
	('empty', ''),
	('nul', '\000'),
	('nul escape', '{"a": "\\u0000"}'),
	('lone surrogate', '{"a": "\\ud800"}'),
	('invalid utf8', '\377'),
	('gbk', '\273\365\277\356'),
	('gbk in form', '\273\365=\277\356'),
	('gbk in xml', '<xml><a>\273\365\277\356</a></xml>'),
	('nul in xml', '<xml><a>\000</a></xml>'),
	('25 MB of json', convert_to('"' || repeat('0123456789abcdef', 1638400) || '"', 'UTF8')),
	('25 MB of form', convert_to('a=' || repeat('0123456789abcdef', 1638400), 'UTF8')),
	('25 MB of xml', convert_to('<xml><a>' || repeat('0123456789abcdef', 1638400) || '</a></xml>', 'UTF8'));
ALTER TABLE delivered ALTER bytes SET STORAGE EXTERNAL;
CREATE TABLE answered AS
SELECT name, mode, a.outcome FROM delivered, unnest(ARRAY['raw', 'json', 'form', 'xml']) AS mode,
	LATERAL handle_notify(name, 'push', '1', bytes, channel(mode, '{}')) AS a
WHERE name !~ '25 MB' OR name ~ mode;
SELECT name, bool_and(answered.outcome = 'APPLIED') AS applied,
	string_agg(mode, ' ' ORDER BY mode) FILTER (WHERE digest_mode = 'raw') AS raw,
	string_agg(mode, ' ' ORDER BY mode) FILTER (WHERE digest_mode <> 'raw') AS other,
	bool_and(payload_hash = encode(sha256(bytes), 'hex')) FILTER (WHERE digest_mode = 'raw') AS sha256
FROM delivered JOIN answered USING (name) JOIN notify_claim AS c ON c.biz_key = name || ':push' AND c.channel = channel(mode, '{}')
GROUP BY 1 ORDER BY 1;
SELECT a.outcome, a.replayed, count(*) FROM answered JOIN delivered USING (name),
	LATERAL handle_notify(name, 'push', '1', bytes, channel(mode, '{}')) AS a
WHERE name !~ '25 MB' GROUP BY 1, 2;
SELECT a.outcome, count(*) FROM answered JOIN delivered USING (name),
	LATERAL handle_notify(name, 'push', '1', bytes || '\000', channel(mode, '{}')) AS a
WHERE name !~ '25 MB' GROUP BY 1;
SELECT mode, attempt(format('SELECT handle_notify(''null'', ''push'', ''1'', NULL::bytea, %L)', channel(mode, '{}')))
FROM unnest(ARRAY['raw', 'json', 'form', 'xml']) AS mode;
-- a channel's own limit is that of the body, not of its canonical form
SELECT notify_channel_add('short', digest => 'json', max_body => 20);
SELECT attempt(format('SELECT outcome FROM handle_notify(%L, ''push'', ''1'', %L, ''short'')', length(body), body))
FROM unnest(ARRAY['{"a": 12345678901234', '{"a": 1234567890123}', '{"a": 12345678901234}', '{"a": 1             }']) AS body;

DROP VIEW body;
DROP TABLE pair, spelled, digested, delivered, answered;
DROP FUNCTION list;

-- Each preset: a first notice, a redelivery that differs in what the provider
-- may change, and spelled anew where the digest does not look at that, and the
-- same with another amount.
CREATE TABLE shop_order (order_no text PRIMARY KEY, status text NOT NULL);
SELECT notify_machine_add('shop_order', 'order_no', 'status');
CREATE TABLE notice (
	preset text, txn text, event text, order_no text PRIMARY KEY,
	amount text, other text, first text, again text);

INSERT INTO notice VALUES ('stripe', 'evt_1RfTq8HwL0pXs9VnbC3dY6kM', 'payment_intent.succeeded', 'S-1', '4217', '4317',
'{
  "id": "evt_1RfTq8HwL0pXs9VnbC3dY6kM",
  "object": "event",
  "api_version": "2024-09-30.acacia",
  "created": 1731294123,
  "data": {
    "object": {
      "id": "pi_1RfTq7HwL0pXs9Vn8aZx5uQe",
      "object": "payment_intent",
      "amount": 4217,
      "amount_received": 4217,
      "currency": "eur",
      "latest_charge": "ch_1RfTq7HwL0pXs9Vn0mPe4wRt",
      "metadata": {
        "order_no": "S-1",
        "customer": "Zoë"
      },
      "status": "succeeded"
    }
  },
  "livemode": true,
  "pending_webhooks": 1,
  "request": {
    "id": null,
    "idempotency_key": "5b0f7a52-91c3-4e0e-8d4f-3c2a7e61b9d8"
  },
  "type": "payment_intent.succeeded"
}',
'{"api_version":"2024-09-30.acacia","created":1731294123,"data":{"object":{"amount":4217,"amount_received":4217.00,"currency":"eur","id":"pi_1RfTq7HwL0pXs9Vn8aZx5uQe","latest_charge":"ch_1RfTq7HwL0pXs9Vn0mPe4wRt","metadata":{"customer":"Zo\u00eb","order_no":"S-1"},"object":"payment_intent","status":"succeeded"}},"id":"evt_1RfTq8HwL0pXs9VnbC3dY6kM","livemode":true,"object":"event","pending_webhooks":1.0,"request":{"id":null,"idempotency_key":"5b0f7a52-91c3-4e0e-8d4f-3c2a7e61b9d8"},"type":"payment_intent.succeeded"}');

INSERT INTO notice VALUES ('alipay', '2024111122001447280512345678', 'TRADE_SUCCESS', 'A-1', '42.17', '43.17',
concat_ws('&', 'gmt_create=2024-11-11+10%3A01%3A40', 'charset=utf-8', 'seller_email=pay%40tea.example', 'subject=%E8%8C%B6%E5%8F%B6+500g',
	'sign=kP0vJq7%2BRk9mZ3w%2FyT1uXg%3D%3D', 'buyer_id=2088200012345671', 'invoice_amount=42.17', 'notify_id=2024111100222100204047280598765432',
	'fund_bill_list=%5B%7B%22amount%22%3A%2242.17%22%2C%22fundChannel%22%3A%22PCREDIT%22%7D%5D', 'notify_type=trade_status_sync',
	'trade_status=TRADE_SUCCESS', 'receipt_amount=42.17', 'buyer_pay_amount=42.17', 'app_id=2021009876543210', 'sign_type=RSA2',
	'seller_id=2088700087654320', 'gmt_payment=2024-11-11+10%3A02%3A03', 'notify_time=2024-11-11+10%3A02%3A04', 'version=1.0',
	'out_trade_no=A-1', 'total_amount=42.17', 'trade_no=2024111122001447280512345678', 'auth_app_id=2021009876543210', 'point_amount=0.00'),
concat_ws('&', 'app_id=2021009876543210', 'auth_app_id=2021009876543210', 'buyer_id=2088200012345671', 'buyer_pay_amount=42.17', 'charset=utf-8',
	'fund_bill_list=[%7b%22amount%22:%2242.17%22,%22fundChannel%22:%22PCREDIT%22%7d]', 'gmt_create=2024-11-11%2010:01:40',
	'gmt_payment=2024-11-11%2010:02:03', 'invoice_amount=42.17', 'notify_id=2024111100222100204047280598765432',
	'notify_time=2024-11-11%2010:06:05', 'notify_type=trade_status_sync', 'out_trade_no=A-1', 'point_amount=0.00', 'receipt_amount=42.17',
	'seller_email=pay@tea.example', 'seller_id=2088700087654320', 'sign=d8Wc2%2FnL5aQe%2BhT0oYvE1g%3D%3D', 'sign_type=RSA2',
	'subject=%e8%8c%b6%e5%8f%b6%20500g', 'total_amount=42.17', 'trade_no=2024111122001447280512345678', 'trade_status=TRADE_SUCCESS', 'version=1.0'));

INSERT INTO notice VALUES ('wechat_v2', '4200002411202411119876543210', 'PAY_SUCCESS', 'W-1', '4217', '4317',
'<xml><appid><![CDATA[wx7c0e5a91d3b2f846]]></appid>
<attach><![CDATA[茶叶 & 杯]]></attach>
<bank_type><![CDATA[CMB_CREDIT]]></bank_type>
<cash_fee><![CDATA[4217]]></cash_fee>
<fee_type><![CDATA[CNY]]></fee_type>
<is_subscribe><![CDATA[Y]]></is_subscribe>
<mch_id><![CDATA[1602233445]]></mch_id>
<nonce_str><![CDATA[q3v9m1x7c5z8k2j4h6g0f8d1s3a5p7o9]]></nonce_str>
<openid><![CDATA[oT4bR5xk_Yq8WmN2sLz0VhGc6JdE]]></openid>
<out_trade_no><![CDATA[W-1]]></out_trade_no>
<result_code><![CDATA[SUCCESS]]></result_code>
<return_code><![CDATA[SUCCESS]]></return_code>
<sign><![CDATA[7D1C9A04E5B83F62A1907C4E58D3B6F0]]></sign>
<time_end><![CDATA[20241111100203]]></time_end>
<total_fee>4217</total_fee>
<trade_type><![CDATA[JSAPI]]></trade_type>
<transaction_id><![CDATA[4200002411202411119876543210]]></transaction_id>
</xml>',
'<xml><transaction_id>4200002411202411119876543210</transaction_id><return_code>SUCCESS</return_code><result_code>SUCCESS</result_code><appid>wx7c0e5a91d3b2f846</appid><mch_id>1602233445</mch_id><nonce_str>b8n2v6c4x1z9l7k5j3h1g0f2d4s6a8q0</nonce_str><sign>0F6B3D85E4C7091A26F38B5E40A9C1D7</sign><openid>oT4bR5xk_Yq8WmN2sLz0VhGc6JdE</openid><is_subscribe>Y</is_subscribe><trade_type>JSAPI</trade_type><bank_type>CMB_CREDIT</bank_type><total_fee>4217</total_fee><cash_fee>4217</cash_fee><fee_type>CNY</fee_type><out_trade_no>W-1</out_trade_no><attach>茶叶 &amp; 杯</attach><time_end>20241111100203</time_end></xml>');

-- the decrypted resource, and the envelope with that in the place of the encrypted one
INSERT INTO notice VALUES ('wechat_v3', '4200002411202411115566778899', 'TRANSACTION.SUCCESS', 'W-2', '4217', '4317',
'{"mchid":"1602233445","appid":"wx7c0e5a91d3b2f846","out_trade_no":"W-2","transaction_id":"4200002411202411115566778899","trade_type":"JSAPI","trade_state":"SUCCESS","trade_state_desc":"支付成功","bank_type":"CMB_CREDIT","attach":"","success_time":"2024-11-11T10:02:03+08:00","payer":{"openid":"oT4bR5xk_Yq8WmN2sLz0VhGc6JdE"},"amount":{"total":4217,"payer_total":4217,"currency":"CNY","payer_currency":"CNY"}}',
'{
	"amount": {"currency": "CNY", "payer_currency": "CNY", "payer_total": 4217, "total": 4217},
	"appid": "wx7c0e5a91d3b2f846", "attach": "", "bank_type": "CMB_CREDIT", "mchid": "1602233445", "out_trade_no": "W-2",
	"payer": {"openid": "oT4bR5xk_Yq8WmN2sLz0VhGc6JdE"}, "success_time": "2024-11-11T10:02:03+08:00",
	"trade_state": "SUCCESS", "trade_state_desc": "\u652f\u4ed8\u6210\u529f", "trade_type": "JSAPI",
	"transaction_id": "4200002411202411115566778899"
}'),
('wechat_v3', '4200002411202411115566778900', 'TRANSACTION.SUCCESS', 'W-3', '4217', '4317',
'{"id":"c2f1a7d0-5b3e-5f64-9a8c-1d2e3f4a5b6c","create_time":"2024-11-11T10:02:04+08:00","event_type":"TRANSACTION.SUCCESS","resource_type":"encrypt-resource","summary":"支付成功","resource":{"original_type":"transaction","algorithm":"AEAD_AES_256_GCM","associated_data":"transaction","nonce":"x7Kq2Lm9PzRt","out_trade_no":"W-3","transaction_id":"4200002411202411115566778900","trade_state":"SUCCESS","amount":{"total":4217,"currency":"CNY"}}}',
'{"id":"77e0b9c4-0a1d-5c2e-8f3a-6b5c4d3e2f10","create_time":"2024-11-11T10:02:19+08:00","resource_type":"encrypt-resource","event_type":"TRANSACTION.SUCCESS","summary":"支付成功","resource":{"original_type":"transaction","algorithm":"AEAD_AES_256_GCM","nonce":"Vb3Nw8Yc1DfG","associated_data":"transaction","transaction_id":"4200002411202411115566778900","out_trade_no":"W-3","trade_state":"SUCCESS","amount":{"total":4217.0,"currency":"CNY"}}}');

INSERT INTO notice VALUES ('paypal', 'WH-6KD81927XA405312B-9TM55310PL7718429', 'PAYMENT.CAPTURE.COMPLETED', 'P-1', '42.17', '43.17',
'{"id":"WH-6KD81927XA405312B-9TM55310PL7718429","event_version":"1.0","create_time":"2024-11-11T02:02:04.113Z","resource_type":"capture","resource_version":"2.0","event_type":"PAYMENT.CAPTURE.COMPLETED","summary":"Captured","resource":{"id":"8AB73019KL556224C","status":"COMPLETED","amount":{"currency_code":"EUR","value":"42.17"},"final_capture":true,"custom_id":"P-1","seller_protection":{"status":"ELIGIBLE","dispute_categories":["ITEM_NOT_RECEIVED","UNAUTHORIZED_TRANSACTION"]},"seller_receivable_breakdown":{"gross_amount":{"currency_code":"EUR","value":"42.17"},"paypal_fee":{"currency_code":"EUR","value":"1.61"},"net_amount":{"currency_code":"EUR","value":"40.56"}},"create_time":"2024-11-11T02:01:59Z"},"links":[{"href":"https://api.paypal.example/v1/notifications/webhooks-events/WH-6KD81927XA405312B-9TM55310PL7718429","rel":"self","method":"GET"}]}',
'{"create_time": "2024-11-11T02:02:04.113Z", "event_type": "PAYMENT.CAPTURE.COMPLETED", "event_version": "1.0", "id": "WH-6KD81927XA405312B-9TM55310PL7718429", "links": [{"href": "https:\/\/api.paypal.example\/v1\/notifications\/webhooks-events\/WH-6KD81927XA405312B-9TM55310PL7718429", "method": "GET", "rel": "self"}], "resource": {"amount": {"currency_code": "EUR", "value": "42.17"}, "create_time": "2024-11-11T02:01:59Z", "custom_id": "P-1", "final_capture": true, "id": "8AB73019KL556224C", "seller_protection": {"dispute_categories": ["ITEM_NOT_RECEIVED", "UNAUTHORIZED_TRANSACTION"], "status": "ELIGIBLE"}, "seller_receivable_breakdown": {"gross_amount": {"currency_code": "EUR", "value": "42.17"}, "net_amount": {"currency_code": "EUR", "value": "40.56"}, "paypal_fee": {"currency_code": "EUR", "value": "1.61"}}, "status": "COMPLETED"}, "resource_type": "capture", "resource_version": "2.0", "summary": "Captured"}');

-- the batch as it comes, and one item of it alone
INSERT INTO notice VALUES ('adyen', 'QX7M2LK9PRT4VN83', 'AUTHORISATION.true', 'Y-1', '4217', '4317',
'{"live":"true","notificationItems":[{"NotificationRequestItem":{"additionalData":{"authCode":"058713","cardSummary":"4242","expiryDate":"03\/2030","hmacSignature":"m3QvT8rX1kZpW6yB0nLcJ5hGfD2sA9eUiO7tR4qVxYw="},"amount":{"currency":"EUR","value":4217},"eventCode":"AUTHORISATION","eventDate":"2024-11-11T10:02:03+01:00","merchantAccountCode":"TeaExampleECOM","merchantReference":"Y-1","operations":["CANCEL","CAPTURE","REFUND"],"paymentMethod":"visa","pspReference":"QX7M2LK9PRT4VN83","reason":"058713:4242:03\/2030","success":"true"}}]}',
'{"live": "true", "notificationItems": [{"NotificationRequestItem": {"amount": {"value": 4217, "currency": "EUR"}, "additionalData": {"hmacSignature": "u0YtB4wE8rZ1xQ6pN3mK9jH5gF7dS2aLcV0iO8eUyTq=", "expiryDate": "03/2030", "cardSummary": "4242", "authCode": "058713"}, "eventDate": "2024-11-11T10:02:11+01:00", "eventCode": "AUTHORISATION", "merchantAccountCode": "TeaExampleECOM", "merchantReference": "Y-1", "operations": ["CANCEL", "CAPTURE", "REFUND"], "paymentMethod": "visa", "pspReference": "QX7M2LK9PRT4VN83", "reason": "058713:4242:03/2030", "success": "true"}}]}'),
('adyen', 'QX7M2LK9PRT4VN84', 'AUTHORISATION.true', 'Y-2', '4217', '4317',
'{"additionalData":{"hmacSignature":"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V="},"amount":{"currency":"EUR","value":4217},"eventCode":"AUTHORISATION","eventDate":"2024-11-11T10:02:03+01:00","merchantAccountCode":"TeaExampleECOM","merchantReference":"Y-2","pspReference":"QX7M2LK9PRT4VN84","success":"true"}',
'{"additionalData":{},"amount":{"value":4217,"currency":"EUR"},"eventCode":"AUTHORISATION","eventDate":"2024-11-11T10:04:03+01:00","merchantAccountCode":"TeaExampleECOM","merchantReference":"Y-2","pspReference":"QX7M2LK9PRT4VN84","success":"true"}');

INSERT INTO notice VALUES ('github', '8d3c1f50-9fb2-11ef-8c4a-5e7f60a1b2c3', 'marketplace_purchase', 'G-1', '4217', '4317',
'{
  "action": "purchased",
  "effective_date": "2024-11-11T00:00:00+00:00",
  "sender": {"login": "zoe-tea", "id": 7301245, "type": "User", "site_admin": false},
  "marketplace_purchase": {
    "account": {"type": "Organization", "id": 5512098, "login": "tea-example", "organization_billing_email": "pay@tea.example"},
    "billing_cycle": "monthly",
    "unit_count": 3,
    "on_free_trial": false,
    "free_trial_ends_on": null,
    "next_billing_date": "2024-12-11T00:00:00+00:00",
    "plan": {"id": 9041, "name": "Team", "description": "for teams", "monthly_price_in_cents": 4217, "yearly_price_in_cents": 44800, "price_model": "PER_UNIT", "has_free_trial": false, "unit_name": "seat", "bullets": ["one", "two"]}
  }
}',
'{"action":"purchased","effective_date":"2024-11-11T00:00:00+00:00","marketplace_purchase":{"account":{"id":5512098,"login":"tea-example","organization_billing_email":"pay@tea.example","type":"Organization"},"billing_cycle":"monthly","free_trial_ends_on":null,"next_billing_date":"2024-12-11T00:00:00+00:00","on_free_trial":false,"plan":{"bullets":["one","two"],"description":"for teams","has_free_trial":false,"id":9041,"monthly_price_in_cents":4217,"name":"Team","price_model":"PER_UNIT","unit_name":"seat","yearly_price_in_cents":44800},"unit_count":3},"sender":{"id":7301245,"login":"zoe-tea","site_admin":false,"type":"User"}}');

INSERT INTO shop_order SELECT order_no, 'PENDING' FROM notice;
SELECT count(*) FROM (SELECT DISTINCT preset FROM notice) AS n, LATERAL notify_channel_add(preset, preset => preset);
SELECT count(*) FROM (SELECT DISTINCT event FROM notice) AS n,
	LATERAL notify_transition_add(event, 'PENDING', 'PAID', message_type => 'ORDER_PAID');

CREATE TABLE answer AS
SELECT preset, order_no, a.* FROM notice, LATERAL handle_notify(txn, event, order_no, first, preset) AS a;
SELECT preset, order_no, outcome, result, replayed, status, ack_status, ack_body FROM answer ORDER BY preset, order_no;
-- the redelivery, which is no copy: the same answer
SELECT preset, order_no, a.outcome, a.replayed, a.status, a.ack_status, a.ack_body,
	n.again <> n.first AS differs, (a.outcome, a.result, a.first_seen) = (f.outcome, f.result, f.first_seen) AS same_answer
FROM notice AS n JOIN answer AS f USING (preset, order_no),
	LATERAL handle_notify(txn, event, order_no, again, preset) AS a
ORDER BY preset, order_no;
-- another amount
SELECT preset, order_no, a.outcome, a.replayed, a.status, a.ack_status, a.ack_body,
	a.result -> 'first' = f.result AS first
FROM notice AS n JOIN answer AS f USING (preset, order_no),
	LATERAL handle_notify(txn, event, order_no, replace(again, amount, other), preset) AS a
ORDER BY preset, order_no;
SELECT status, count(*) FROM shop_order GROUP BY 1;
SELECT type, count(*) FROM notify_outbox WHERE aggregatetype = 'shop_order' GROUP BY 1;
-- what made the digest, and what the reviewer sees of the change
SELECT c.channel, c.order_no, r.mode AS rule, array_to_string(r.ignore, E'\n') AS ignore, c.digest_mode
FROM notify_claim AS c JOIN shop_order AS o USING (order_no) LEFT JOIN notify_digest_rule AS r ON r.id = c.digest_rule
ORDER BY 1, 2;
SELECT r.channel, r.order_no, d.* FROM notify_review AS r JOIN shop_order USING (order_no), LATERAL notify_review_diff(r.id) AS d
ORDER BY 1, 2, 3;
-- who hands in what WeChat encrypted gets a conflict, not a silence
SELECT a.outcome, a.replayed FROM unnest(ARRAY['aaaa', 'bbbb']) AS ciphertext, LATERAL handle_notify('encrypted', 'push', '1',
	format('{"id": "1", "event_type": "TRANSACTION.SUCCESS", "resource": {"nonce": "x", "ciphertext": "%s"}}', ciphertext), 'wechat_v3') AS a;

-- a body of another kind than the channel's is digested as it is, which the claim tells
SELECT preset, a.outcome FROM (SELECT DISTINCT preset FROM notice) AS n,
	LATERAL handle_notify('other', 'push', '1', '[1, 2', preset) AS a ORDER BY preset;
SELECT preset, a.outcome, a.replayed FROM (SELECT DISTINCT preset FROM notice) AS n,
	LATERAL handle_notify('other', 'push', '1', '[1, 2', preset) AS a ORDER BY preset;
SELECT preset, a.outcome FROM (SELECT DISTINCT preset FROM notice) AS n,
	LATERAL handle_notify('other', 'push', '1', '[1,2', preset) AS a ORDER BY preset;
SELECT c.channel, r.mode AS rule, c.digest_mode, c.payload_hash = encode(sha256('[1, 2'), 'hex') AS sha256
FROM notify_claim AS c JOIN notify_digest_rule AS r ON r.id = c.digest_rule WHERE biz_key = 'other:push' ORDER BY 1;

-- case 32: GitHub sends up to 25 MB
SELECT length, attempt(format('SELECT outcome FROM handle_notify(''big'', ''push'', ''1'', repeat(''a'', %s), ''github'')', length))
FROM unnest(ARRAY[26214401, 26214400]) AS length;

-- case 15: a conflict has changed neither hash nor result
SELECT bool_and(c.payload_hash = d.digest AND c.result_json = f.result) AS unchanged
FROM answer AS f JOIN notify_claim AS c ON (c.channel, c.order_no) = (f.preset, f.order_no)
	JOIN notice AS n ON n.order_no = f.order_no, LATERAL notify_digest(n.preset, n.first) AS d;

-- case 16: order of members and white space, and order of an array
SELECT channel, a.outcome, a.replayed FROM unnest(ARRAY['default', 'github']) AS channel,
	LATERAL handle_notify('case 16', 'push', '1', '{"a": [1, 2], "b": 3}', channel) AS a;
SELECT channel, a.outcome, a.replayed FROM unnest(ARRAY['default', 'github']) AS channel,
	LATERAL handle_notify('case 16', 'push', '1', '{"b":3,"a":[1,2]}', channel) AS a;
SELECT channel, a.outcome, a.replayed FROM unnest(ARRAY['default', 'github']) AS channel,
	LATERAL handle_notify('case 16', 'push', '1', '{"b":3,"a":[2,1]}', channel) AS a;

-- case 17: what is ignored differs, then the amount as well
SELECT notify_channel_add('shop', digest => 'json', ignore => '{notify_time,sign}');
SELECT outcome, replayed FROM handle_notify('case 17', 'push', '1', '{"amount": "10.00", "notify_time": "10:00", "sign": "x"}', 'shop');
SELECT outcome, replayed FROM handle_notify('case 17', 'push', '1', '{"amount": "10.00", "notify_time": "10:04", "sign": "y"}', 'shop');
SELECT outcome, replayed FROM handle_notify('case 17', 'push', '1', '{"amount": "1.00", "notify_time": "10:04", "sign": "y"}', 'shop');

-- case 18: another date each time.  The preset knows it; raw asks a person, once
CREATE FUNCTION dated(n int) RETURNS text LANGUAGE sql AS $$
	SELECT format('{"notificationItems": [{"NotificationRequestItem": {"pspReference": "PX1", "eventDate": "2024-11-11T10:00:0%s+01:00"}}]}', n) $$;
SELECT channel, a.outcome, a.replayed FROM unnest(ARRAY['adyen', 'default']) AS channel, LATERAL handle_notify('case 18', 'push', '1', dated(0), channel) AS a;
SELECT channel, a.outcome, a.replayed, count(*) FROM generate_series(1, 5) AS n, unnest(ARRAY['adyen', 'default']) AS channel,
	LATERAL handle_notify('case 18', 'push', '1', dated(n % 4 + 1), channel) AS a
GROUP BY 1, 2, 3 ORDER BY 1;
SELECT channel, kind, state, hits, variants, raw_body = convert_to(dated(2), 'UTF8') AS last FROM notify_review WHERE biz_key = 'case 18:push';
SELECT outcome, replayed FROM handle_notify('case 18', 'push', '1', dated(9));
SELECT channel_txn_id, hits, variants FROM notify_review_open WHERE channel_txn_id = 'case 18';
SELECT notify_review_resolve(id, 'DISMISS', 'only the date differs') FROM notify_review_open WHERE channel_txn_id = 'case 18';
SELECT outcome, replayed, status, ack_status, count(*) FROM generate_series(0, 9) AS n,
	LATERAL handle_notify('case 18', 'push', '1', dated(n)) AS a GROUP BY 1, 2, 3, 4;
SELECT state, hits, variants, note FROM notify_review WHERE biz_key = 'case 18:push';

-- case 19: a partial refund repeats transaction and status of the payment
SELECT a.outcome, a.status, a.result -> 'first' AS first, a.ack_body
FROM notice, LATERAL handle_notify(txn, event, order_no, again || '&refund_fee=12.00&gmt_refund=2024-11-12+09%3A00%3A00.123', preset) AS a
WHERE preset = 'alipay';
SELECT r.channel, r.hits, r.variants, d.* FROM notify_review_open AS r, LATERAL notify_review_diff(r.id) AS d WHERE channel = 'alipay' AND order_no = 'A-1';
SELECT a.outcome, a.replayed, a.result, o.status
FROM notice JOIN shop_order AS o USING (order_no), LATERAL handle_notify(txn, event, order_no, first, preset) AS a WHERE preset = 'alipay';
-- under the key that tells it from the payment it is a notice of its own
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUND_RECORDED');
SELECT a.outcome, a.result, a.ack_body
FROM notice, LATERAL handle_notify(txn || '/R-1', 'REFUND', order_no, again || '&refund_fee=12.00&gmt_refund=2024-11-12+09%3A00%3A00.123', preset) AS a
WHERE preset = 'alipay';

-- case 49: an ignore list that grows makes no conflicts of what was claimed before
SELECT notify_channel_add('grown', digest => 'form', ignore => '{notify_time}');
SELECT outcome FROM handle_notify('last week', 'push', '1', 'amount=1&notify_time=10%3A00&sign=x', 'grown');
SELECT notify_channel_set('grown', ignore => '{notify_time,sign}');
SELECT outcome, replayed FROM handle_notify('last week', 'push', '1', 'notify_time=10:04&sign=x&amount=1', 'grown');
SELECT outcome FROM handle_notify('today', 'push', '1', 'amount=1&notify_time=10%3A00&sign=x', 'grown');
SELECT outcome, replayed FROM handle_notify('today', 'push', '1', 'notify_time=10:04&sign=y&amount=1', 'grown');
SELECT outcome, replayed FROM handle_notify('today', 'push', '1', 'notify_time=10:04&sign=y&amount=2', 'grown');
-- last week's is still compared by what it was made by
SELECT outcome, replayed FROM handle_notify('last week', 'push', '1', 'amount=1&notify_time=10%3A04&sign=y', 'grown');
-- also when the channel has another digest by now, or none
SELECT notify_channel_set('grown', digest => 'json', ignore => '{a.b}');
SELECT outcome, replayed FROM handle_notify('last week', 'push', '1', 'sign=x&amount=1', 'grown');
SELECT outcome, replayed FROM handle_notify('today', 'push', '1', 'amount=1', 'grown');
SELECT notify_channel_set('grown', digest => 'raw');
SELECT outcome, replayed FROM handle_notify('last week', 'push', '1', 'sign=x&amount=1', 'grown');
SELECT outcome FROM handle_notify('tomorrow', 'push', '1', 'amount=1', 'grown');
SELECT notify_channel_set('grown', digest => 'form', ignore => '{sign,notify_time,sign}');
SELECT outcome, replayed FROM handle_notify('tomorrow', 'push', '1', 'amount=%31', 'grown');
SELECT c.biz_key, r.mode AS rule, r.ignore, c.digest_mode, c.digest_rule = h.digest_rule AS present
FROM notify_claim AS c JOIN notify_channel AS h USING (channel) LEFT JOIN notify_digest_rule AS r ON r.id = c.digest_rule
WHERE channel = 'grown' ORDER BY c.id;

DROP TABLE shop_order, notice, answer;
DROP FUNCTION channel, dated, attempt;
DROP EXTENSION notify_claim CASCADE;
