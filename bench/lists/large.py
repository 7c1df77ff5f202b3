"""A large site: what is declared, the rows of its catalog, and what is asked of it."""

import shutil
import sqlite3
import time

POLICIES = 20
DAY = 86_400
SOURCE = "/etc\n/home"
TASK = ('{"backup":{"node":"node-1","paths":["/etc","/home"],"excludes":["*.tmp","/home/*/.cache"],'
        '"has_options":true}}')
REPORT = ('{"partial":false,"report":{"objects_inspected":52013,"objects_backed_up":312,'
          '"bytes_inspected":13529146982,"bytes_processed":155189248,"bytes_transferred":41234567,'
          '"elapsed_secs":30.25,"cost":{"user_secs":6.5,"system_secs":1.25}}}')
JOB_COLUMNS = ("node, domain, kind, what, begun, ended, state, objects, bytes, snapshot, report, "
               "policy, schedule, source, unit, priority, due, attempt, late, runs, cause, task, "
               "source_name, class, seen_objects, seen_bytes, read_bytes, before_dedup_bytes, "
               "new_bytes, stored_bytes, cpu_ms, elapsed_ms")


def node(number):
    return f"node-{number}"


def member(number, nodes):
    """Nodes of the policy 0, one after the other."""
    return node((number // 2 * POLICIES + number % 2) % nodes)


def declared(nodes):
    """Each node belongs to two policies, whose runs are due while nobody measures."""
    hour = (time.gmtime().tm_hour + 12) % 24
    text = ["[schedule.nightly]", f'at = ["{hour:02}:00"]', 'jitter = "50 minutes"',
            "[retention.all.class.standard]", "keep_daily = 400", 'keep_monthly = "all"',
            "minimum_versions = 2"]
    for number in range(4):
        text += [f"[unit.unit-{number}]", "max_jobs = 8"]
    for number in range(nodes):
        text += [f"[node.{node(number)}]", f'labels = {{ part = "p{number % POLICIES}" }}']
    for number in range(POLICIES):
        parts = [number, (number + 1) % POLICIES]
        for part in parts:
            text += [f"[group.group-{number}-{part}]", f'labels = {{ part = "p{part}" }}']
        groups = [f"group-{number}-{part}" for part in parts]
        text += [f"[policy.policy-{number}]", f'unit = "unit-{number % 4}"',
                 f"groups = {groups}".replace("'", '"'), 'schedules = ["nightly"]',
                 'retention = "all"', 'promise = "26 hours"']
        paths = '["/etc", "/home"]' if number % 2 == 0 else '["/srv"]'
        text += [f"paths = {paths}"]
    return "\n".join(text) + "\n"


def fill(server, arguments):
    """A server with all of it; how long that took."""
    begun = time.monotonic()
    agent, source = server.home / "agent", server.home / "source"
    source.mkdir()
    (source / "file").write_text("content")
    with server.running():
        line = server.govern("token", node(0)).strip().splitlines()[-1].split()
        server.run("agent", "--agent-dir", agent, "enroll", *line[3:])
        server.run("backup", source, ICECORE_AGENT_DIR=str(agent))
    site = server.home / "site.toml"
    catalog = sqlite3.connect(server.data / "catalog.sqlite")
    with catalog:
        nodes_and_domains(catalog, arguments)
    with server.running():
        site.write_text(declared(arguments.nodes))
        server.govern("apply", str(site), "--yes")
        # The scheduler enters what it expects of each node.
        while not catalog.execute("SELECT count(*) FROM backup_states WHERE policy <> ''").fetchone()[0]:
            time.sleep(1)
    with catalog:
        jobs(catalog, arguments)
        snapshots(catalog, server, arguments)
    catalog.close()
    return time.monotonic() - begun


def copied(catalog, table, values, count):
    """Rows like that of the node which exists, with other values in some columns."""
    columns = [row[1] for row in catalog.execute(f"PRAGMA table_info({table})")]
    chosen = ", ".join(values.get(column, column) for column in columns)
    catalog.execute(f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
                    f"WHERE n < {count - 1}) INSERT INTO {table} SELECT {chosen} FROM numbers, "
                    f"(SELECT * FROM {table} LIMIT 1)")


def nodes_and_domains(catalog, arguments):
    name = "'node-' || n"
    copied(catalog, "domains", {"name": name, "folder": name}, arguments.nodes)
    copied(catalog, "nodes", {"name": name, "domain": name}, arguments.nodes)
    copied(catalog, "certificates", {"serial": "'serial-' || n", "node": name}, arguments.nodes)


def jobs(catalog, arguments):
    """Evenly over 400 days, as a server keeps them; a few did not end well, some restored."""
    secs = 400 * DAY // arguments.jobs
    begun = f"{int(time.time())} - ({arguments.jobs} - n) * {secs} - 3600"
    snapshot = "lower(printf('%032x', n))"
    state = "CASE n % 500 WHEN 99 THEN 'failed' WHEN 100 THEN 'missed' WHEN 101 THEN 'partial' ELSE 'complete' END"
    cause = "CASE n % 500 WHEN 99 THEN 'backup-failed' WHEN 100 THEN 'node-away' END"
    kind = "CASE WHEN n % 1000 = 7 THEN 'restore' ELSE 'backup' END"
    name = f"'node-' || (n % {arguments.nodes})"
    policy = f"'policy-' || (n % {POLICIES})"
    unit = "'unit-' || (n % 4)"
    values = [name, name, kind, f"'{SOURCE}'", begun, f"{begun} + 30", state, "52013", "13529146982",
              snapshot, f"'{REPORT}'", policy, "'nightly'", f"'{SOURCE}'", unit, "50", begun, "1", "0",
              "1", cause, f"'{TASK}'", "'main'", "'standard'", "52013", "13529146982", "155189248",
              "60000000", "50000000", "41234567", "7750", "30250"]
    catalog.execute(f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
                    f"WHERE n < {arguments.jobs}) INSERT INTO jobs ({JOB_COLUMNS}) "
                    f"SELECT {', '.join(values)} FROM numbers")
    newest = f"(SELECT id, ended FROM jobs ORDER BY id DESC LIMIT {max(arguments.jobs // 10, 1)})"
    for code in ("queued", "started", "session", "ended"):
        catalog.execute(f"INSERT INTO job_log (job, time, level, code, message) SELECT id, ended, "
                        f"'info', '{code}', 'what happened then' FROM {newest}")
    catalog.execute(f"""UPDATE backup_states SET complete_begun = {int(time.time())} - 7200,
        complete_ended = {int(time.time())} - 7100, complete_job = 1, took_secs = 30,
        objects = 52013, bytes = 13529146982, backups = 400, measured = 400,
        stored_bytes = 4123456700""")


def snapshots(catalog, server, arguments):
    """Names in copies of the repository, and the same in the catalog: one each day. The server opens each of them."""
    each = max(arguments.snapshots // arguments.nodes, 1)
    first = server.data / "pool/domains" / node(0)
    known = next((first / "snapshots").iterdir()).name
    number, _, rest = known.partition("-")
    suffix = rest[32:]
    rows, now = [], int(time.time())
    for at in range(1, arguments.nodes):
        folder = first.parent / node(at)
        shutil.copytree(first, folder, ignore=shutil.ignore_patterns("reserve", known))
        for one in range(1, each + 1):
            name = f"{at:016x}{one:016x}"
            sequence = format(one, f"0{len(number)}x")
            (folder / "snapshots" / f"{sequence}-{name}{suffix}").touch()
            policy = f"policy-{at % POLICIES}"
            rows.append((node(at), name, one, node(at), "main", policy, "standard",
                         now - (each - one) * DAY - 3600, 0))
    catalog.executemany("INSERT INTO snapshots (domain, id, number, node, source, policy, class, "
                        "received, partial) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def calls(arguments):
    """What is asked: its name, the method, the path and the body."""
    now = time.time()
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - 30 * DAY))
    middle = node(arguments.nodes // 2)
    job, snapshot = arguments.jobs // 2, f"{arguments.nodes // 2:016x}{1:016x}"
    site = {"text": declared(arguments.nodes).replace("keep_daily = 400", "keep_daily = 30"),
            "dry_run": True}
    lists = [
        "/status", "/nodes", f"/nodes/{middle}/options", "/domains", "/grants", "/limits", "/commands",
        "/storage-servers", "/sessions", "/jobs", "/jobs?limit=1000", f"/jobs?before={job}",
        f"/jobs?node={middle}", f"/jobs?domain={middle}", "/jobs?kind=restore",
        "/jobs?state=failed&limit=1000", "/jobs?state=queued", f"/jobs?since={since}", f"/jobs/{job}",
        f"/jobs/{arguments.jobs}/log", "/protection", "/reports/backups",
        f"/reports/backups?node={middle}", f"/reports/costs?since={since}", "/reports/capacity",
        f"/reports/causes?since={since}", "/retention/snapshots", f"/retention/snapshots?node={middle}",
        f"/retention/snapshots?domain={middle}", "/retention/snapshots?state=trash",
        f"/retention/snapshots/{snapshot}", f"/snapshots?domain={node(0)}",
        "/retention/policies/policy-1/simulation", "/upkeep", "/objects/policy", "/objects/node",
        "/objects/policy/policy-1", "/site", "/audit", "/openapi.json",
    ]
    plans = [("plan of a site that keeps less", "POST", "/site", site),
             ("dry run of an expiry", "POST", "/retention/expire", {"dry_run": True}),
             ("dry run of a start", "POST", "/policies/policy-1/start", {"dry_run": True})]
    shown = lambda path: path.replace(since, "A-MONTH-AGO").replace(snapshot, "ID")
    return [(f"`{shown(path)}`", "GET", path, None) for path in lists] + plans
