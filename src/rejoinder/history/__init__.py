"""The history of a project: its runs as rows, found quickly, filtered and sorted; what people noted about them."""
