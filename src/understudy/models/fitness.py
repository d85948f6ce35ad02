"""Whether a user's own module can be a network here: tried on two random records, told in one sentence if not."""

import copy
from collections.abc import Sized

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.split import SplitNetwork, split
from understudy.randomness import generator, private_global_stream

OTHERWISE = "wrap it in a module whose forward takes one tensor and returns the logits"


def fitted(module: nn.Module, problem: Problem) -> nn.Module:
    """The module with features and a head, split if it has none, once it takes such records and gives one output per
    class."""
    if isinstance(module, type):
        raise UserError(f"model: {module.__name__} is a class; pass a network, such as {module.__name__}().")
    check_weights(module, problem)
    with private_global_stream("trial"):
        found = module if _has_parts(module, problem) else split(module)
        check_parts(found)
        if isinstance(found, SplitNetwork):
            _check_exact(found, problem)
    check_outputs(found, problem)
    _check_apart(found)
    return found


def records_to_try(problem: Problem, like: Tensor) -> Tensor:
    rng = generator("records to try")
    if problem.tokens:
        return torch.randint(1, problem.tokens, (2, *problem.shape), generator=rng, dtype=torch.int32).to(like.device)
    return torch.randn(2, *problem.shape, generator=rng).to(like.device)


def check_weights(module: nn.Module, problem: Problem) -> None:
    kind = type(module).__name__
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        layer = name.rpartition(".")[0] or kind
        if is_lazy(tensor):
            shape = ", ".join(map(str, (2, *problem.shape)))
            raise UserError(
                f"model: layer '{layer}' of {kind} is lazy and has no weights yet; pass it two records first, such as "
                f"network(torch.zeros({shape}))."
            )
        if tensor.is_meta:
            raise UserError(f"model: {kind} has weights without numbers (device 'meta'); build it on the CPU.")
        if tensor.is_complex() or (isinstance(tensor, nn.Parameter) and tensor.dtype != torch.float32):
            said = str(tensor.dtype).removeprefix("torch.")
            raise UserError(f"model: '{name}' of {kind} is {said}, but models travel as float32; pass network.float().")


def _has_parts(module: nn.Module, problem: Problem) -> bool:
    """A network that says itself what its features are. If they are a layer of it, as in torchvision, something may
    come between them and the head."""
    features, head = getattr(module, "features", None), getattr(module, "head", None)
    if isinstance(module, SplitNetwork) or not callable(features) or not isinstance(head, nn.Module):
        return isinstance(module, SplitNetwork)
    if not isinstance(features, nn.Module) or _without_forward(module):
        return True
    x = records_to_try(problem, _some(module))
    try:
        return torch.equal(_tried(lambda x: head(features(x)), module, x), _tried(module, module, x))
    except Exception:  # user code may raise anything; then it is split, and told what is wrong
        return False


def _without_forward(module: nn.Module) -> bool:
    return type(module).forward is nn.Module.forward


def _tried(call: object, module: nn.Module, x: Tensor) -> Tensor:
    """In evaluation mode, so that running statistics stay as they are."""
    before = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            found: Tensor = call(x)  # type: ignore[operator]
            return found
    finally:
        for part, training in before.items():
            part.training = training
        if isinstance(module, SplitNetwork):
            module.whole.training = before[module]


def _check_exact(network: SplitNetwork, problem: Problem) -> None:
    """Features and head must give what the module itself gives, in training too."""
    whole, x = network.whole, records_to_try(problem, _some(network))
    kind = type(whole).__name__
    logits = _first_try(whole, problem, x)
    if not isinstance(logits, Tensor):
        size = f" of {len(logits)}" if isinstance(logits, Sized) else ""
        raise UserError(f"model: {kind} returns a {type(logits).__name__}{size}, not a tensor of logits; {OTHERWISE}.")
    if _same(logits, _in_two_steps(network, x)) and _same_in_training(network, problem, x):
        return
    raise UserError(
        f"model: '{network.head_name}' is not the last step of {kind}, or is used more than once; let forward return "
        'its output, the logits (the loss applies softmax), or name another layer with us.split(network, head="NAME").'
    )


def _first_try(whole: nn.Module, problem: Problem, x: Tensor) -> object:
    try:
        return _tried(whole, whole, x)
    except Exception as error:  # user code may raise anything
        raise _cannot_take(whole, problem, x, error) from error


def _cannot_take(whole: nn.Module, problem: Problem, x: Tensor, error: Exception) -> UserError:
    kind = type(whole).__name__
    first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    if isinstance(error, TypeError) and "argument" in first:
        return UserError(f"model: {kind} needs more than the records ({first}); {OTHERWISE}.")
    if x.is_floating_point() and any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in whole.modules()):
        return UserError(
            f"model: {kind} has an Embedding, which takes whole numbers, but the records are floats; "
            "begin with a layer that takes floats."
        )
    if not x.is_floating_point():
        return UserError(
            f"model: {kind} takes floats, but the records are whole numbers; begin with an Embedding ({first})."
        )
    return UserError(f"model: {kind} cannot take records of shape {problem.shape}: {first}.")


def _in_two_steps(network: SplitNetwork, x: Tensor) -> Tensor | None:
    try:
        return _tried(network, network, x)
    except Exception:  # what follows the head may not take its input
        return None


def _same_in_training(network: SplitNetwork, problem: Problem, x: Tensor) -> bool:
    """On copies, as running statistics move; dropout draws alike."""
    found = []
    for in_two_steps in (False, True):
        one = copy.deepcopy(network).train()
        with private_global_stream("trial in training"), torch.no_grad():
            try:
                found.append(one(x) if in_two_steps else one.whole(x))
            except Exception as error:  # user code may raise anything
                raise _cannot_take(network.whole, problem, x, error) from error
    return isinstance(found[0], Tensor) and _same(*found)


def _same(one: Tensor, other: Tensor | None) -> bool:
    return other is not None and one.shape == other.shape and torch.equal(one, other)


def check_outputs(module: nn.Module, problem: Problem) -> None:
    """A network must take such records and give one output per class."""
    x, kind = records_to_try(problem, _some(module)), _kind(module)
    try:
        outputs = tuple(_tried(lambda x: module.head(module.features(x)), module, x).shape)  # type: ignore[operator]
    except Exception as error:  # user code may raise anything
        raise _cannot_take(module, problem, x, error) from error
    if outputs != (2, problem.classes):
        raise UserError(
            f"model: the head of {kind} gives {outputs} for two records; "
            f"it must give (2, {problem.classes}), one number per class{_instead(module, problem)}."
        )


def _instead(module: nn.Module, problem: Problem) -> str:
    """The line that gives a network, such as one pretrained for other classes, the right head."""
    if not isinstance(module, SplitNetwork) or not isinstance(module.head, nn.Linear) or not module.places:
        return ""
    place = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in module.head_name.split("."))
    return f": network{place} = nn.Linear({module.head.in_features}, {problem.classes})"


def check_parts(module: nn.Module) -> None:
    if not callable(getattr(module, "features", None)) or not isinstance(getattr(module, "head", None), nn.Module):
        raise UserError(
            f"The network {type(module).__name__} needs a callable `features(x)` and a module `head`, "
            "so that `head(features(x))` gives the logits."
        )
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.momentum is None:
            raise UserError(
                f"Layer '{name}' keeps a cumulative average (momentum=None), which depends on a counter that "
                "cannot be averaged over clients; give it a momentum such as 0.1."
            )


def _check_apart(module: nn.Module) -> None:
    """A weight of both would be moved twice, or stay at home and travel."""
    head: nn.Module = module.head  # type: ignore[assignment]
    inside = set(head.modules())
    elsewhere = {id(p) for part in module.modules() if part not in inside for p in part.parameters(recurse=False)}
    for name, p in head.named_parameters():
        if id(p) in elsewhere and head is not getattr(module, "whole", None):
            raise UserError(
                f"model: the head of {_kind(module)} shares its '{name}' with another layer, so it cannot be trained "
                "apart from it; give it a copy of its own."
            )


def _kind(module: nn.Module) -> str:
    return type(module.whole if isinstance(module, SplitNetwork) else module).__name__


def _some(module: nn.Module) -> Tensor:
    return next(module.parameters(), torch.empty(0))
