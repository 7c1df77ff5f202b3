"""Writes OUT.json and OUT.md of the three network benches; each replaces only its part."""

import datetime
import json
from pathlib import Path
from statistics import median

from report.figures import Figures, TITLES
from settings import RESULTS
from tools import commands, served


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
    if any(version.startswith("standin") for version in results["tools"].values()):
        note += "\n**A stand-in ran in the place of icecore: only the bench itself was tested.**\n"
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


# Over a long link.

WAN_HEADS = ["direction", "iperf3 Mbit/s", "spread", "icecore Mbit/s", "spread",
             "icecore : iperf3", "iperf3 on the wire", "icecore on the wire",
             "packets dropped, lost", "rounds"]
WAN_TITLES = {"backup": "to the server", "restore": "from the server",
              "backup-64k": "to the server, socket buffer of 64 KiB"}


def wan(results):
    system = "".join(f"- `{key}` {value}\n" for key, value in results["system"].items())
    parts = ["## One stream over a long link\n", machine_line(results["machine"]),
             "Rates are the files' bytes by the time of the whole command, against iperf3 with as\n"
             "many bytes, one connection, slow start included; medians, and the median of the\n"
             "ratios within a round. 'On the wire' has the headers, too. `dropped` found the\n"
             f"queue of the link full, `lost` were lost on it.\n\nBoth ends:\n\n{system}"]
    parts += [f"### {name}\n\n{link_line(facts)}\n{wan_table(results, name)}"
              for name, facts in results["links"].items()]
    parts += [buffers(results), differences(results), missed(results), failed(results),
              "### Programs of the links\n", version_rows(results)]
    return "\n".join(part for part in parts if part)


def link_line(facts):
    rate = facts["rate_bits"]
    return (f"`wan`: {rate / 1e6 if rate else 'unlimited'} Mbit/s, "
            f"{facts['one_way_us'] / 1000} ms each way, "
            f"queue {facts['queue_bytes'] / 1024:.0f} KiB, loss {facts['loss'] * 100:g} %, "
            f"packets of {facts['mtu']} bytes\n")


def wan_table(results, link):
    runs = [run for run in results["runs"] if run["link"] == link and run["ok"]]
    rows = []
    for operation, title in WAN_TITLES.items():
        bare, ours = ([run for run in runs if run["operation"] == operation
                       and run["tool"] == tool] for tool in ("iperf3", "icecore"))
        if bare or ours:
            rows.append([title, middle(bare, "mbit"), spread(bare, "mbit"), middle(ours, "mbit"),
                         spread(ours, "mbit"), ratio(ours, bare, "mbit"),
                         middle(bare, "wire_mbit"), middle(ours, "wire_mbit"),
                         f"{sum(r['dropped'] for r in ours or bare)}, "
                         f"{sum(r['lost'] for r in ours or bare)}", len(ours or bare)])
    return table(WAN_HEADS, rows)


def ratio(ours, bare, key):
    """Median of the ratios within a round."""
    theirs = {run["round"]: run[key] for run in bare}
    ratios = [run[key] / theirs[run["round"]] for run in ours if theirs.get(run["round"])]
    return median(ratios) if ratios else None


def buffers(results):
    said = [(run, run["about_buffers"]) for run in results["runs"]
            if run["operation"] == "backup-64k" and "about_buffers" in run]
    lines = "".join(f"- {run['link']}: {'; '.join(text) or 'NOTHING: it must name the buffer'}\n"
                    for run, text in said)
    return f"### What the report says of a forced buffer\n\n{lines}" if said else ""


def missed(results):
    bad = [run for run in results["runs"] if run.get("missed")]
    return "".join(f"- not to be trusted, the emulator missed packets: {describe(run)}\n"
                   for run in bad)


# Many agents.

AGENT_HEADS = ["files", "agents", "MiB/s", "spread", "sum of rates", "slowest agent",
               "× one agent", "client peak MiB", "server peak MiB", "server CPU s",
               "cores busy", "runs"]


def agents(results):
    parts = ["## Many agents at one server\n", machine_line(results["machine"]),
             f"Each agent has {results['mib']} MiB, from five agents on half of it; agents, server\n"
             "and disk are on one machine. MiB/s: the files' bytes by the time from the common\n"
             "start to the last end. Sum of rates: each agent's own rate, added up.\n"]
    tools = dict.fromkeys(run["tool"] for run in results["runs"] if run["size"] != "tree")
    for tool in tools:
        for operation in ("backup", "restore"):
            rows = agents_table(results, tool, operation)
            parts.append(f"### {tool}: {operation}\n\n{rows}" if rows else "")
    parts += [first_data(results), failed(results), "### Programs of the agents\n",
              version_rows(results)]
    return "\n".join(part for part in parts if part)


def agents_table(results, tool, operation):
    runs = [run for run in results["runs"] if run["tool"] == tool and run["ok"]
            and run["operation"] == operation]
    rows = []
    for size, count in dict.fromkeys((run["size"], run["agents"]) for run in runs):
        cell_runs, one = ([run for run in runs if run["size"] == size and run["agents"] == n]
                          for n in (count, 1))
        for run in cell_runs:
            run["slowest"] = min(run["each_mib_s"])
        rows.append([size, count, middle(cell_runs, "mib_s"), spread(cell_runs, "mib_s"),
                     middle(cell_runs, "sum_of_rates_mib_s"), middle(cell_runs, "slowest"),
                     ratio(cell_runs, one, "mib_s"), middle(cell_runs, "client_peak_mib", 0),
                     middle(cell_runs, "server_peak_mib", 0), middle(cell_runs, "server_cpu_s"),
                     middle(cell_runs, "cpu_share"), len(cell_runs)])
    return table(AGENT_HEADS, rows) + small_against_large(runs) if rows else ""


def small_against_large(runs):
    """The smallest files against the largest, with the same number of agents."""
    lines = []
    sizes = list(dict.fromkeys(run["size"] for run in runs))
    if len(sizes) < 2:
        return ""
    for count in dict.fromkeys(run["agents"] for run in runs):
        first, last = ([{**run, "rate": run["mib_s"]} for run in runs if run["agents"] == count
                        and run["size"] == size] for size in (sizes[0], sizes[-1]))
        share = ratio(first, last, "rate")
        if share:
            lines.append(f"{share:.2f} with {count}")
    head = f"\nRate of files of {sizes[0]} to that of {sizes[-1]}: "
    return f"{head}{', '.join(lines)}.\n" if lines else ""


def first_data(results):
    runs = [run for run in results["runs"] if run["size"] == "tree" and run["ok"]]
    rows = []
    for tool in dict.fromkeys(run["tool"] for run in runs):
        mine = [run for run in runs if run["tool"] == tool]
        rows.append([tool, middle(mine, "first_data_s", 3), middle(mine, "wall_s", 2),
                     middle(mine, "peak_process_mib", 0), middle(mine, "server_peak_mib", 0),
                     len(mine)])
    heads = ["tool", "first data after s", "all of it s", "client peak MiB", "server peak MiB",
             "runs"]
    return f"### First data of a large tree\n\n{table(heads, rows)}" if rows else ""


SECTIONS = {"wan": wan, "server": server, "agents": agents}
