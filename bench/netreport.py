"""Writes OUT.json and OUT.md of the three network benches; each replaces only its part."""

import datetime
import json
from pathlib import Path
from statistics import median

import commands
import served
from figures import TITLES, Figures
from settings import RESULTS


DIFFERENCES_SHOWN = 5        # of each restore; the file with all runs has more


def default():
    return RESULTS / f"{datetime.date.today().isoformat()}-network"


path = Path


def save(part, facts, out):
    """`part`: wan, server or agents."""
    out.parent.mkdir(parents=True, exist_ok=True)
    file = Path(f"{out}.json")
    results = json.loads(file.read_text()) if file.exists() else {}
    results[part] = facts
    file.write_text(json.dumps(results, indent=1) + "\n")
    sections = [f"# Network bench {Path(out).name}\n"]
    sections += [SECTIONS[name](results[name]) for name in SECTIONS if name in results]
    Path(f"{out}.md").write_text("\n".join(sections))


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(map(cell, row)) + " |\n" for row in lines)


def cell(value):
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def middle(runs, key, digits=1):
    """The median as text; empty when nothing was measured."""
    values = [run[key] for run in runs if run.get(key) is not None]
    return f"{median(values):.{digits}f}" if values else ""


def spread(runs, key, digits=1):
    values = [run[key] for run in runs if run.get(key) is not None]
    return f"{min(values):.{digits}f}–{max(values):.{digits}f}" if values else ""


def machine_line(machine):
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
            f"{machine['system']}, kernel {machine['kernel']}, {machine['file_system']}.\n")


def version_rows(results):
    rows = [[name, version] for name, version in results["tools"].items()]
    missing = results.get("missing")
    note = f"\nNot there: {', '.join(missing)}.\n" if missing else ""
    return table(["program", "version"], rows) + note


def failed(results):
    bad = [run for run in results["runs"] if not run["ok"]]
    return "".join(f"- failed, not in the tables: {describe(run)}\n" for run in bad)


def describe(run):
    names = ("round", "link", "set", "operation", "tool", "agents", "size", "exit")
    return ", ".join(f"{name} {run[name]}" for name in names if name in run)


# Through a server on loopback.

def server(results):
    figures = Figures(results)
    parts = ["## Through a server on loopback\n", machine_line(results["machine"]),
             "Client, server and disk on one machine. Medians of the rounds; `×` is the median\n"
             "of the ratios within a round: to icecore through its server, and to icecore with a\n"
             "repository on the same disk. Loopback is what it carried in both directions.\n"]
    for operation in figures.names("operation"):
        title = TITLES[operation]
        parts.append(f"### {title}\n\n{server_table(figures, operation)}")
    parts += [differences(results), doubts(figures), failed(results),
              "### Programs\n", version_rows(results), "### Commands\n", lines_of(figures)]
    return "\n".join(part for part in parts if part)


def server_table(figures, operation):
    heads = ["tool", "wall s", "spread", "× icecore-served", "× icecore local", "client CPU s",
             "server CPU s", "client peak MiB", "server peak MiB", "loopback MiB", "stored MiB",
             "of others s", "runs"]
    name = figures.names("set")[0]
    rows = []
    for tool in figures.tools_of(name, operation):
        runs = figures.of(name, operation, tool)
        for run in runs:
            run["cpu_s"] = run["user_s"] + run["system_s"]
        ratios = [figures.ratio(name, operation, tool, other)
                  for other in ("icecore-served", "icecore")]
        rows.append([tool, middle(runs, "wall_s", 2), spread(runs, "wall_s"), *ratios,
                     middle(runs, "cpu_s"), middle(runs, "server_cpu_s"),
                     middle(runs, "peak_process_mib", 0), middle(runs, "server_peak_mib", 0),
                     middle(runs, "up_mib", 0), middle(runs, "repo_mib", 0),
                     middle(runs, "foreign_cpu_s"), len(runs)])
    return table(heads, rows)


def differences(results):
    found = [f"- {run['tool']}: {text!r}\n" for run in results["runs"]
             for text in run.get("differences", [])[:DIFFERENCES_SHOWN]]
    return "### Restores that differ\n\n" + "".join(found) if found else ""


def doubts(figures):
    found = [f"- {text}\n" for text in figures.doubtful()]
    return "### Runs that were disturbed\n\n" + "".join(found) if found else ""


def lines_of(figures):
    parts = []
    for name in figures.names("tool"):
        spec = served.TOOLS.get(name) or commands.TOOLS[name]
        way = f"way:     {spec.way}\n" if name in served.TOOLS else ""
        env = "".join(f"{key}={value!r}\n" for key, value in spec.env.items())
        lines = {key: getattr(spec, key, "") for key in ("prepare", "server")}
        lines = {**lines, **{key: spec.lines[key] for key in ("init", "backup", "restore")}}
        body = "".join(f"{what + ':':9}{text}\n" for what, text in lines.items() if text)
        parts.append(f"#### {name}\n\n```\n{way}{env}{body}```\n")
    return "\n".join(parts)


SECTIONS = {"server": server}
