"""A graph as the TrainerConfig in which v1 described a whole job: the model, its data, and how it is trained."""

from __future__ import annotations

import pickle
from typing import Any

from umiak.paddle_v1.formats.messages import Message
from umiak.paddle_v1.formats.modelconfig import model_config
from umiak.paddle_v1.graph import DataSource, Graph, Training

ADA = ("adadelta", "rmsprop", "decayed_adagrad")
"""The methods whose numbers are ada_rou and ada_epsilon."""


def trainer_config(graph: Graph) -> Message:
    train, test = (graph.data.train, graph.data.test) if graph.data else (None, None)
    return [
        ("model_config", model_config(graph, whole=True)),
        *([("data_config", _data(train, graph.version, for_test=False))] if train else []),
        ("opt_config", _optimisation(graph)),
        *([("test_data_config", _data(test, graph.version, for_test=True))] if test else []),
        ("save_dir", "./output/model"),
        ("start_pass", 0),
    ]


def _data(source: DataSource, version: str, for_test: bool) -> Message:
    # A list in the config became a file of this name.
    files = source.list if isinstance(source.list, str) else "test.list" if for_test else "train.list"
    arguments = source.args
    if arguments is not None and not isinstance(arguments, str):
        arguments = pickle.dumps(arguments, 0).decode("latin-1")
    return [
        ("type", "py2"),
        ("files", files),
        ("async_load_data", version == "0.9"),
        ("for_test", for_test),
        ("load_data_module", source.module),
        ("load_data_object", source.obj),
        ("load_data_args", arguments or ""),
        ("data_ratio", 1),
        ("is_main_data", True),
        ("usage_ratio", 1.0),
    ]


def _optimisation(graph: Graph) -> Message:
    """All that v1 filled in, whether or not the method uses it."""
    training = graph.settings
    numbers, schedule = training.method.numbers, training.schedule
    ada: dict[str, Any] = dict(numbers) if training.method.name in ADA else {}
    adam: dict[str, Any] = dict(numbers) if training.method.name in ("adam", "adamax") else {}
    most = training.max_average_window
    remote = any(parameter.sparse for parameter in graph.parameters.values())
    return [
        ("batch_size", training.batch_size),
        ("algorithm", "async_sgd" if training.is_async else "sgd"),
        ("learning_rate", training.learning_rate),
        ("learning_rate_decay_a", schedule.a),
        ("learning_rate_decay_b", schedule.b),
        ("l1weight", 0.1),
        ("l2weight", 0.0),
        ("c1", 0.0001),
        ("backoff", 0.5),
        ("owlqn_steps", 10),
        ("max_backoff", 5),
        ("l2weight_zero_iter", 0),
        ("average_window", training.average_window or 0),
        *([("max_average_window", most)] if most is not None else []),
        ("learning_method", training.method.name),
        ("ada_epsilon", ada.get("epsilon", 1e-6)),
        ("do_average_in_cpu", False),
        ("ada_rou", ada.get("rho", 0.95)),
        ("learning_rate_schedule", schedule.name),
        ("delta_add_rate", 1.0),
        *([("use_sparse_remote_updater", True)] if remote else []),
        ("shrink_parameter_value", 0),
        ("adam_beta1", adam.get("beta1", 0.9)),
        ("adam_beta2", adam.get("beta2", 0.999)),
        ("adam_epsilon", adam.get("epsilon", 1e-8)),
        ("learning_rate_args", _segments(training)),
        ("async_lagged_grad_discard_ratio", training.async_lagged_grad_discard_ratio),
    ]


def _segments(training: Training) -> str:
    return ",".join(f"{until:g}:{factor:g}" for until, factor in training.schedule.segments)
