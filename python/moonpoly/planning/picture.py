"""Draws a plan as an SVG: the output matrix, cut into regions coloured by micro-kernel."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from moonpoly.planning.plans import Plan, Region

# Fills that stay apart for colour-blind readers and under black text.
_FILLS = ("#8ecae6", "#ffd166", "#95d5b2", "#f4a6a0", "#cdb4db", "#f9c99b", "#b8d8be", "#d0d4dc")
_FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
_INK, _FAINT, _EDGE = "#1d2733", "#5b6b7c", "#33475b"

_MARGIN = 32
_AXIS = 56
_PICTURE_W, _PICTURE_H = 640, 420
# A 1 x 4096 output drawn to scale would be a line.
_MIN_SIDE = 96
_PANEL_GAP = 28
_ROW_H = 26
_HEAD_H = 76
_MIN_TILE_PX = 4.0
_MAX_PANELS = 4
_COLUMNS = (
    ("micro-kernel", 28, "start"),
    ("tile", 262, "start"),
    ("rows", 404, "end"),
    ("columns", 502, "end"),
    ("k", 606, "end"),
    ("tasks", 668, "end"),
    ("waves", 726, "end"),
    ("µs / task", 800, "end"),
    ("µs", 868, "end"),
)
_TABLE_W = 876


@dataclass(frozen=True)
class _Frame:
    """Where one matrix is drawn: its corner and its pixels per row and per column."""

    x: float
    y: float
    row_px: float
    column_px: float

    def rect(self, region: Region) -> tuple[float, float, float, float]:
        return (
            self.x + region.n0 * self.column_px,
            self.y + region.m0 * self.row_px,
            (region.n1 - region.n0) * self.column_px,
            (region.m1 - region.m0) * self.row_px,
        )


def draw_plan(plan: Plan) -> str:
    """Return the SVG text of a plan.

    A plan that cuts the reduction gets one panel for each slice of k. Thin lines are tile edges;
    they are left out where they would be closer than a few pixels. A matrix too long for the
    page is drawn with its short side widened, and says so.
    """
    fills = {
        kernel: _FILLS[index % len(_FILLS)]
        for index, kernel in enumerate(dict.fromkeys(region.kernel for region in plan.regions))
    }
    slices = list(dict.fromkeys((region.k0, region.k1) for region in plan.regions))
    shown = slices[:_MAX_PANELS]
    width, height, to_scale = _fit(plan, len(shown))
    body: list[str] = []
    top = _MARGIN + _HEAD_H
    for index, (k0, k1) in enumerate(shown):
        frame = _Frame(
            x=_MARGIN + _AXIS + index * (width + _PANEL_GAP),
            y=top,
            row_px=height / plan.m,
            column_px=width / plan.n,
        )
        regions = [region for region in plan.regions if (region.k0, region.k1) == (k0, k1)]
        for region in regions:
            body += _region(region, frame, fills[region.kernel])
        body += _axes(plan, frame, height, first=index == 0)
        if len(slices) > 1:
            body.append(_text(frame.x + width / 2, top + height + 40, f"k {k0}–{k1}", "middle", 12))
    table_y = top + height + (66 if len(slices) > 1 else 48)
    body += _legend(plan, fills, table_y)
    page_w = max(
        _MARGIN * 2 + _AXIS + len(shown) * width + (len(shown) - 1) * _PANEL_GAP,
        _MARGIN * 2 + _TABLE_W,
    )
    page_h = table_y + _ROW_H * (len(plan.regions) + 1) + _MARGIN
    head = _heading(plan, hidden=len(slices) - len(shown), to_scale=to_scale)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{page_w:.0f}" height="{page_h:.0f}" '
            f'viewBox="0 0 {page_w:.0f} {page_h:.0f}" font-family="{escape(_FONT)}" role="img">',
            f"<title>{escape(str(plan))}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *head,
            *body,
            "</svg>",
            "",
        ]
    )


def _fit(plan: Plan, panels: int) -> tuple[float, float, bool]:
    room = (_PICTURE_W - (panels - 1) * _PANEL_GAP) / panels
    scale = min(room / plan.n, _PICTURE_H / plan.m)
    width, height = plan.n * scale, plan.m * scale
    least = min(_MIN_SIDE, room)
    to_scale = width >= least and height >= least
    return max(width, least), max(height, least), to_scale


def _heading(plan: Plan, *, hidden: int, to_scale: bool) -> list[str]:
    notes = [
        f"pattern {plan.pattern}",
        f"{plan.threads} {plan.unit}{'s' if plan.threads != 1 else ''}",
        f"predicted {plan.predicted_us:,.1f} µs",
        f"{plan.gflops:,.0f} GFLOP/s",
    ]
    if not to_scale:
        notes.append("sides not to scale")
    if hidden:
        notes.append(f"{hidden} more slices of k not drawn")
    return [
        _text(
            _MARGIN,
            _MARGIN + 12,
            f"C[{plan.m}, {plan.n}] = A[{plan.m}, {plan.k}] · B[{plan.k}, {plan.n}]",
            "start",
            19,
            weight=600,
        ),
        _text(_MARGIN, _MARGIN + 36, "  ·  ".join(notes), "start", 13, fill=_FAINT),
    ]


def _region(region: Region, frame: _Frame, fill: str) -> list[str]:
    x, y, width, height = frame.rect(region)
    tile_m, tile_n = region.tile
    lines = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'
    ]
    edges = []
    if tile_m * frame.row_px >= _MIN_TILE_PX:
        for row in range(region.m0 + tile_m, region.m1, tile_m):
            edges.append(f"M{x:.1f} {frame.y + row * frame.row_px:.1f}h{width:.1f}")
    if tile_n * frame.column_px >= _MIN_TILE_PX:
        for column in range(region.n0 + tile_n, region.n1, tile_n):
            edges.append(f"M{frame.x + column * frame.column_px:.1f} {y:.1f}v{height:.1f}")
    if edges:
        lines.append(
            f'<path d="{"".join(edges)}" stroke="{_EDGE}" stroke-opacity="0.28" '
            f'stroke-width="0.6" fill="none"/>'
        )
    lines.append(
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" '
        f'stroke="{_EDGE}" stroke-width="1.6"/>'
    )
    label = f"{tile_m}×{tile_n}"
    if width >= 9 * len(label) and height >= 20:
        lines.append(
            f'<rect x="{x + width / 2 - 4.6 * len(label):.1f}" y="{y + height / 2 - 10:.1f}" '
            f'width="{9.2 * len(label):.1f}" height="20" rx="4" fill="{fill}" fill-opacity="0.92"/>'
        )
        lines.append(_text(x + width / 2, y + height / 2 + 5, label, "middle", 14, weight=600))
    return lines


def _axes(plan: Plan, frame: _Frame, height: float, *, first: bool) -> list[str]:
    columns = {0, plan.n, *(region.n0 for region in plan.regions)}
    marks = [
        _text(
            frame.x + column * frame.column_px,
            frame.y + height + 18,
            str(column),
            "middle",
            11,
            fill=_FAINT,
        )
        for column in _spread(columns, plan.n, 34 / frame.column_px)
    ]
    if first:
        rows = {0, plan.m, *(region.m0 for region in plan.regions)}
        marks += [
            _text(frame.x - 8, frame.y + row * frame.row_px + 4, str(row), "end", 11, fill=_FAINT)
            for row in _spread(rows, plan.m, 13 / frame.row_px)
        ]
    return marks


def _spread(positions: set[int], last: int, gap: float) -> list[int]:
    """Leave out positions whose labels would touch; both ends stay."""
    kept: list[int] = []
    for position in sorted(positions):
        apart = not kept or position - kept[-1] >= gap
        if position == last or (apart and last - position >= gap):
            kept.append(position)
    return kept


def _legend(plan: Plan, fills: dict[str, str], top: float) -> list[str]:
    lines = [
        _text(_MARGIN + offset, top, title, anchor, 12, fill=_FAINT)
        for title, offset, anchor in _COLUMNS
    ]
    lines.append(
        f'<path d="M{_MARGIN} {top + 8:.1f}h{_TABLE_W}" stroke="{_EDGE}" stroke-opacity="0.4"/>'
    )
    for index, region in enumerate(plan.regions):
        y = top + _ROW_H * (index + 1)
        lines.append(
            f'<rect x="{_MARGIN}" y="{y - 12:.1f}" width="16" height="16" rx="3" '
            f'fill="{fills[region.kernel]}" stroke="{_EDGE}" stroke-width="0.8"/>'
        )
        cells = (
            region.kernel,
            "×".join(map(str, region.tile)),
            f"{region.m0}–{region.m1}",
            f"{region.n0}–{region.n1}",
            f"{region.k0}–{region.k1}",
            f"{region.tasks:,}",
            f"{region.waves:g}",
            f"{region.task_us:,.2f}",
            f"{region.waves * region.task_us:,.1f}",
        )
        for (_, offset, anchor), cell in zip(_COLUMNS, cells, strict=True):
            lines.append(_text(_MARGIN + offset, y, cell, anchor, 13))
    return lines


def _text(
    x: float, y: float, text: str, anchor: str, size: int, *, weight: int = 400, fill: str = _INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
    )
