"""Wraps a Markdown page at 100 columns: its prose and its lists, not its tables, code and links."""

import re

COLUMNS = 100
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])\s+")
# What makes a line something else than prose. A line of prose must not begin with it.
NO_PROSE = re.compile(r"^(#|\||>|<|```|!\[|\[[^\]]+\]:|---|===|[-*] \[[^\]]*\]\([^)]*\)$)")
WORD_THAT_MARKS = re.compile(r"^([-*+#>|]+|\d+[.)]|===+)$")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
HELD = "\x00"  # a blank that is no place to break a line


def words_of(text):
    """Its words; short code, and what would mark a line at its beginning, stay with the word before."""
    def hold(code):
        return code[0].replace(" ", HELD) if len(code[0]) <= 60 else code[0]

    words = []
    for word in CODE.sub(hold, text).split():
        if words and WORD_THAT_MARKS.match(word):
            words[-1] += " " + word
        else:
            words.append(word)
    return [word.replace(HELD, " ") for word in words]


def wrap(text, first="", rest=""):
    lines, line = [], first
    for word in words_of(text):
        begin = line.strip() == "" or line == first
        if not begin and len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line, begin = rest, True
        line += word if begin else " " + word
    return lines + [line]


def blocks_of(lines):
    """(kind, lines) of each block: "prose", or "kept" for a line that stays as it is."""
    block, fence, was_blank = [], None, True
    for line in lines:
        mark = re.match(r"^\s*(```+|~~~+)", line)
        inside = fence is not None
        if mark and (not inside or line.strip().startswith(fence)):
            fence = None if inside else mark[1]
        is_code = inside or mark or (was_blank and not block and line.startswith("    ") and
                                     not ITEM.match(line))
        is_kept = is_code or not line.strip() or NO_PROSE.match(line.strip())
        begins_item = bool(ITEM.match(line)) and not is_code
        if (is_kept or begins_item) and block:
            yield "prose", block
            block = []
        if is_kept:
            yield "kept", [line]
            was_blank = not line.strip() or (was_blank and bool(is_code))
            continue
        block.append(line)
        was_blank = False
    if block:
        yield "prose", block


def wrap_page(text):
    out = []
    for kind, lines in blocks_of(text.split("\n")):
        if kind == "kept" or all(len(line) <= COLUMNS for line in lines):
            out += lines
            continue
        item = ITEM.match(lines[0])
        first = item[0] if item else re.match(r"^\s*", lines[0])[0]
        rest = " " * len(first)
        body = " ".join([lines[0][len(first):]] + [line.strip() for line in lines[1:]])
        out += wrap(body, first, rest)
    return "\n".join(out)
