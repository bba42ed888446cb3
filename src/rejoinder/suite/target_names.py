"""Names of targets: the problems of a name, and the places where a suite names each target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from msgspec import Struct, structs

from rejoinder.errors import severity_of
from rejoinder.model import Problem, Target
from rejoinder.model.providers import KEY_VARIABLES, PROVIDER_NAMES
from rejoinder.prices.lookup import is_openrouter_id, vendor_of
from rejoinder.spelling import nearest
from rejoinder.suite.source import CasePlace, Place, Source
from rejoinder.suite.targets import is_known_provider, needed_besides_model, resolve

OPENROUTER = "openrouter"


class NamedTargets(Struct, frozen=True):
    """The targets that a suite can name, and the first place that names each."""

    known: Mapping[str, Target]
    complete: bool = True
    """False if a file of targets could not be read; then no name is reported as wrong."""
    places: dict[str, Place] = {}
    faulty: Set[str] = frozenset()
    """Targets with an invalid definition, which is reported at the definition."""
    choosable: list[str] = []
    """Targets that can answer without being named."""

    routed: dict[str, Target] = {}
    """Models that are asked through OpenRouter, by the suite's names for them."""
    route: Callable[[str], Target | None] = lambda _name: None
    """Returns the OpenRouter target for a model that only OpenRouter lists."""

    def check(self, name: str, source: Source | CasePlace, at: str) -> list[Problem]:
        """The problems of a name; its place is stored."""
        self.places.setdefault(name, (source, at))
        if name in self.faulty:
            return []
        self.take(name)
        faults = check_target(name, self.known, complete=self.complete, routed=name in self.routed)
        return [fault.problem(source, at) for fault in faults]

    def take(self, name: str) -> None:
        """Route a model to OpenRouter if only OpenRouter has it."""
        if name not in self.known and (target := self.route(name)) is not None:
            self.routed[name] = target


class TargetFault(Struct, frozen=True):
    """A problem with the name of a target."""

    code: str
    message: str
    name: str
    instead: str | None = None
    """The right name."""
    lists_known: bool = False
    """Whether the message already lists the known targets."""

    def problem(self, source: Source | CasePlace, at: str) -> Problem:
        problem = source.problem(self.code, at, self.message, severity=severity_of(self.code))
        line = problem.source or ""
        if self.instead is None or self.name not in line:
            return problem
        return structs.replace(problem, suggestion=line.replace(self.name, self.instead, 1))


def route_to_openrouter(name: str, environment: Mapping[str, str], *, asks: bool = True) -> Target | None:
    """The OpenRouter target for a model that OpenRouter lists and its vendor does not, if OpenRouter's key is set and
    the vendor's is not. If nothing is asked, no key is required."""
    target = resolve(name, {})
    if target is None or "model" not in target.settings or target.provider == OPENROUTER:
        return None
    is_known = is_known_provider(target.provider)
    if any(environment.get(variable) for variable in KEY_VARIABLES.get(target.provider, ())):
        return None
    if asks and not any(environment.get(variable) for variable in KEY_VARIABLES[OPENROUTER]):
        return None
    if not is_openrouter_id(target.provider, target.settings["model"], is_known=is_known):
        return None
    return Target(name=name, provider=OPENROUTER, settings={"model": name})


def check_target(
    name: str, targets: Mapping[str, Target], *, complete: bool = True, routed: bool = False
) -> list[TargetFault]:
    """The problems of a target's name. `complete`: False if some targets could not be read; `routed`: True if
    OpenRouter is asked for it."""
    target = resolve(name, targets)
    if target is None:
        return [_unknown_target(name, targets)] if complete else []
    if name in targets or "model" not in target.settings:
        return []
    is_known = is_known_provider(target.provider)
    if is_openrouter_id(target.provider, target.settings["model"], is_known=is_known):
        instead = f"openrouter/{name}"
        what = f"`{target.provider}` lists no such model" if is_known else f"there is no provider `{target.provider}`"
        message = f"`{name}` is OpenRouter's name of a model, and {what}; write `{instead}`"
        if routed:
            message = (
                f"`{name}` is asked at OpenRouter, because {what} and only OpenRouter's key is set; write `{instead}`"
            )
        return [TargetFault("model-of-openrouter", message, name, instead)]
    return [] if is_known else [_unknown_provider(name, target.provider)]


def _unknown_target(name: str, targets: Mapping[str, Target]) -> TargetFault:
    near, vendor = nearest(name, targets), None
    if near is None and (vendor := vendor_of(name)):
        near = f"{vendor}/{name}"
    near = near or nearest(name, targets, likeness=0.5)  # there are few, so a distant one may be meant, too
    lists_known = False
    hint = f"did you mean `{near}`?"
    provider = PROVIDER_NAMES.get(name.partition("/")[0].lower(), "")
    if near is None and "/" in name and (needed := needed_besides_model(provider)):
        hint = f"a target with provider `{provider}` needs `{needed}`, so it has to be defined under `targets`"
    elif near is None and targets:
        lists_known = True
        hint = f"a model can be named as provider/model, and the targets are {', '.join(targets)}"
    elif near is None:
        hint = "name a model as openai/gpt-5-mini, or define targets in .rejoinder/targets.yaml"
    # Another target is another model: only a name that is surely meant is written into the line.
    message = f"there is no target `{name}`; {hint}"
    return TargetFault("unknown-target", message, name, near if vendor else None, lists_known)


def _unknown_provider(name: str, provider: str) -> TargetFault:
    meant = nearest(provider, PROVIDER_NAMES, likeness=0.7)
    hint = f"did you mean `{meant}`?" if meant else f"OpenRouter offers many vendors' models, as openrouter/{name}"
    instead = f"{meant}/{name.partition('/')[2]}" if meant else None
    return TargetFault("unknown-provider", f"there is no provider `{provider}`; {hint}", name, instead)
