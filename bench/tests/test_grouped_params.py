"""What the bench packs for the grouped kernel is as long as what the kernel reads, word by word."""

import pathlib
import re
import struct
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAPS, MAP_BYTES, ALIGNMENT = 1 + 16 + 6, 128, 64


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


class GroupedParams(unittest.TestCase):
    def test_have_the_fields_of_the_device(self):
        header = read("include/stretto/device/grouped_task.h")
        body = re.search(r"struct GroupedParams \{(.*?)\n\};", header, re.DOTALL)[1]
        code = " ".join(line.split("//")[0] for line in body.splitlines())
        fields = [field.strip() for field in code.split(";") if field.strip() and not field.strip().startswith("TensorMap")]
        words = "".join("Q" if "*" in field or field.startswith("uint64") else "I" * len(field.split(",")) for field in fields)
        packed = re.search(r'struct\.pack\("<([^"]+)"', read("bench/experts/grouped_kernels.py"))[1]
        spelled = "".join(letter * int(count or 1) for count, letter in re.findall(r"(\d*)([QI])", packed))
        self.assertEqual(spelled, words)
        size = int(re.search(r"sizeof\(GroupedParams\) == (\d+)", header)[1])
        bytes_of_all = MAPS * MAP_BYTES + struct.calcsize("<" + packed)
        self.assertEqual(-(-bytes_of_all // ALIGNMENT) * ALIGNMENT, size)


if __name__ == "__main__":
    unittest.main()
