"""Titles as parts of an address."""


def slug(title):
    return title.replace(" ", "-")
