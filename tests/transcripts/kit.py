"""Recorded conversations, and what they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rejoinder.transcripts.formats import read_transcripts
from rejoinder.transcripts.values import Transcript

SAMPLES = Path(__file__).parent / "samples"
EXPECTED = {
    "agentv.jsonl": ("agentv", {"rain": 1}, ["forecast"]),
    "agentv_codex.jsonl": ("agentv", {"01a1e01f-162c-7790-a713-81d2a8cbefe2": 1}, ["exec_command"]),
    "anthropic.json": ("anthropic", {"anthropic-1": 2}, ["forecast"]),
    "anthropic_log.jsonl": ("anthropic", {"anthropic_log-1": 2}, ["forecast"]),
    "atif.json": ("atif", {"11111111-2222-4333-8444-555555555555": 3}, ["Bash"]),
    "atif_codex.json": ("atif", {"01a1e01f-162c-7790-a713-81d2a8cbefe2": 1}, ["exec_command"]),
    "claude.jsonl": ("claude", {"11111111-2222-4333-8444-555555555555": 3}, ["Bash"]),
    "codex.jsonl": ("codex", {"01a1e01f-0cd6-7822-936b-2987b5617f0b": 2}, []),
    "codex_tool.jsonl": ("codex", {"01a1e01f-162c-7790-a713-81d2a8cbefe2": 1}, ["exec_command"]),
    "copilot.jsonl": ("copilot", {"71b350a0-2d04-42b7-8a64-fcd0f8b09709": 1}, ["bash"]),
    "gemini.jsonl": ("gemini", {"fe8f4419-9a9d-49af-b561-c152c08b90c6": 4}, ["run_shell_command", "mcp_fake_fake_add"]),
    "openai.json": ("openai", {"openai-1": 2}, ["forecast"]),
    "openai_log.jsonl": ("openai", {"openai_log-1": 2}, ["forecast"]),
    "opencode.json": ("opencode", {"ses_e1fdf3fd7ffejblDRLsBi9JF2i": 2}, []),
    "openinference.json": ("openinference", {"weather-desk-7": 2}, ["forecast"]),
    "openinference_anthropic.json": ("openinference", {"weather-desk-7": 2}, ["forecast"]),
    "otel.json": ("otel", {"1d1120a3eef470b6300ac1829eee9728": 2}, ["forecast"]),
    "otel_agent.json": ("otel", {"01a1ec61-843c-7746-9dad-9820175ca9d6": 2}, ["forecast"]),
    "otel_details.json": ("otel", {"4b41bff26af51bb089d31fbad9f41afd": 2}, ["forecast"]),
    "otel_events.jsonl": ("otel", {"91c5a2652242b7cb2e725c6309e1ec69": 2}, ["forecast"]),
    "otel_flat.json": ("otel", {"bdb9a081e3320281372e0825903aa377": 2}, ["forecast"]),
    "pi.jsonl": ("pi", {"01a1e02a-9418-7fd5-82cb-89e85956ff89": 2}, []),
}
"""Of each sample: its format, its conversations with their turns, and the tools that were called.

How they were made is told in samples/README.md."""
TALKS = [name for name, (_, _, tools) in EXPECTED.items() if tools == ["forecast"] and name != "agentv.jsonl"]
"""The same conversation, as several programs wrote it down."""


def sample(name: str) -> list[Transcript]:
    return read_transcripts([SAMPLES / name])


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)
