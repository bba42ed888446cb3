import unittest

from slugs import slug


class Slug(unittest.TestCase):
    def test_it_is_in_lower_case(self):
        self.assertEqual(slug("Rocket Skates"), "rocket-skates")

    def test_white_space_is_one_dash(self):
        self.assertEqual(slug("Rocket   Skates\n"), "rocket-skates")
