"""The checks of test/monitoring/run, once the load is over: check.py PSQL PORT [DATA]

Compares what Prometheus on the port has with what SQL says, metric by metric and
label by label, in both databases, has promtool look at the names, and runs the
dashboard's queries. Writes the main series to DATA.
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


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


def prometheus(path, **parameters):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url) as response:
        return json.load(response)["data"]


def sql(database, statement):
    out = subprocess.run([psql, "-X", "-q", "-A", "-t", "-d", database, "-c",
                          f"SELECT json_agg(q) FROM ({statement}) AS q"],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out) or []


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


def series(metric, job, database, labels):
    """What Prometheus has of the metric, by its labels."""
    return {tuple(one["metric"].get(label, "") for label in labels): float(one["value"][1])
            for one in prometheus("query", query=f'{metric}{{job="{job}",datname="{database}"}}')["result"]}


def expected(query, database, labels, column):
    return {tuple(row[label] for label in labels): float(row[column]) for row in sql(database, query)}


def compare(job, database, name, query, labels, column):
    """The metric's series by this exporter are those that SQL says, no more and no less."""
    metric = f"{name}_{column}"

    def scraped():
        return series(metric, job, database, labels)

    def wanted():
        return expected(query, database, labels, column)

    if column.endswith("age_seconds") and any(wanted().values()):
        # it grows while we look
        wait_for(scraped)
        now, then = wanted(), scraped()
        check(f"{job}, {database}: {metric}", [0 < then.get(key, 0) <= now[key] + 2 < then[key] + 30 for key in now], [True])
    else:
        wait_for(lambda: scraped() == wanted())
        check(f"{job}, {database}: {metric}", scraped(), wanted())


def wait_for(condition):
    # once something is amiss, the rest shall not take long
    end = time.time() + (5 if failed else 60)
    while not condition() and time.time() < end:
        time.sleep(0.5)


for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
    run = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True)
    check("promtool " + " ".join(arguments) + run.stdout + run.stderr if run.returncode else "promtool", run.returncode, 0)
tests = read("alerts_test.yml")
for alert in re.findall(r"- alert: (\w+)", read("alerts.yml")):
    check(f"{alert} is tested to fire", bool(re.search(rf"alertname: {alert}\n\s+exp_alerts:\n", tests)), True)
    check(f"{alert} is tested not to fire", bool(re.search(rf"alertname: {alert}\n\s+exp_alerts: \[\]", tests)), True)

crowded = sql("crowded", "SELECT received, rolled_back FROM notify_stat WHERE channel IS NULL AND event_type IS NULL")
check("one row of what found no room and of bad calls", [(row["received"] > 0, row["rolled_back"]) for row in crowded], [(True, 2)])
check("and nothing is lost", sql("crowded", "SELECT sum(received) FROM notify_stat"), [{"sum": 40}])
wait_for(lambda: all(target["health"] == "up" for target in prometheus("targets")["activeTargets"]))
targets = prometheus("targets")["activeTargets"]
check("targets", sorted((target["scrapePool"], target["health"], target["lastError"]) for target in targets),
      [("postgres_exporter", "up", ""), ("postgres_exporter", "up", ""), ("sql_exporter", "up", "")])
if any(target["health"] != "up" for target in targets):
    finish()
for target in targets:
    # as the exporter has it, before Prometheus relabels it; other metrics are the exporter's own
    with urllib.request.urlopen(target["scrapeUrl"]) as response:
        text = response.read().decode()
    check("metrics to look at", "notify_claim_event_duration" in text, True)
    run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    check(f"promtool check metrics, {target['scrapePool']}",
          [line for line in (run.stdout + run.stderr).splitlines() if re.search("notify_claim|error", line)], [])

spaces = list(namespaces(read("postgres_exporter.yml")))
check("namespaces", len(spaces), 5)
readme = read("README.md")
for job in "postgres_exporter", "sql_exporter":
    for name, query, labels, columns in spaces:
        for column in columns:
            check(f"{name}_{column} is in the README", f"`{name}_{column}`" in readme, True)
            for database in "shop", "crowded":
                compare(job, database, name, query, labels, column)
# "server" is prometheus-postgres-exporter's own
known = {"datname", "channel", "event_type", "outcome", "window", "__name__", "instance", "job", "server"}
every = prometheus("series", **{"match[]": '{__name__=~"notify_claim.*"}'})
check("there are series", len(every) > 300, True)
check("labels that nobody knows", set().union(*every) - known, set())


def firing():
    return {one["labels"]["alertname"] for one in prometheus("alerts")["alerts"] if one["state"] == "firing"}


for alert in "NotifyClaimDeadLetters", "NotifyClaimOrdersBlocked", "NotifyClaimConflictRolledBack":
    wait_for(lambda: alert in firing())
    check(f"{alert} fires", alert in firing(), True)
for alert in "NotifyClaimStatisticsOff", "NotifyClaimOutboxOld", "NotifyClaimNothingReceived", "NotifyClaimParkedTooLong", \
        "NotifyClaimOverBudget", "NotifyClaimNotWatched":
    check(f"{alert} does not fire", alert in firing(), False)

def value_of_all(variable):
    """What Grafana puts for "All": the variable's allValue, else those in its list."""
    if variable.get("allValue"):
        return variable["allValue"]
    metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
    found = prometheus("query", query=metric.replace("$database", "shop"))["result"]
    return "|".join(sorted({one["metric"][label] for one in found if one["metric"].get(label)}))


dashboard = json.loads(read("dashboard.json"))
channels = value_of_all({v["name"]: v for v in dashboard["templating"]["list"]}["channel"])
queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
check("the dashboard has queries", len(queries) >= 17, True)
for query in queries:
    # $__rate_interval is four times the scrape interval, which is a second here
    query = query.replace("$database", "shop").replace("$channel", channels).replace("$__rate_interval", "4s")
    check(f"the dashboard's {query}", bool(prometheus("query", query=query)["result"]), True)
    check(f"a range of its own in {query}", re.findall(r"\[(?!4s\])", query), [])
    for selector in re.findall(r"\w+\{[^}]*channel=~[^}]*\}", query):
        anywhere = re.sub(r",channel=~\"[^\"]*\"", "", selector)
        check(f"all channels in {selector}", len(prometheus("query", query=selector)["result"]),
              len(prometheus("query", query=anywhere)["result"]))
without = prometheus("query", query='notify_claim_event_rolled_back_total{datname="shop",channel=""} == 1')["result"]
check("a call without a channel, by each exporter", len(without), 2)

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

finish()
