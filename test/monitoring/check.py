"""The checks of test/monitoring/run, once the load is over: check.py PSQL PORT [DATA]

Compares what Prometheus on the port has with what SQL says, metric by metric and
label by label, and runs the dashboard's queries. Writes the main series to DATA.
"""
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

psql, port = sys.argv[1:3]
folder = "src/contrib/monitoring/"
passed = failed = 0


def check(name, got, wanted):
    global passed, failed
    if got == wanted:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {name}: got {got!r}, expected {wanted!r}")


def prometheus(path, **parameters):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url) as response:
        return json.load(response)["data"]


def sql(statement):
    out = subprocess.run([psql, "-X", "-q", "-A", "-t", "-c", f"SELECT json_agg(q) FROM ({statement}) AS q"],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def read(file):
    with open(folder + file) as opened:
        return opened.read()


def namespaces(text):
    """Each namespace of postgres_exporter.yml with its query, labels and metrics."""
    for name, body in re.findall(r"^(\w+):\n(.*?)(?=^\S|\Z)", text, re.M | re.S):
        query = re.search(r"query: \|\n(.*?)^  metrics:", body, re.M | re.S).group(1)
        columns = re.findall(r"^    - (\w+): \{usage: (\w+),", body, re.M)
        yield (name, query, [c for c, usage in columns if usage == "LABEL"],
               [c for c, usage in columns if usage != "LABEL"])


def series(metric, job, labels):
    """What Prometheus has of the metric, by its labels."""
    return {tuple(one["metric"].get(label, "") for label in labels): float(one["value"][1])
            for one in prometheus("query", query=f'{metric}{{job="{job}"}}')["result"]}


def expected(query, labels, column):
    return {tuple(row[label] for label in labels): float(row[column]) for row in sql(query)}


def wait_for(condition):
    end = time.time() + 60
    while not condition() and time.time() < end:
        time.sleep(0.5)


for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
    run = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True)
    check("promtool " + " ".join(arguments) + run.stdout + run.stderr if run.returncode else "promtool", run.returncode, 0)
tests = read("alerts_test.yml")
for alert in re.findall(r"- alert: (\w+)", read("alerts.yml")):
    check(f"{alert} is tested to fire", bool(re.search(rf"alertname: {alert}\n\s+exp_alerts:\n", tests)), True)
    check(f"{alert} is tested not to fire", bool(re.search(rf"alertname: {alert}\n\s+exp_alerts: \[\]", tests)), True)

spaces = list(namespaces(read("postgres_exporter.yml")))
check("namespaces", len(spaces), 6)
readme = read("README.md")
for job in "postgres_exporter", "sql_exporter":
    for name, query, labels, columns in spaces:
        for column in columns:
            metric = f"{name}_{column}"
            check(f"{metric} is in the README", f"`{metric}`" in readme, True)
            if column.endswith("age_seconds"):
                # it grows while we look
                wait_for(lambda: series(metric, job, labels))
                now = expected(query, labels, column)
                then = series(metric, job, labels)
                check(f"{job}: {metric}", [0 < then.get(key, 0) <= now[key] + 2 < then[key] + 30 for key in now], [True])
                continue
            wait_for(lambda: series(metric, job, labels) == expected(query, labels, column))
            check(f"{job}: {metric}", series(metric, job, labels), expected(query, labels, column))
# "server" is prometheus-postgres-exporter's own
known = {"datname", "channel", "event_type", "outcome", "quantile", "window", "__name__", "instance", "job", "server"}
for one in prometheus("series", **{"match[]": '{__name__=~"notify_claim.*"}'}):
    check(f"labels of {one}", set(one) - known, set())


def firing():
    return {one["labels"]["alertname"] for one in prometheus("alerts")["alerts"] if one["state"] == "firing"}


for alert in "NotifyClaimDeadLetters", "NotifyClaimOrdersBlocked", "NotifyClaimConflictRolledBack":
    wait_for(lambda: alert in firing())
    check(f"{alert} fires", alert in firing(), True)
for alert in "NotifyClaimStatisticsOff", "NotifyClaimOutboxOld", "NotifyClaimNothingReceived", "NotifyClaimParkedTooLong":
    check(f"{alert} does not fire", alert in firing(), False)

queries = [target["expr"] for panel in json.loads(read("dashboard.json"))["panels"] for target in panel["targets"]]
check("the dashboard has queries", len(queries) >= 15, True)
for query in queries:
    query = query.replace("$database", "shop").replace("$channel", ".*")
    check(f"the dashboard's {query}", bool(prometheus("query", query=query)["result"]), True)

if len(sys.argv) > 3:
    end = time.time()
    lines = {}
    of = '{job="postgres_exporter",channel="shop"'
    for i, query in enumerate((f"sum(rate(notify_claim_calls_total{of}}}[5s]))",
                               f'sum(rate(notify_claim_calls_total{of},outcome="replayed"}}[5s]))',
                               f'notify_claim_recent_replay_ratio{of},window="1m"}}')):
        for moment, value in prometheus("query_range", query=query, start=end - 120, end=end, step=1)["result"][0]["values"]:
            lines.setdefault(moment, ["NaN"] * 3)[i] = value
    with open(sys.argv[3], "w") as data:
        for moment in sorted(lines):
            print(moment - min(lines), *lines[moment], file=data)

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
