"""Methods and add-ons by name. Nothing here knows any of them in particular."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack

from understudy.base_settings import NoSettings, Settings
from understudy.complaints import unknown_name
from understudy.data.kinds import RecordKind
from understudy.errors import UserError, in_python
from understudy.federation.method import Method

Role = Literal["method", "add-on"]
Presets = Mapping[str, Mapping[str, Any]]  # settings by name
KindDefaults = Mapping[RecordKind, Mapping[str, Any]]


@dataclass(frozen=True)
class Entry:
    """``build(settings)`` gives a method; an add-on's ``build(settings, method)`` gives the changed method."""

    name: str
    role: Role
    build: Callable[..., Method]
    settings: type[Settings]
    layer: int = 0  # add-ons with a smaller number are closer to the method
    presets: Presets = field(default_factory=dict)  # published values, by name
    needs: str = ""  # what must be typed besides its name to run it on the preset digits-skewed
    family: str = ""  # its row in README's table, if that does not follow from what it sends
    sends: str = ""  # what a client sends per round, in words, if the kinds do not tell
    usual: KindDefaults = field(default_factory=dict)  # defaults for records of a kind, where others suit it

    @property
    def title(self) -> str:
        """The first paragraph of the file's docstring, which names the paper."""
        said = inspect.getdoc(inspect.getmodule(self.build)) or inspect.getdoc(self.build) or self.name
        return " ".join(said.split("\n\n")[0].split())


ADDS_A_TERM, AROUND_SUMS, AROUND_ROUNDS = 0, 10, 20
_entries: dict[tuple[Role, str], Entry] = {}  # a name may be a method and an add-on
Build = TypeVar("Build", bound=Callable[..., Any])


class Registering(Protocol):
    def __call__(self, build: Build, /) -> Build: ...


class About(TypedDict, total=False):
    """For presets, lists and pages: see `Entry`."""

    presets: Presets
    needs: str
    family: str
    sends: str
    usual: KindDefaults


def method(name: str, *, settings: type[Settings] = NoSettings, **about: Unpack[About]) -> Registering:
    """Registers a Method class, or a function from settings to a Method, under a name that configs use. ``presets`` are
    settings by name, for values that a paper and its released code give differently; the defaults are the paper's.

    >>> import understudy as us
    >>> @us.method("stays")
    ... class Stays(us.Method):
    ...     def __init__(self, settings): ...
    ...     def round(self, server, state):
    ...         return state
    >>> us.run("digits-skewed", method="stays", rounds=1, model="softmax").config["method"]["name"]
    'stays'
    """
    return _register(name, "method", settings=settings, **about)


def add_on(
    name: str, *, settings: type[Settings] = NoSettings, layer: int = ADDS_A_TERM, **about: Unpack[About]
) -> Registering:
    """Registers a function from settings and a method to a method; ``layer`` says how close to the method it is.

    >>> import understudy as us
    >>> @us.add_on("as-it-was")
    ... def as_it_was(settings, method):
    ...     return method
    >>> us.run("digits-skewed", add=["as-it-was"], rounds=1, model="softmax").config["with"]
    [{'name': 'as-it-was'}]
    """
    return _register(name, "add-on", settings=settings, layer=layer, **about)


def _register(name: str, role: Role, **given: Any) -> Registering:
    def take(build: Build) -> Build:
        entry = _entries[role, name] = Entry(name, role, build, **given)
        build.__understudy_entries__ = {**entries_of(build), role: entry}  # type: ignore[attr-defined]
        return build

    return take


def entries() -> list[Entry]:
    """A name that is both has two."""
    return [_entries[key] for key in sorted(_entries)]


def entries_of(build: object) -> Mapping[Role, Entry]:
    """As it was registered; nothing where it was not."""
    return getattr(build, "__understudy_entries__", {})


def entry(name: str, role: Role) -> Entry:
    if (role, name) in _entries:
        return _entries[role, name]
    if any(other == name for _, other in _entries):
        raise _misplaced(name, role)
    raise unknown_name(role, name, [e.name for e in entries() if e.role == role])


def _misplaced(name: str, role: Role) -> UserError:
    if role == "add-on":
        return UserError(f"'{name}' is a method: write it under `method`.")
    return UserError(f"'{name}' is an add-on: write it under `with`{in_python(f', or pass add=[{name!r}]')}.")


def entry_of(build: object, name: str, role: Role) -> Entry:
    """The entry of somebody's own class or function: registered, or a plain Method class without settings."""
    found = entries_of(build)
    if role in found:
        return found[role]
    if found or (role == "add-on" and inspect.isclass(build) and issubclass(build, Method)):
        raise _misplaced(name, role)
    if inspect.isclass(build) and issubclass(build, Method):
        if lacking := sorted(build.__abstractmethods__):
            raise UserError(f"The method {build.__name__} has no {lacking[0]}; write it.")
        wanted = [p for p in inspect.signature(build).parameters.values() if p.default is p.empty]
        plain = build if wanted else (lambda settings: build())
        return Entry(name, "method", plain, NoSettings)
    raise UserError(f"'{name}' is neither a Method class nor registered with @method or @add_on.")
