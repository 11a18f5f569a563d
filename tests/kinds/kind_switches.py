"""Where sources tell kinds from one another by themselves: what a row of a kind is there to say.

A kind that is added reaches what asks its row. A switch over kinds, or a chain of comparisons with them, it passes in
silence, or with a default that was meant for another.
"""

import re

IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
SWITCH = re.compile(r"\bswitch\s*\(")
LABEL = re.compile(r"\bcase\s+([\w:]+)\s*:(?!:)")
LISTS = {"Opcode": ("STRETTO_OPCODES", "STRETTO_TASK_KINDS"), "StageKind": ("STRETTO_STAGES",)}
NAMED = re.compile(r"\bOpcode::(\w+)")
DEFAULT = re.compile(r"\bdefault\s*:")
CHOICE = re.compile(r"==\s*(?:[\w:]*::)?(Opcode|StageKind)::\w+\s*\?")


def bare(text):
    """A source without comments and texts."""
    return IGNORED.sub('""', text)


def end_of(text, at):
    """One past the bracket that closes what opens at `at`."""
    closing = {"(": ")", "{": "}"}[text[at]]
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == text[at]) - (text[i] == closing)
        if depth == 0:
            return i + 1
    return len(text)


def listed_in(text, name):
    """Enumerators of a list X(enumerator, ...) of a header, those of lists that it names left out."""
    body = re.search(rf"#define {name}\(X\)((?:[^\n]*\\\n)*[^\n]*)", text).group(1)
    return set(re.findall(r"\bX\((\w+),", body))


def switched_over(text, kinds):
    """Of each switch of a source that is over one of the enumerations (name -> enumerators), which it is."""
    text = bare(text)
    for found in SWITCH.finditer(text):
        begin = text.find("{", end_of(text, found.end() - 1))
        body = text[begin:end_of(text, begin)]
        labels = [label.rpartition("::") for label in LABEL.findall(body)]
        # After a `using enum` they stand alone; then all of them are its.
        is_alone = bool(labels) and not any(scope for scope, _, _ in labels)
        for enum, names in kinds.items():
            by_name = any(scope.split("::")[-1] == enum for scope, _, _ in labels)
            by_list = any(re.search(rf"\b{one}\(", body) for one in LISTS[enum])
            if by_name or by_list or (is_alone and all(label in names for _, _, label in labels)):
                yield enum
                break


def chosen_by(text, most):
    """The enumerations of which a source compares with more than `most` in one chain of `? :`."""
    for statement in re.split(r"[;{}]", bare(text)):
        choices = CHOICE.findall(statement)
        if len(choices) > most:
            yield choices[0]


def named_in(text, kinds):
    """The kinds of tasks that a source names as such, each once."""
    return sorted(set(NAMED.findall(bare(text))) & kinds)


def unsaid_in(rows, members):
    """Of the rows of a source, as texts of it, members that one does not give."""
    return [member for member in members if not re.search(rf"\.{member} = ", bare(rows))]


def in_words(texts, word):
    """Names of the sources (name -> text) that have a word, as code."""
    return sorted(name for name, text in texts.items() if re.search(word, bare(text)))
