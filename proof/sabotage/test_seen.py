"""What was seen counts only for what the test of a row is built from."""

import tempfile
import unittest
from pathlib import Path

from seen import Seen

UPPER = ("upper/src/lib.rs", "a", "b", ["cargo", "test", "--quiet", "--package", "upper", "--", "it_holds"])
PACKAGE = '[package]\nname = "{}"\nversion = "0.1.0"\nedition = "2024"\n{}'


class SeenTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("Cargo.toml", '[workspace]\nresolver = "3"\nmembers = ["upper", "lower", "other"]\n')
        self.write("upper/Cargo.toml", PACKAGE.format("upper", '[dependencies]\nlower = { path = "../lower" }\n'))
        for name in ("lower", "other"):
            self.write(f"{name}/Cargo.toml", PACKAGE.format(name, ""))
        for name in ("upper", "lower", "other"):
            self.write(f"{name}/src/lib.rs", "")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def seen(self):
        return Seen(self.root, self.root / "target" / "seen.jsonl")

    def has_after(self, path):
        self.seen().add("a row", UPPER)
        self.write(path, "// changed\n")
        return self.seen().has("a row", UPPER)

    def test_a_row_is_seen_when_it_was(self):
        self.assertFalse(self.seen().has("a row", UPPER))
        self.seen().add("a row", UPPER)
        self.assertTrue(self.seen().has("a row", UPPER))
        self.assertFalse(self.seen().has("another", UPPER))
        self.assertFalse(self.seen().has("a row", (UPPER[0], "a", "c", UPPER[3])))

    def test_a_change_of_a_package_below_counts(self):
        self.assertFalse(self.has_after("lower/src/lib.rs"))

    def test_a_new_file_counts(self):
        self.assertFalse(self.has_after("upper/tests/it.rs"))

    def test_other_versions_of_others_count(self):
        self.assertFalse(self.has_after("Cargo.lock"))

    def test_a_change_elsewhere_does_not(self):
        self.assertTrue(self.has_after("other/src/lib.rs"))

    def test_a_line_that_was_cut_short_says_nothing(self):
        self.seen().add("a row", UPPER)
        path = self.root / "target" / "seen.jsonl"
        path.write_text(path.read_text()[:-3])
        self.assertFalse(self.seen().has("a row", UPPER))


if __name__ == "__main__":
    unittest.main()
