"""The history of a project: its runs as rows, with fast search, filters and sorting, and the user's notes."""
