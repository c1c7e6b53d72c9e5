"""A recording as an animated SVG: rich draws all lines, and two animations show them and scroll them at the recorded times.

The picture has no scripts and no fonts of other hosts. A reader who prefers reduced motion sees the last screen.
"""

from __future__ import annotations

import io

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from compat_tests.cli.recording import COLUMNS, PROMPT, ROWS, Recording, without_progress

_ID = "tour"
#: Rich's sizes of a character, and of a line.
_CHARACTER, _LINE = 12.2, 24.4
_MARGIN, _TITLE_BAR = 9, 41
_LAST_PAUSE_S = 4.0
_WIDTH, _HEIGHT = COLUMNS * _CHARACTER, ROWS * _LINE

#: Rich fills in the names in simple braces; `%s` are the keyframes of the animations and their duration.
_FORMAT = f"""\
<svg viewBox="0 0 {_WIDTH + 2 * _MARGIN:g} {_HEIGHT + _TITLE_BAR + _MARGIN:g}" xmlns="http://www.w3.org/2000/svg">
<title>Commands of odradek in a terminal</title>
<style>
.{{unique_id}}-matrix {{{{ font: {{char_height}}px/{{line_height}}px "Fira Code", "DejaVu Sans Mono", monospace; }}}}
{{styles}}
%s
</style>
<defs>
<clipPath id="{{unique_id}}-window"><rect width="{_WIDTH:g}" height="{_HEIGHT:g}"/></clipPath>
{{lines}}
</defs>
<rect fill="{SVG_EXPORT_THEME.background_color.hex}" x="1" y="1" width="{_WIDTH + 2 * _MARGIN - 2:g}" \
height="{_HEIGHT + _TITLE_BAR + _MARGIN - 2:g}" rx="8"/>
<g transform="translate(26,22)">
<circle r="7" fill="#ff5f57"/><circle cx="22" r="7" fill="#febc2e"/><circle cx="44" r="7" fill="#28c840"/>
</g>
<g transform="translate({_MARGIN}, {_TITLE_BAR})" clip-path="url(#{{unique_id}}-window)">
<g class="{{unique_id}}-matrix {{unique_id}}-scroll">
{{backgrounds}}{{matrix}}
<rect class="{{unique_id}}-cover" fill="{SVG_EXPORT_THEME.background_color.hex}" width="{_WIDTH:g}" height="100%%"/>
</g>
</g>
</svg>
"""


def svg(recording: Recording) -> str:
    """Returns the picture. Raises ValueError for a line that is wider than the terminal."""
    text = Text.from_ansi(recording.shown.removesuffix(PROMPT))
    if wide := [line.plain for line in text.split("\n") if len(line) > COLUMNS]:
        raise ValueError(f"lines are wider than {COLUMNS} columns: {wide}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text, no_wrap=True, overflow="ignore", crop=False)
    return console.export_svg(code_format=_FORMAT % _animations(_frames(recording)), unique_id=_ID, title="")


def _frames(recording: Recording) -> list[tuple[float, int]]:
    """Returns times, and how many lines the terminal has shown by then."""
    frames: list[tuple[float, int]] = []
    screen = ""
    for at, kind, text in recording.events:
        screen += text if kind == "o" else ""
        shown = without_progress(screen)
        # A prompt appears together with its command.
        lines = shown.count("\n") + (not shown.endswith(f"\n{PROMPT}"))
        if not frames or lines != frames[-1][1]:
            frames.append((at, lines))
    return frames


def _animations(frames: list[tuple[float, int]]) -> str:
    duration = frames[-1][0] + _LAST_PAUSE_S
    scrolls, covers = [], []
    for at, lines in frames:
        share = f"{100 * at / duration:.3f}%"
        scrolls.append(f"{share} {{{{ transform: translateY({-_scrolled(lines):g}px); }}}}")
        covers.append(f"{share} {{{{ transform: translateY({_covered(lines):g}px); }}}}")
    last = frames[-1][1]
    return "\n".join((
        f"@keyframes {_ID}-scroll {{{{ 0% {{{{ transform: none; }}}} {' '.join(scrolls)} }}}}",
        f"@keyframes {_ID}-cover {{{{ 0% {{{{ transform: none; }}}} {' '.join(covers)} }}}}",
        f".{_ID}-scroll, .{_ID}-cover {{{{ animation: {_ID}-scroll {duration:.1f}s step-end infinite; }}}}",
        f".{_ID}-scroll {{{{ transform: translateY({-_scrolled(last):g}px); }}}}",
        f".{_ID}-cover {{{{ transform: translateY({_covered(last):g}px); animation-name: {_ID}-cover; }}}}",
        f"@media (prefers-reduced-motion: reduce) {{{{ .{_ID}-scroll, .{_ID}-cover {{{{ animation: none; }}}} }}}}",
    ))  # fmt: skip


def _scrolled(lines: int) -> float:
    return max(0, lines - ROWS) * _LINE


def _covered(lines: int) -> float:
    return lines * _LINE + 1.5
