"""A bar plot as plain SVG: per set and operation the time relative to a reference."""

from xml.sax.saxutils import escape

from report.figures import TITLES

BAR, GAP, GROUP_GAP = 16, 4, 34
LEFT, WIDTH, RIGHT = 110, 560, 150
# A bar beyond this many times the reference is cut and its figure says the rest.
CUT = 8.0
COLORS = {"icecore": "#0a6ebd", "tar": "#8a8a8a", "find": "#8a8a8a", "cp": "#8a8a8a",
          "read": "#8a8a8a"}
PEER_COLOR = "#d08a3c"
FONT = 'font-family="sans-serif" font-size="12"'


def write(figures, path):
    groups = [group for name in figures.names("set") for operation in figures.names("operation")
              if (group := bars(figures, name, operation))]
    height = GROUP_GAP + sum(GROUP_GAP + len(rows) * (BAR + GAP) for _, rows in groups)
    parts, y = [], GROUP_GAP // 2
    for title, rows in groups:
        parts.append(text(10, y + 12, title, 'font-weight="bold"'))
        y += 20
        for row in rows:
            parts.append(bar(y, *row))
            y += BAR + GAP
        y += GROUP_GAP - 20
    path.write_text(document(LEFT + WIDTH + RIGHT, height, parts))


def bars(figures, name, operation):
    """(title, [(tool, times the reference, seconds)]) or None."""
    tools = figures.tools_of(name, operation)
    if not tools:
        return None
    against = figures.reference(name, operation)
    rows = [(tool, figures.ratio(name, operation, tool, against),
             figures.value(name, operation, tool)) for tool in tools]
    return f"{name.upper()}: {TITLES[operation]} (1 = {against})", [r for r in rows if r[1]]


def bar(y, tool, ratio, seconds):
    length = max(1, min(ratio, CUT) / CUT * WIDTH)
    color = COLORS.get(tool, PEER_COLOR)
    label = f"{ratio:.2f} × ({seconds:.1f} s)" + (" →" if ratio > CUT else "")
    return (text(LEFT - 8, y + 12, tool, 'text-anchor="end"')
            + f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{color}"/>'
            + text(LEFT + length + 6, y + 12, label))


def text(x, y, content, extra=""):
    return f'<text x="{x:.1f}" y="{y}" {FONT} {extra}>{escape(content)}</text>'


def document(width, height, parts):
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')
