"""From plain settings to a Config: names looked up, keys checked, defaults filled in."""

from collections.abc import Mapping, Sequence
from typing import Any

from understudy import methods as _registered  # noqa: F401  (registers every method by being imported)
from understudy.base_settings import NoSettings, Settings, names_within
from understudy.complaints import checked, unknown_key, unknown_name
from understudy.config.read import Keys, Words, check_keys, override, paths_of
from understudy.config.schema import LIVE, Branched, Chosen, Config, EngineSettings, Live, MethodPlan, ModelPlan, Top
from understudy.data.sets import SETTINGS
from understudy.data.settings import DataSettings
from understudy.errors import UserError
from understudy.federation import registry
from understudy.federation.registry import Entry, Role
from understudy.models import zoo as models
from understudy.models.start import digest_of_file, start_file
from understudy.own_code import full_name, is_own, own

SECTIONS = ("data", "model", "method", "with", "engine")
IGNORED = ("version", "problem", "data_digest", "scaling")  # in a resolved config, for people
PLANS: Mapping[str, type[Settings]] = {
    "data": DataSettings,
    "model": ModelPlan,
    "method": MethodPlan,
    "engine": EngineSettings,
}
SIZES = "sizes"  # in a preset: settings of methods and add-ons that fit its data
BRANCHED = "branched"  # written by `runs.branching` alone


def resolve(words: Words, changes: Mapping[str, Any] | None = None, live: Live | None = None) -> Config:
    live = live or Live()
    check_keys({**words, **(changes or {})})
    words = _overridden(words, changes or {}, live)
    if live.data is not None:
        _check_no_data(words, changes or {}, live)
    for key in words:
        if key not in (*SECTIONS, *IGNORED, BRANCHED, *Top.model_fields):
            raise unknown_key(key, [*SECTIONS, *settings_of(words, live)], "")
    top = checked(Top, {key: words[key] for key in Top.model_fields if key in words}, "")
    plan, method = _method(_section(words, "method"), live)
    add_ons = sorted(map(_add_on, _list(words.get("with"))), key=lambda chosen: (chosen.entry.layer, chosen.name))
    twice = {chosen.name for chosen in add_ons if [other.name for other in add_ons].count(chosen.name) > 1}
    if twice:
        raise UserError(f"'with' lists {', '.join(twice)} twice; list each add-on once.")
    named = _section(words, "model")
    network_open = live.model is None and not named.keys() - {"fast", "precision"}
    model, model_settings = _model(named, live)
    return Config(
        top,
        None if live.data is not None else _data(_section(words, "data")),
        model,
        model_settings,
        plan,
        method,
        tuple(add_ons),
        checked(EngineSettings, _section(words, "engine"), "engine"),
        live,
        network_open,
        checked(Branched, _section(words, BRANCHED), BRANCHED) if words.get(BRANCHED) else None,
    )


def _overridden(words: Words, changes: Mapping[str, Any], live: Live) -> Words:
    """``changes`` over what a preset says of the chosen method and add-ons (``sizes``) over the rest of the preset."""
    words, sizes = dict(words), words.get(SIZES)
    words.pop(SIZES, None)
    changed = override(words, changes, _keys(live))
    if sizes is None:
        return changed
    if not isinstance(sizes, Mapping) or not all(isinstance(size, Mapping) for size in sizes.values()):
        raise UserError(f"'{SIZES}' must list settings by method or add-on, such as {{feddm: {{steps: 30}}}}.")
    method, items = _section(changed, "method"), _list(changed.get("with"))
    name = str(method.get("name", MethodPlan().name))
    if name in sizes and "preset" not in method:
        words["method"] = _laid_over(_section(words, "method"), sizes[name])
        changed = override(words, changes, _keys(live))
    if any(item["name"] in sizes for item in items):
        changed["with"] = [
            item if "preset" in item else _laid_over(sizes.get(item["name"], {}), item) for item in items
        ]
    return changed


def _check_no_data(words: Words, changes: Mapping[str, Any], live: Live) -> None:
    """Beside records that were passed, a change to `data` would do nothing."""
    for key, path in paths_of(words, changes, _keys(live)).items():
        if path[0] == "data":
            raise UserError(f"'{key}': the data was passed as a Federation, which no setting changes; leave it out.")


def within(section: str, words: Words, changes: Mapping[str, Any]) -> Words:
    """``changes`` by their full names, where all must belong to one section: ``name`` is that section's."""
    known = settings_of(words)
    here = {f"{section}.{key}" if f"{section}.{key}" in known else key: value for key, value in changes.items()}
    full = {".".join(path): here[key] for key, path in paths_of(words, here, _keys(Live())).items()}
    for key in full:
        if key in known and not key.startswith(f"{section}."):
            raise UserError(f"'{key}' is not a setting of '{section}'; leave it out.")
        if not key.startswith(f"{section}."):
            raise unknown_key(key, [name for name in known if name.startswith(f"{section}.")], section)
    return full


def settings_of(words: Words, live: Live | None = None) -> list[str]:
    """The full name of every setting that a config with this method, network and these add-ons has."""
    live = live or Live()
    plan: MethodPlan = checked(MethodPlan, _only_name(words, "method"), "method")
    entry = _entry(plan.name, "method") if live.method is None else _live_method(live)
    kinds: list[tuple[str, type[Settings]]] = [("", Top), *PLANS.items(), ("method", entry.settings)]
    model: ModelPlan = checked(ModelPlan, _only_name(words, "model"), "model")
    if live.model is None and not is_own(model.name):
        kinds.append(("model", models.entry(model.name).settings))
    presets = ["method.preset"] if entry.presets else []
    for given in _list(words.get("with")):
        added = _entry(given["name"], "add-on")
        kinds.append((f"with.{given['name']}", added.settings))
        presets += [f"with.{given['name']}.preset"] if added.presets else []
    elsewhere = tuple(f"data.{name}." for name in SETTINGS if name != _section(words, "data").get("name"))
    every = (name for section, kind in kinds for name in names_within(kind, section))
    return [name for name in dict.fromkeys([*every, *presets]) if not name.startswith(elsewhere)]


def _keys(live: Live) -> Keys:
    sections: dict[str, Sequence[str]] = {name: [*plan.model_fields] for name, plan in PLANS.items()}
    of_sections = {**sections, "with": [], **{key: [] for key in Top.model_fields}}
    return Keys(of_sections, _keys_of_name, lambda words: settings_of(words, live))


def _keys_of_name(section: str, name: str) -> Sequence[str]:
    if section == "method":
        return ["preset", *_entry(name, "method").settings.model_fields]
    return [*models.entry(name).settings.model_fields] if section == "model" and not is_own(name) else []


def _section(words: Words, name: str) -> Words:
    given = {} if words.get(name) is None else words[name]
    if isinstance(given, str):
        return {"name": given}
    if not isinstance(given, dict):
        raise UserError(f"'{name}' must be a name or keys and values, not {given!r}.")
    return dict(given)


def _only_name(words: Words, section: str) -> Words:
    return {key: value for key, value in _section(words, section).items() if key == "name"}


def _list(given: object) -> list[Words]:
    items = given if isinstance(given, list | tuple) else [] if given is None else [given]
    for item in items:
        if not isinstance(item, str) and not (isinstance(item, dict) and isinstance(item.get("name"), str)):
            raise UserError(
                f"'with' must list add-ons, such as [fedssyn] or [{{name: fedssyn, images: 100}}], not {item!r}."
            )
    return [dict(item) if isinstance(item, dict) else {"name": str(item)} for item in items]


def _data(given: Words) -> DataSettings:
    if given.get("name") == LIVE:
        raise UserError("This run was given its data in Python; pass `data=` again to continue it.")
    settings: DataSettings = checked(DataSettings, given, "data")
    return settings


def _method(given: Words, live: Live) -> tuple[MethodPlan, Chosen]:
    general = {key: given.pop(key) for key in MethodPlan.model_fields if key in given}
    plan: MethodPlan = checked(MethodPlan, general, "method")
    if plan.name == LIVE and live.method is None:
        raise UserError("This run was given its method in Python; pass `method=` again to continue it.")
    entry = _live_method(live) if live.method is not None else _entry(plan.name, "method")
    name = LIVE if live.method is not None else full_name(plan.name)
    given = _over_defaults(_over_preset(given, entry, "method"), entry)
    for key in given:
        if key not in entry.settings.model_fields:
            kinds = (MethodPlan, entry.settings)
            raise unknown_key(key, (name for kind in kinds for name in names_within(kind, "method")), "method")
    return plan.model_copy(update={"name": name}), Chosen(name, checked(entry.settings, given, "method"), entry)


def _live_method(live: Live) -> Entry:
    given = live.method
    if isinstance(given, type):
        return registry.entry_of(given, given.__name__, "method")
    assert given is not None
    return Entry(LIVE, "method", lambda settings, method=given: method, NoSettings)


def _add_on(given: Words) -> Chosen:
    name = str(given.pop("name", ""))
    entry = _entry(name, "add-on")
    given = _over_defaults(_over_preset(given, entry, f"with.{name}"), entry)
    settings: Settings = checked(entry.settings, given, f"with.{name}")
    return Chosen(full_name(name), settings, entry)


def _over_preset(given: Words, entry: Entry, where: str) -> Words:
    """``preset: release`` brings that preset's values; settings beside it take precedence."""
    if "preset" not in given or "preset" in entry.settings.model_fields:
        return given
    name, said = given["preset"], {key: value for key, value in given.items() if key != "preset"}
    if name not in entry.presets:
        if not entry.presets:
            raise UserError(f"{where}.preset: {entry.name} has no presets; leave it out.")
        raise unknown_name(f"preset of {entry.name}", str(name), entry.presets)
    return _laid_over(entry.presets[name], said)


def _over_defaults(given: Words, entry: Entry) -> Words:
    """A method may have its own defaults inside a group (FedRep's `local`): a partial group keeps the others."""
    filled = dict(given)
    for key, field in entry.settings.model_fields.items():
        group, said = field.default, given.get(key)
        if not isinstance(group, Settings) or not isinstance(said, Mapping):
            continue
        defaults = group.model_dump(mode="json")
        for either, other in type(group).instead:
            if said.get(either) is not None:
                defaults.pop(other, None)
            if said.get(other) is not None:
                defaults.pop(either, None)
        filled[key] = {**defaults, **said}
    return filled


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Words:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        same = both and value.get("name", merged[key].get("name")) == merged[key].get(
            "name"
        )  # another generator: its own
        merged[key] = _laid_over(merged[key], value) if same else value
    return merged


def _entry(name: str, role: Role) -> Entry:
    if not is_own(name):
        return registry.entry(name, role)
    return registry.entry_of(own(name), name, role)


def _with_digest(plan: ModelPlan) -> ModelPlan:
    """With the full path of ``start`` and what is in it now. A site may do without the file: the model travels."""
    if plan.start is None:
        return plan
    file = start_file(plan.start)
    digest = plan.start_digest or (digest_of_file(file) if file.is_file() else None)
    return plan.model_copy(update={"start": str(file), "start_digest": digest})


def _model(given: Words, live: Live) -> tuple[ModelPlan, Mapping[str, Any]]:
    general = {key: given.pop(key) for key in ModelPlan.model_fields if key in given}
    plan: ModelPlan = _with_digest(checked(ModelPlan, general, "model"))
    if live.model is not None:
        return plan.model_copy(update={"name": LIVE}), {}
    if plan.name == LIVE:
        raise UserError("This run was given its network in Python; pass `model=` again to continue it.")
    if is_own(plan.name):
        return plan.model_copy(update={"name": full_name(plan.name)}), given
    settings = models.entry(plan.name).settings
    checked_settings: Settings = checked(settings, given, "model")
    return plan, checked_settings.model_dump(mode="json")
