"""Evals of AgentV 4 and 5 as suites."""
