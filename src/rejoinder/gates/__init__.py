"""Gates: the verdicts of a run, kept as a baseline, and the rules that a run must meet.

No name is imported here, so that a command loads only what it uses.
"""
