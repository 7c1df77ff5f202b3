"""Rows run in the order in which they cost least."""

import unittest

from run import by_binary, in_packages, narrowed, test

BELOW = {"server": ["server", "store"], "store": ["store"]}


class Known:
    def below(self, package, with_tests):
        return BELOW[package] if with_tests else []


class OrderTest(unittest.TestCase):
    def test_small_packages_come_first_and_rows_of_one_file_together(self):
        rows = {name: (file, "a", "b", test(package, "it_holds"))
                for name, file, package in [("1", "y.rs", "server"), ("2", "x.rs", "server"), ("3", "y.rs", "store"),
                                            ("4", "y.rs", "server")]}
        order = [(package, list(group)) for package, group in in_packages(rows, Known())]
        self.assertEqual(order, [("store", ["3"]), ("server", ["2", "1", "4"])])


SAID = """
   Compiling store v0.1.0
     Running unittests src/lib.rs (target/debug/deps/store-1)
running 2 tests
test index::it_holds ... ok
test index::others ... FAILED
     Running tests/copies.rs (target/debug/deps/copies-2)
test it_panics - should panic ... ok
     Running tests/it/main.rs (target/debug/deps/it-3)
test locks::it_holds_locks ... ok
   Doc-tests store
test src/lib.rs - example (line 3) ... ok
"""


class NarrowTest(unittest.TestCase):
    def test_only_what_has_the_tests_is_built(self):
        where = by_binary(SAID)
        self.assertEqual(where, {("--lib",): {"index::it_holds", "index::others"}, ("--test", "copies"): {"it_panics"},
                                 ("--test", "it"): {"locks::it_holds_locks"}})

        def flags(*names):
            return narrowed(test("store", *names), where)[5:-len(names) - 1]
        self.assertEqual(flags("it_holds_locks"), ["--test", "it"])
        self.assertEqual(flags("others"), ["--lib"])
        self.assertEqual(flags("it_holds"), ["--lib", "--test", "it"])
        self.assertEqual(flags("others", "it_panics"), ["--lib", "--test", "copies"])
        self.assertEqual(flags("nowhere"), [])


if __name__ == "__main__":
    unittest.main()
