"""Writes OUT.md (tables for people) and OUT.svg; OUT.json has all raw figures."""

from pathlib import Path

from report import claims, plot
from report.figures import Figures, TITLES
from tools import commands

def write(results, out):
    figures = Figures(results)
    plot.write(figures, Path(f"{out}.svg"))
    sections = [heading(results, out), broken(results), measured(figures), verdicts(results), doubts(figures),
                tools(results), lines(results)]
    Path(f"{out}.md").write_text("\n".join(sections))


def heading(results, out):
    machine = results["machine"]
    facts = (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
             f"{machine['system']}, kernel {machine['kernel']}, {machine['file_system']}; "
             f"restores go to {machine.get('restores_go_to', 'the same')}")
    sets = "".join(f"| {name} | {set_line(facts_of)} |\n"
                   for name, facts_of in results["sets"].items())
    commit = results.get("commit", "unknown")
    days = results.get("days", [])
    parts = f" Measured in {len(days)} parts, on {', '.join(days)}; no round of a set was split." if len(days) > 1 else ""
    return (f"# Bench {Path(out).name}\n\nIcecore at commit {commit}. {facts}.{parts}\n\n"
            "Medians of the rounds that nothing disturbed (the others are listed below); `×` is the median of the ratios within a round to the\n"
            "reference of the table. Warm cache unless said.\n\n"
            f"![plot]({Path(out).name}.svg)\n\n| set | contents |\n|---|---|\n{sets}")


def broken(results):
    """What does not hold stands at the top."""
    bad = [v for v in claims.judge(results) if v.state != "PASS"]
    if not bad:
        return "All claims hold (the table is below).\n"
    return "## Claims that do not hold, or were not measured\n\n" + claims.table(bad)


def set_line(facts):
    """Everything the manifest says, the counts first."""
    counts = (f"{facts['files']:,} files, {facts['directories']:,} directories, "
              f"{facts['bytes'] / 1e9:.2f} GB")
    rest = {key: value for key, value in facts.items()
            if key not in ("set", "files", "directories", "symlinks", "other", "bytes")}
    return counts + "".join(f"; {key}: {plain(value)}" for key, value in rest.items())


def plain(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {text}" for key, text in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def measured(figures):
    parts = []
    for name in figures.names("set"):
        for operation in figures.names("operation"):
            rows = [row(figures, name, operation, tool)
                    for tool in figures.tools_of(name, operation)]
            if rows:
                parts.append(section(figures, name, operation, rows))
    return "\n".join(parts)


def section(figures, name, operation, rows):
    against = figures.reference(name, operation)
    return (f"## {name.upper()}: {TITLES[operation]}\n\n"
            f"| tool | wall s | spread | × {against} | user s | system s | peak MiB "
            "| read MiB | written MiB | stored MiB | of others s | runs |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|\n" + "".join(rows))


def row(figures, name, operation, tool):
    def median(key, digits):
        value = figures.value(name, operation, tool, key)
        return "" if value is None else f"{value:.{digits}f}"

    runs = figures.of(name, operation, tool)
    walls = [run["wall_s"] for run in runs]
    against = figures.reference(name, operation)
    ratio = figures.ratio(name, operation, tool, against)
    cells = [tool, median("wall_s", 2), f"{min(walls):.1f}–{max(walls):.1f}",
             "" if ratio is None else f"{ratio:.2f}", median("user_s", 1),
             median("system_s", 1), median("peak_mib", 0), median("read_mib", 0),
             median("written_mib", 0), stored(figures, name, operation, tool),
             median("foreign_cpu_s", 1), str(len(runs))]
    return "| " + " | ".join(cells) + " |\n"


def stored(figures, name, operation, tool):
    """After reclaiming also before and, for comparison, of a fresh repository."""
    now = figures.value(name, operation, tool, "repo_mib")
    if not now:
        return ""
    before = figures.value(name, operation, tool, "before_mib")
    fresh = figures.value(name, operation, tool, "fresh_mib")
    return f"{before:.0f} → {now:.0f} (fresh {fresh:.0f})" if before else f"{now:.0f}"


def verdicts(results):
    return "## Claims\n\n" + claims.table(claims.judge(results))


def doubts(figures):
    found = list(figures.doubtful())
    failed = [f"round {r['round']}, {r['set']} {r['operation']} {r['tool']}: exit {r['exit']}"
              for r in figures.results["runs"] if not r["ok"]]
    differing = [f"{r['set']} restored by {r['tool']}: {text!r}"
                 for r in figures.runs for text in r.get("differences", [])]
    return "".join(f"## {title}\n\n" + "".join(f"- {text}\n" for text in texts) + "\n"
                   for title, texts in (("Runs that were disturbed, not in the tables", found),
                                        ("Runs that failed, not in the tables", failed),
                                        ("Restores that differ", differing)) if texts)


def tools(results):
    rows = "".join(f"| {name} | {facts['version']} | {commands.TOOLS[name].remark} |\n"
                   for name, facts in results["tools"].items())
    missing = [name for name in commands.TOOLS if name not in results["tools"]]
    note = f"\nNot there or not asked for: {', '.join(missing)}.\n" if missing else ""
    return f"## Tools\n\n| tool | version | remark |\n|---|---|---|\n{rows}{note}"


def lines(results):
    parts = []
    for name in results["tools"]:
        spec = commands.TOOLS[name]
        env = "".join(f"{key}={value!r}\n" for key, value in spec.env.items())
        body = "".join(f"{what + ':':9}{text}\n" for what, text in spec.lines.items())
        parts.append(f"### {name}\n\n```\n{env}{body}```\n")
    return "## Commands\n\n" + "\n".join(parts)


def line(facts):
    stored = f"{facts['repo_mib']:8.0f} MiB stored" if "repo_mib" in facts else ""
    state = "" if facts["ok"] else " FAILED"
    return (f"{facts['round']} {facts['set']:8} {facts['operation']:11} {facts['tool']:9}"
            f"{facts['wall_s']:8.2f} s {facts['peak_mib']:7.0f} MiB peak "
            f"{facts['foreign_cpu_s']:6.1f} s of others {stored}{state}")
