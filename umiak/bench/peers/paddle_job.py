"""One process of Paddle's parameter server, run by the Python of its own environment (see paddle.py). Not for import.

Paddle updates dense parameters with SGD or Adam only: where the others use AdaGrad, its dense part uses SGD, which is
cheaper. Its tables use the same rule as everybody's.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import itertools
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
from paddle.base import create_lod_tensor

from umiak.bench.meter import Meter
from umiak.bench.workloads import WORKLOADS, batches

LAYER = 256
MOVIELENS = {"user": 6041, "movie": 3953, "gender": 2, "age": 7, "occupation": 21, "title": 5601}
TABLES = {"recommendation": ("user", "movie", "title"), "ctr": ("ids",), "quick_start": ("words",)}
"""The fields whose rows live on the servers; the tiny tables of `recommendation` are dense parameters."""
RULES = {"recommendation": "SparseAdamSGDRule", "ctr": "StdAdaGradSGDRule", "quick_start": "SparseAdamSGDRule"}

data, functional = paddle.static.data, paddle.nn.functional
Build = Callable[[int], tuple[list[Any], Any]]


def recommendation(lod: int) -> tuple[list[Any], Any]:
    ids = {name: data(name, [-1, 1], "int64", lod_level=int(name == "title")) for name in MOVIELENS}
    genres, target = data("genres", [-1, 18], "float32"), data("target", [-1, 1], "float32")

    def layer(x: Any) -> Any:
        return paddle.static.nn.fc(x, LAYER, activation="tanh")

    def rows(name: str) -> Any:
        shape = [MOVIELENS[name], LAYER]
        start = paddle.ParamAttr(name=f"rows_{name}", initializer=paddle.nn.initializer.Uniform(-0.08, 0.08))
        table = paddle.static.nn.sparse_embedding if name in TABLES["recommendation"] else paddle.static.nn.embedding
        return paddle.reshape(table(ids[name], shape, param_attr=start), [-1, LAYER])

    words = paddle.static.nn.sequence_conv(rows("title"), num_filters=LAYER, filter_size=5, act="tanh")
    title = paddle.static.nn.sequence_pool(words, "max")
    movie = layer(paddle.concat([layer(rows("movie")), title, layer(layer(genres))], 1))
    user = layer(paddle.concat([layer(rows(name)) for name in ("user", "gender", "age", "occupation")], 1))
    answer = 5 * functional.cosine_similarity(movie, user, axis=1)
    loss = paddle.mean(paddle.square(paddle.reshape(answer, [-1, 1]) - target))
    return [*ids.values(), genres, target], loss


def ctr(lod: int) -> tuple[list[Any], Any]:
    ids, dense = data("ids", [-1, 1], "int64", lod_level=lod), data("dense", [-1, 13], "float32")
    label = data("label", [-1, 1], "int64")
    start = paddle.ParamAttr(name="rows_ids", initializer=paddle.nn.initializer.Uniform(-0.01, 0.01))
    rows = paddle.static.nn.sparse_embedding(ids, [10_000_000, 16], param_attr=start)
    hidden = paddle.concat([paddle.reshape(rows, [-1, 26 * 16]), dense], 1)
    for _ in range(3):
        hidden = paddle.static.nn.fc(hidden, 400, activation="relu")
    answer = paddle.static.nn.fc(hidden, 1)
    loss = functional.binary_cross_entropy_with_logits(answer, paddle.cast(label, "float32"))
    return [ids, dense, label], paddle.mean(loss)


def quick_start(lod: int) -> tuple[list[Any], Any]:
    words, label = data("words", [-1, 1], "int64", lod_level=lod), data("label", [-1, 1], "int64")
    start = paddle.ParamAttr(name="rows_words", initializer=paddle.nn.initializer.Uniform(-0.01, 0.01))
    rows = paddle.static.nn.sparse_embedding(words, [30_000, 2], param_attr=start)
    bias = paddle.static.create_parameter([2], "float32", name="bias", is_bias=True)
    sums = paddle.sum(paddle.reshape(rows, [-1, 80, 2]), 1) + bias
    return [words, label], paddle.mean(functional.cross_entropy(sums, label))


BUILD: dict[str, Build] = {"recommendation": recommendation, "ctr": ctr, "quick_start": quick_start}


def main(words: list[str]) -> None:
    name, mode, workers, where, results, port = words
    paddle.enable_static()
    paddle.seed(1)
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    variables, loss = BUILD[name](int(mode == "dataset"))
    fleet.distributed_optimizer(_optimizer(name), _strategy(name)).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    trainer, workload = fleet.worker_index(), WORKLOADS[name]
    prepared = batches(workload, int(workers), Path(where), trainer)
    program = paddle.static.default_main_program()
    if mode == "dataset":
        # It reports nothing in between, so one time round all batches counts as one tick, and the result is multiplied.
        text = Path(results) / f"data-{trainer}.txt"
        _write_text(text, variables, prepared)
        reader = _reader(text, variables, workload.batch_size)
        meter = Meter(Path(results), trainer, 1, scale=len(prepared))
        while True:
            executor.train_from_dataset(program, reader, thread=1, print_period=1_000_000)
            meter.tick()
    meter = Meter(Path(results), trainer, workload.distinct)
    wait = _barrier(trainer, int(workers), int(port)) if mode == "sync" else lambda: None
    pull = _puller()
    for feed in itertools.cycle([_feed(variables, batch) for batch in prepared]):
        executor.run(program, feed=feed, fetch_list=[loss])
        wait()
        pull()
        wait()
        meter.tick()


def _optimizer(name: str) -> Any:
    return paddle.optimizer.SGD(0.05) if name == "ctr" else paddle.optimizer.Adam(1e-3, lazy_mode=True)


def _strategy(name: str) -> Any:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    for field in TABLES[name]:
        table = strategy.strategy.downpour_table_param.add()
        table.table_name, table.table_class = f"rows_{field}", "MemorySparseTable"
        table.accessor.accessor_class = "SparseAccessor"
        for rule in (table.accessor.embed_sgd_param, table.accessor.embedx_sgd_param):
            rule.name = RULES[name]
            if "AdaGrad" in rule.name:
                rule.adagrad.learning_rate, rule.adagrad.initial_g2sum = 0.01, 1e-6
                rule.adagrad.initial_range = 0.01
                rule.adagrad.weight_bounds.extend([-10.0, 10.0])
    return strategy


def _feed(variables: list[Any], batch: dict[str, Any]) -> dict[str, Any]:
    feed = {}
    for variable in variables:
        value = batch[variable.name]
        if hasattr(value, "offsets"):
            lengths = np.diff(value.offsets).tolist()
            feed[variable.name] = create_lod_tensor(value.values.reshape(-1, 1), [lengths], paddle.CPUPlace())
        else:
            feed[variable.name] = value.reshape(-1, variable.shape[-1])
    return feed


def _puller() -> Callable[[], None]:
    """What its own threads do now and then in asynchronous mode: fetch the dense values."""
    from paddle.distributed.ps.utils.public import get_the_one_recv_context

    runtime = fleet.fleet._runtime_handle
    dense = get_the_one_recv_context(runtime.context, split_dense_table=runtime.is_heter_ps_mode)
    return lambda: runtime._pull_all_dense(runtime.scopes, runtime._send_ctx, dense)


def _barrier(trainer: int, workers: int, port: int) -> Callable[[], None]:
    if workers == 1:
        return lambda: None
    if trainer == 0:
        with socket.create_server(("127.0.0.1", port)) as listener:
            others = [listener.accept()[0] for _ in range(workers - 1)]

        def wait() -> None:
            for other in others:
                other.recv(1)
            for other in others:
                other.sendall(b"x")

        return wait
    for _ in range(600):
        try:
            first = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.1)

    def wait_for_first() -> None:
        first.sendall(b"x")
        first.recv(1)

    return wait_for_first


def _write_text(path: Path, variables: list[Any], prepared: list[dict[str, Any]]) -> None:
    """A line per sample: for every variable the number of its values, then the values.

    Its reader drops zeros from lists of ids, so ids of tables are one higher here than elsewhere.
    """
    with path.open("w") as file:
        for batch in prepared:
            columns = [_cells(batch[variable.name], int(variable.lod_level > 0)) for variable in variables]
            for cells in zip(*columns, strict=True):
                file.write(" ".join(f"{len(values)} " + " ".join(_text(v) for v in values) for values in cells) + "\n")


def _text(value: Any) -> str:
    return str(value) if isinstance(value, np.integer) else f"{value:.6g}"


def _cells(value: Any, add: int) -> list[np.ndarray]:
    if hasattr(value, "offsets"):
        return np.split(value.values + add, value.offsets[1:-1])
    return list(value.reshape(len(value), -1) + value.dtype.type(add))


def _reader(path: Path, variables: list[Any], size: int) -> Any:
    dataset = paddle.distributed.InMemoryDataset()
    dataset.init(batch_size=size, thread_num=1, pipe_command="cat", use_var=variables)
    dataset.set_filelist([str(path)])
    dataset.load_into_memory()
    return dataset


if __name__ == "__main__":
    main(sys.argv[1:])
