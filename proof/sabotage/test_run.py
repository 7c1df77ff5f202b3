"""Rows run in the order in which they cost least."""

import unittest

from run import in_packages, test

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


if __name__ == "__main__":
    unittest.main()
