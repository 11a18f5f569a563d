"""Types of the library by their full names, and where each is defined: what a compiler, which sees a file at a time,
does not compare.

Two classes of one name compile and link. Each has its constructors and destructor under the same symbols, of which
the linker keeps one, so that programs which hold both may free what they never allocated.
"""

import collections
import re

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
PARAMETERS = re.compile(r"template\s*<(?:[^<>]|<[^<>]*>)*>")
SCOPES = re.compile(r"namespace\s*([\w:]*)\s*\{|\b(?:class|struct|union)\s+([\w:]+)[^;{}()=]*\{|\{|\}")


def defined_in(text):
    """Full names of the types that a source defines in namespaces that have names."""
    scopes = []  # the name of a namespace; None where names are the file's or a scope's own
    for found in SCOPES.finditer(PARAMETERS.sub("", COMMENTS.sub("", text))):
        if found.group(0) == "}":
            if scopes:
                scopes.pop()
        elif found.group(0).startswith("namespace"):
            scopes.append(found.group(1) or None)
        else:
            if found.group(2) and None not in scopes:
                yield "::".join([*scopes, found.group(2)])
            scopes.append(None)


def defined_twice(texts):
    """Names that several of the sources (name -> text) define, and which."""
    places = collections.defaultdict(set)
    for source, text in texts.items():
        for name in defined_in(text):
            places[name].add(source)
    return {name: sorted(where) for name, where in places.items() if len(where) > 1}
