"""From a config's settings to the rule each parameter is updated by, with warnings where v1 leaves out what was written."""

from __future__ import annotations

import dataclasses

from umiak.errors import InputError
from umiak.paddle_v1.graph import Graph, Parameter, Training
from umiak.paddle_v1.graph import Schedule as V1Schedule
from umiak.paddle_v1.rules.settings import (
    V1,
    V1AdaDelta,
    V1AdaGrad,
    V1Adam,
    V1Adamax,
    V1DecayedAdaGrad,
    V1Momentum,
    V1RMSProp,
)
from umiak.spec import optim
from umiak.spec.average import Average
from umiak.spec.optim import ParamOptions

_RULES: dict[str, type[V1]] = {
    "momentum": V1Momentum,
    "adagrad": V1AdaGrad,
    "adadelta": V1AdaDelta,
    "rmsprop": V1RMSProp,
    "decayed_adagrad": V1DecayedAdaGrad,
    "adam": V1Adam,
    "adamax": V1Adamax,
}
_OURS = {"epsilon": "eps"}
UNBOUNDED = 3.4e38
"""A bound that no float32 gradient reaches: for a parameter that is not clipped where the others are."""


def used(graph: Graph) -> list[str]:
    """The parameters of the layers that are computed, in the order of the config."""
    names = {name for layer in graph.needed() for name in layer.used}
    return [name for name in graph.parameters if name in names]


def adapted(graph: Graph, local: bool) -> tuple[Graph, list[str]]:
    """The graph as v1 would train it, and what v1 leaves out of what the config says, for the user to know."""
    training, notes = graph.settings, []
    rule = _RULES[training.method.name]
    parameters = {name: graph.parameters[name] for name in used(graph)}
    if not rule.STEP_DECAYS and any(_decays(p, training) for p in parameters.values()):
        notes.append(f"L2 regularisation has no effect with {training.method.name}, as in PaddlePaddle v1")
    if not rule.SCHEDULED and not training.schedule.constant:
        notes.append(
            f"the schedule {training.schedule.name!r} has no effect with {training.method.name}, as in PaddlePaddle v1"
        )
    # With a sparse parameter v1 trained as its servers do, also without them.
    if local and not any(p.sparse for p in parameters.values()):
        if training.clip or any(p.clip for p in parameters.values()):
            notes.append("gradient_clipping_threshold has no effect with --local, as in PaddlePaddle v1")
        graph = dataclasses.replace(
            graph,
            parameters={name: dataclasses.replace(p, clip=None) for name, p in graph.parameters.items()},
            settings=dataclasses.replace(training, clip=None),
        )
    return graph, notes


def without_tables(graph: Graph) -> Graph:
    """The graph with all its parameters in one place, where each can be moved by itself."""
    dense = {name: dataclasses.replace(p, sparse=False) for name, p in graph.parameters.items()}
    return dataclasses.replace(graph, parameters=dense)


def _decays(parameter: Parameter, training: Training) -> bool:
    l1 = training.l1 if parameter.l1 is None else parameter.l1
    l2 = training.l2 if parameter.l2 is None else parameter.l2
    # With L1 the original regularises after the step, whatever the rule.
    return l2 > 0 and not l1


def optimizers(graph: Graph, start_pass: int = 0) -> tuple[V1, dict[str, ParamOptions]]:
    """The rule of the job, and what parameters do differently."""
    training = graph.settings
    numbers = {_OURS.get(name, name): value for name, value in training.method.numbers.items()}
    rule = _RULES[training.method.name](
        training.learning_rate,
        schedule=_schedule(training.schedule, training.learning_rate, start_pass),
        l1=training.l1,
        l2=training.l2,
        clip=training.clip,
        **numbers,
    )
    options = {}
    for name in used(graph):
        parameter = graph.parameters[name]
        changed = _options(parameter, rule)
        if parameter.sparse:
            _check_sparse(parameter, changed.applied_to(rule), training.method.name)
        if changed != ParamOptions() and (parameter.sparse or not parameter.static):
            options[name] = changed
    return rule, options


def average(graph: Graph) -> Average | None:
    training = graph.settings
    if training.average_window <= 0:
        return None
    for name in used(graph):
        if graph.parameters[name].sparse:
            raise InputError(
                f"{graph.path}: parameter {name!r} has sparse_update=True, and settings() asks for a model average, which umiak "
                "does not keep for tables: leave one of them out"
            )
    return Average(training.average_window, training.max_average_window)


def _options(parameter: Parameter, rule: V1) -> ParamOptions:
    try:
        own = rule if parameter.momentum is None else dataclasses.replace(rule, momentum=parameter.momentum)
        changed = ParamOptions(
            lr=0.0 if parameter.static else parameter.learning_rate,
            l1=parameter.l1,
            l2=parameter.l2,
            clip=UNBOUNDED if parameter.clip == 0 else parameter.clip,
            optimizer=None if own == rule else own,
        )
        changed.applied_to(rule)
    except InputError as error:
        raise InputError(f"parameter {parameter.name!r}: {error}") from None
    return changed


def _check_sparse(parameter: Parameter, rule: optim.Optimizer, method: str) -> None:
    assert isinstance(rule, V1)
    if not rule.SPARSE:
        raise InputError(
            f"parameter {parameter.name!r} has sparse_update=True, which {method} does not support, as in PaddlePaddle v1: use "
            "momentum, AdaGrad, DecayedAdaGrad or RMSProp, or leave sparse_update out"
        )
    if rule.momentum and (rule.l1 or rule.l2):
        raise InputError(
            f"parameter {parameter.name!r} has sparse_update=True, a momentum and a regularisation, which PaddlePaddle v1 does "
            "not support together: give it ParamAttr(momentum=0) or no regularisation"
        )


def _schedule(schedule: V1Schedule, rate: float, start_pass: int) -> optim.Schedule:
    a, b = schedule.a, schedule.b
    if schedule.constant or rate == 0:
        return optim.Schedule()
    match schedule.name:
        case "poly":
            return optim.Poly(a, b)
        case "caffe_poly":
            return optim.PolyToZero(a, b)
        case "exp":
            return optim.Exp(a, b)
        case "discexp":
            return optim.DiscExp(a, b)
        case "linear":
            # v1 takes a·samples from the rate itself, down to b; here schedules are factors.
            return optim.Linear(a / rate, b / rate)
        case "manual":
            return optim.Manual(schedule.segments)
        case _:
            # Passes count from 0 in every job, also in one that continues from a snapshot.
            return optim.PassManual(tuple((until + start_pass, factor) for until, factor in schedule.segments))
