"""Targets of AgentV 4, and providers of AgentV 5, as targets. A suite names them; their settings are in files of the
project, in `.agentv`, or in the suite itself."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.imports.agentv.graders import Graders
from rejoinder.imports.promptfoo.words import Lost, slug, whole
from rejoinder.imports.sources import ImportFault, Spot
from rejoinder.imports.texts import literal
from rejoinder.imports.verified import refusal_of_target
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment, Commented

Target = dict[Any, Any]

_LLM = {
    **dict.fromkeys(("openai", "openai-chat", "openai-compatible"), "openai"),
    **dict.fromkeys(("azure", "azure-openai", "azureopenai"), "azure"),
    **dict.fromkeys(("gemini", "google", "google-gemini"), "gemini"),
    **{name: name for name in ("anthropic", "openrouter", "ollama", "groq", "mistral", "deepseek", "xai")},
}
_AGENTS = {
    **dict.fromkeys(("claude", "claude-cli", "claude-code", "claude-sdk", "cc-mirror"), "claude"),
    **dict.fromkeys(("codex", "codex-cli", "codex-sdk", "codex-app-server"), "codex"),
    **dict.fromkeys(("copilot", "copilot-cli", "copilot-sdk", "github-copilot"), "copilot"),
    **dict.fromkeys(("pi", "pi-cli", "pi-coding-agent", "pi-sdk", "pi-rpc"), "pi"),
    **{name: name for name in ("gemini-cli", "opencode", "vscode", "vscode-insiders")},
}
"""Coding agents, by ours."""
_SETTINGS = {
    **{name: name for name in ("model", "api_key", "base_url", "temperature", "top_p", "seed", "headers", "endpoint")},
    **{name: name for name in ("deployment", "workers", "timeout_seconds", "max_output_tokens", "system_prompt")},
    **{name: name for name in ("executable", "args", "env", "response", "delay_ms", "max_retries", "reasoning_effort")},
    "version": "api_version",
    "api_version": "api_version",
    "max_tokens": "max_output_tokens",
    "resource_name": "resource",
}
_OF_THE_PROGRAM = frozenset(
    {"name", "id", "label", "provider", "grader_target", "judge_target", "grader", "stream_log", "log_dir"}
    | {"log_format", "log_directory", "log_output_format", "verbose", "provider_batching", "batch_requests"}
    | {"keep_workspaces", "keep_temp_files", "description", "runtime", "config", "hooks"}
    | {"use_target", "api_format"}
)
"""Keys that are read elsewhere, or that change nothing in replies."""
_ENVIRONMENT = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
_PERMISSIONS = Comment("permissions: { edit: allow, execute: allow } # AgentV lets its agents change files")
_MOST_STEPS = 10


class Workspace(Struct, frozen=True):
    """The workspace of a suite, as settings of its agents."""

    spot: Spot
    settings: Target
    notes: tuple[str, ...] = ()
    """The differences."""


class Targets:
    """The targets of one file."""

    def __init__(self, spot: Spot, bench: Workbench, graders: Graders) -> None:
        self._spot = spot
        self._bench = bench
        self._graders = graders
        self._known = self._catalogue()
        self._names: dict[str, str] = {}
        """Names in the suite, by names in the source."""
        self.written: list[Any] = []
        """Definitions and comments, as `targets` of the suite has them."""
        self.judges: dict[str, None] = {}
        """The judges of the targets that are used."""
        self.workspace: Workspace | None = None
        self.has_workspace = False
        """Whether a target took the workspace over."""

    def use(self, name: str, spot: Spot) -> str:
        """The target of the suite for a name in the source; its definition is added."""
        if name not in self._names:
            self._names[name] = self._name(name)
            self._define(self._names[name], self._known.get(name), name, spot)
        return self._names[name]

    def use_entry(self, spot: Spot) -> str | None:
        """The target for a name, or for settings in the eval itself."""
        if isinstance(spot.value, str) and spot.value.strip():
            return self.use(spot.value.strip(), spot)
        name = next((spot[key].value for key in ("label", "name", "id") if isinstance(spot[key].value, str)), None)
        if name is None:
            return None
        if set(spot.value) - {"name", "hooks"}:
            self._known[name] = spot
        return self.use(name, spot)

    def has(self, name: str) -> bool:
        return name in self._known

    def _name(self, name: str) -> str:
        taken = set(self._names.values())
        is_plain = bool(re.fullmatch(r"[\w./@:-]+", name)) and name not in taken
        return name if is_plain else slug(name, taken, "target")

    def _define(self, name: str, found: Spot | None, theirs: str, used: Spot) -> None:
        comments: list[Any] = []
        try:
            target = self._target(found, theirs, comments)
            self._bench.ledger.map(used)
        except Lost as lost:
            comments = [self._bench.ledger.leave_out(used, f"target {lost.what}", lost.how)]
            # An error and no reply: checks that forbid something would pass on any words.
            target = {"provider": "scripted", "replies": [{"error": "the import left this target out"}]}
        entry = {**dict.fromkeys(found.above() if found is not None else ()), "name": name}
        beside = found.beside() if found is not None else None
        if found is not None:
            comments = [*found.within(), *comments]
        entry |= {**dict.fromkeys(comments), **target}
        self.written.append(Commented(entry, beside) if beside else entry)

    def _target(self, found: Spot | None, theirs: str, comments: list[Any]) -> Target:
        if found is None and ":" in theirs:
            return self._checked(theirs, _of_id(theirs))
        if found is None:
            raise Lost(theirs[:60], "no file of the imported folder defines it; name another target")
        spot = self._followed(found, theirs)
        provider = _provider(spot, found)
        if not isinstance(provider, str) or not provider.strip():
            raise Lost(theirs[:60], "it has no provider")
        judge = next((spot[key].value for key in ("grader_target", "judge_target") if spot[key].value), None)
        if isinstance(judge, str) and judge != theirs:
            self.judges[judge] = None
        target = self._of_provider(spot, provider.strip(), theirs, comments)
        return self._checked(theirs, target)

    def _checked(self, theirs: str, target: Target) -> Target:
        if (refusal := refusal_of_target(target)) is not None:
            raise Lost(theirs[:60], f"a suite refuses it: {refusal[:150]}")
        return target

    def _followed(self, spot: Spot, theirs: str) -> Spot:
        """The target that `use_target` leads to."""
        for _ in range(_MOST_STEPS):
            written = spot["use_target"].value
            if written is None:
                return spot
            following = self._known.get(written) if isinstance(written, str) else None
            if following is None:
                raise Lost(theirs[:60], f"`use_target: {str(written)[:60]}` names it; name your own")
            spot = following
        raise Lost(theirs[:60], "its `use_target` leads in a circle")

    def _of_provider(self, spot: Spot, provider: str, theirs: str, comments: list[Any]) -> Target:
        kind, _, model = provider.partition(":")
        if kind == "cli" and self.workspace is not None:
            raise Lost(theirs[:60], "its command runs in the workspace, which only coding agents have here")
        if kind == "cli":
            return self._of_command(spot, comments)
        if kind == "mock":
            return {"provider": "mock", "response": "TODO", **self._settings(spot, "mock", comments)}
        ours = _LLM.get(kind) or _AGENTS.get(kind)
        if ours is None:
            raise Lost(theirs[:60], f"there is no provider `{kind[:40]}` here; name another target")
        target: Target = {"provider": ours}
        if model:
            target["model"] = model.rpartition(":")[2]
        target |= self._settings(spot, ours, comments)
        if kind == "cc-mirror" and isinstance(spot["variant"].value, str):
            target["executable"] = _environment(spot["variant"].value)
        if str(spot["api_format"].value) == "responses" and ours == "openai":
            target["api"] = "responses"
        if ours in _AGENTS.values():
            target[_PERMISSIONS] = None
            target |= self._workspace_settings(comments)
        return target

    def _workspace_settings(self, comments: list[Any]) -> Target:
        if self.workspace is None:
            return {}
        self.has_workspace = True
        spot = self.workspace.spot
        for note in self.workspace.notes:
            comments.append(self._bench.ledger.approximate(spot, "the workspace", note))
        if not self.workspace.notes:
            self._bench.ledger.map(spot)
        return self.workspace.settings

    def _settings(self, spot: Spot, ours: str, comments: list[Any]) -> Target:
        settings: Target = {}
        inner = spot["config"]
        for key, one in [*spot.pairs, *inner.pairs]:
            name = _SETTINGS.get(_snake(key))
            value = _environment(whole(one.value))
            if name == "model" and ours == "azure":
                name = "deployment"
            if _snake(key) in _OF_THE_PROGRAM or key in ("command", "cwd", "variant"):
                continue
            if name is None or not isinstance(value, str | int | float | list | dict) or isinstance(value, bool):
                how = "a target here has nothing like it"
                comments.append(self._bench.ledger.leave_out(one, f"target setting `{key}`", how))
            else:
                settings[name] = value
        return settings

    def _of_command(self, spot: Spot, comments: list[Any]) -> Target:
        source = spot if "command" in spot or "command_template" in spot else spot["config"]
        command = source["command"].value or source["command_template"].value
        target: Target = {"provider": "cli"}
        if isinstance(command, list) and all(isinstance(one, str) for one in command) and command:
            target["command"] = [_environment(one) for one in command]
        elif isinstance(command, str) and command.strip():
            target["command_template"] = _environment(command.strip())
        else:
            raise Lost("cli", "it has no command")
        target |= self._folder(source)
        for key in ("files_format", "timeout_seconds"):
            if isinstance(source[key].value, str | int | float):
                target[key] = source[key].value
        target |= self._health(source["healthcheck"])
        known = {"command", "command_template", "cwd", "files_format", "timeout_seconds", "healthcheck"}
        for key, one in source.pairs:
            if key not in known and _snake(key) not in _OF_THE_PROGRAM:
                how = "a command here has nothing like it"
                comments.append(self._bench.ledger.leave_out(one, f"target setting `{key}`", how))
        return target

    def _folder(self, spot: Spot) -> Target:
        """The folder of a command: AgentV starts from that of the eval."""
        start = self._spot.file.path
        written = spot["cwd"].value
        path = spot.locate(written, start) if isinstance(written, str) and written.strip() else start.parent
        shown = self._bench.link(spot, path)
        return {} if shown == "." else {"cwd": shown}

    def _health(self, spot: Spot) -> Target:
        command, url = spot["command"].value or spot["command_template"].value, spot["url"].value
        if isinstance(url, str):
            return {"healthcheck": {"type": "http", "url": _environment(url)}}
        if isinstance(command, list) and all(isinstance(one, str) for one in command):
            command = shlex.join(command)
        if not isinstance(command, str):
            return {}
        return {"healthcheck": {"type": "command", "command_template": _environment(command), **self._folder(spot)}}

    # Files of targets

    def _catalogue(self) -> dict[str, Spot]:
        """The targets of the project, by name; the nearer folder wins."""
        known: dict[str, Spot] = {}
        for folder in reversed(self._graders.above()):
            for name in ("targets.yaml", "targets.yml", "providers.yaml", "providers.yml", "config.yaml", "config.yml"):
                path = folder / ".agentv" / name
                if path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
                    known |= dict(self._of_file(path))
        return known

    def _of_file(self, path: Path) -> Iterator[tuple[str, Spot]]:
        top = self._spot.file.folder.read(path).spot
        lists = [top] if isinstance(top.value, list) else [top["targets"], top["providers"]]
        for one in (one for listed in lists for one in listed.items):
            for key in ("label", "name", "id"):
                if isinstance(one[key].value, str):
                    yield one[key].value, one
                    break


def read_workspace(spot: Spot, graders: Graders, bench: Workbench) -> tuple[Workspace | None, list[Comment]]:
    """The workspace of a suite, and comments for the parts of it that have no form here."""
    if isinstance(spot.value, str):
        path = graders.file(spot, spot.value)
        if path is None:
            return None, [bench.ledger.leave_out(spot, "the workspace", "there is no such file in the imported folder")]
        inner = spot.file.folder.read(path).spot
        return _workspace(inner, path, graders, bench)
    return _workspace(spot, spot.file.path, graders, bench)


def _workspace(spot: Spot, beside: Path, graders: Graders, bench: Workbench) -> tuple[Workspace | None, list[Comment]]:
    lost: list[Comment] = []
    notes: list[str] = []
    settings: Target = {}
    for key, one in spot.pairs:
        if key in ("template", "workdir") and isinstance(one.value, str) and spot["type"].value != "docker":
            path = _template(one, beside, graders)
            if path is None:
                how = "there is no such folder in the imported one"
                lost.append(bench.ledger.leave_out(one, f"workspace {one.value[:60]}", how))
            else:
                settings["workspace_template"] = bench.link(one, path)
        elif key == "repos":
            settings["setup"] = [line for repo in one.items for line in _cloned(repo)]
            notes.append("repositories are cloned for each conversation")
        elif key not in ("isolation", "mode", "type", "name", "path", "version", "$schema"):
            lost.append(bench.ledger.leave_out(one, f"workspace `{key}`", _workspace_how(key, one)))
    if not settings:
        return None, lost
    return Workspace(spot, settings, tuple(notes)), lost


def _template(spot: Spot, beside: Path, graders: Graders) -> Path | None:
    try:
        path = spot.locate(spot.value, beside)
        return path if path.is_dir() else graders.found(spot, spot.value)
    except (ImportFault, Lost):
        return None


def _cloned(repo: Spot) -> Iterator[str]:
    """The commands that put a repository into the workspace. Only the target of the suite runs them."""
    address, path = repo["repo"].value, repo["path"].value
    commit = repo["commit"].value or repo["base_commit"].value
    if not isinstance(address, str) or not re.fullmatch(r"[\w./:@~+-]+", address) or address.startswith("-"):
        return
    if re.fullmatch(r"[\w.-]+/[\w.-]+", address):
        address = f"https://github.com/{address}.git"
    name = path if isinstance(path, str) and path.strip() else address.rpartition("/")[2].removesuffix(".git")
    folder = literal(shlex.quote(name))
    yield f"git clone {address} {folder}"
    if isinstance(commit, str | int) and str(commit).strip():
        yield f"git -C {folder} checkout {literal(shlex.quote(str(commit)))}"


def _workspace_how(key: str, spot: Spot) -> str:
    if key in ("hooks", "setup"):
        said = " ".join(json.dumps(spot.value, ensure_ascii=False, default=str).split())
        return f"`setup` and `teardown` of an agent's target run in the workspace; write there: {said[:200]}"
    if key in ("docker", "image", "resources", "container"):
        return "agents run on this machine, and not in containers"
    return "workspaces here have nothing like it"


def _provider(spot: Spot, found: Spot) -> Any:
    """The kind of a target: `provider` in AgentV 4, `id` beside a `label` in AgentV 5."""
    provider = spot["provider"].value
    return provider if provider is not None else spot["id"].value or found["id"].value


def _of_id(written: str) -> Target:
    """A target for an id such as `openai:gpt-5-mini`."""
    kind, _, model = written.partition(":")
    ours = _LLM.get(kind) or _AGENTS.get(kind)
    if ours is None or not model:
        raise Lost(written[:60], "no provider of this name; name another target")
    return {"provider": ours, "deployment" if ours == "azure" else "model": model.rpartition(":")[2]}


def _environment(value: Any) -> Any:
    """Variables of the environment as targets write them."""
    if isinstance(value, str):
        return _ENVIRONMENT.sub(r"${{ \1 }}", value)
    if isinstance(value, list):
        return [_environment(one) for one in value]
    if isinstance(value, dict):
        return {key: _environment(one) for key, one in value.items()}
    return value


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", str(key))
