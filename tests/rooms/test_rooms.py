"""Rooms of src include only rooms that they name in CMake, or that those stand on; there is no circle."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "(\w+)/', re.MULTILINE)


def named_in(cmake):
    """The rooms of a CMakeLists.txt, each with those that it names."""
    return {words[0]: set(words[2:]) if words[1:2] == ["DEPS"] else set()
            for words in (re.split(r"\s+ALONE\s", call)[0].split()
                          for call in re.findall(r"^stretto_room\(([^)]*)\)", cmake, re.MULTILINE))}


def below(room, rooms, above=()):
    """All that a room stands on."""
    if room in above:
        raise ValueError(" -> ".join((*above[above.index(room):], room)))
    return rooms[room].union(*(below(one, rooms, (*above, room)) for one in rooms[room]))


def strangers(room, text, rooms):
    """Rooms that a file of `room` includes without standing on them."""
    return sorted(set(INCLUDE.findall(text)) & set(rooms) - below(room, rooms) - {room})


class Rooms(unittest.TestCase):
    def setUp(self):
        self.rooms = {}
        for path in (ROOT / "src").glob("*/CMakeLists.txt"):
            self.rooms.update(named_in(path.read_text(encoding="utf-8")))

    def test_stand_on_what_they_name(self):
        self.assertGreater(len(self.rooms), 20)
        found = {}
        for room in self.rooms:
            for path in (ROOT / "src" / room).glob("**/*.[ch]*"):
                if more := strangers(room, path.read_text(encoding="utf-8"), self.rooms):
                    found[str(path.relative_to(ROOT))] = more
        self.assertEqual(found, {})

    def test_public_headers_stand_by_themselves(self):
        for path in (ROOT / "include").glob("**/*.h"):
            self.assertLessEqual(set(INCLUDE.findall(path.read_text(encoding="utf-8"))), {"stretto"}, path.name)

    def test_a_stranger_and_a_circle_are_found(self):
        rooms = {**named_in("stretto_room(core)\n"), **named_in("stretto_room(op DEPS core)\n"),
                 **named_in("stretto_room(plan DEPS op ALONE\n  parse)\n")}
        self.assertEqual(rooms, {"core": set(), "op": {"core"}, "plan": {"op"}})
        self.assertEqual(strangers("plan", '#include "core/text.h"\n#include "op/rows.h"\n', rooms), [])
        self.assertEqual(strangers("op", '#include "plan/faults.h"\n#include "stretto/plan.h"\n', rooms), ["plan"])
        with self.assertRaisesRegex(ValueError, "op -> plan -> op"):
            below("op", {**rooms, "op": {"core", "plan"}})


if __name__ == "__main__":
    unittest.main()
