"""v1 configs become graphs: layers, sizes and the names snapshots depend on; and every mistake names its line."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest

from umiak.errors import InputError
from umiak.paddle_v1.dialect import is_v1
from umiak.paddle_v1.graph import Graph, Normal, Uniform
from umiak.paddle_v1.language.reading import load
from umiak.paddle_v1.rules import selection

ROOT = Path(__file__).parents[1]
QUICK_START = ROOT / "examples" / "paddle_v1" / "quick_start"
RECOMMENDATION = ROOT / "examples" / "paddle_v1" / "recommendation"
HEAD = "from paddle.trainer_config_helpers import *\nsettings(batch_size=10)\n"


def graph(directory: Path, source: str, version: str = "0.10", **arguments: str) -> Graph:
    path = directory / "config.py"
    path.write_text(HEAD + source)
    return load(path, arguments, version, check_data=False)


@pytest.fixture
def reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files the quick_start configs read."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dict.txt").write_text("".join(f"word{number}\t{number}\n" for number in range(100)))
    for name in ("train", "test", "pred"):
        (tmp_path / "data" / f"{name}.list").write_text(f"data/{name}.txt\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


FC = ["___fc_layer_0__.w0", "___fc_layer_0__.wbias"]
EMBEDDING = "___embedding_0__.w0"
NAMES = {
    "lr": FC,
    "emb": [EMBEDDING, *FC],
    "cnn": [
        EMBEDDING,
        "___sequence_conv_pooling_0___conv_fc.w0",
        "___sequence_conv_pooling_0___conv_fc.wbias",
        *FC,
    ],
    "lstm": [EMBEDDING, "_lstm_transform___lstm_0__.w0", "___lstm_0__.w0", "___lstm_0__.wbias", *FC],
    "bidi-lstm": [
        EMBEDDING,
        *(
            name
            for way in ("fw", "bw")
            for name in (
                f"_lstm_transform___bidirectional_lstm_0___{way}.w0",
                f"___bidirectional_lstm_0___{way}.w0",
                f"___bidirectional_lstm_0___{way}.wbias",
            )
        ),
        *FC,
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_parameters_have_the_names_of_2016(name: str, reviews: Path) -> None:
    made = load(QUICK_START / f"trainer_config.{name}.py", {})
    assert list(made.parameters) == NAMES[name]
    assert made.inputs == ("word", "label")
    assert made.outputs == ("__cost_0__",)
    assert [evaluator.name for evaluator in made.evaluators] == ["classification_error_evaluator"]


def test_db_lstm_is_eight_lstms_in_both_directions(reviews: Path) -> None:
    made = load(QUICK_START / "trainer_config.db-lstm.py", {})
    lstms = [layer for layer in made.layers.values() if layer.kind == "lstmemory"]
    assert [layer.size for layer in lstms] == [32] * 8
    assert [layer.options["reverse"] for layer in lstms] == [False, True] * 4
    assert {"___mixed_0__.w0", "___lstmemory_7__.w0", "___fc_layer_6__.w0", "___fc_layer_6__.w1"} <= set(
        made.parameters
    )
    assert made.parameters["___lstmemory_0__.wbias"].shape == (7 * 32,)
    assert made.parameters["___lstmemory_0__.wbias"].l2 == 0.0
    assert len([*load(QUICK_START / "trainer_config.db-lstm.py", {"depth": "2"}).layers]) < len([*made.layers])


def test_resnet_lstm_adds_each_lstm_to_its_input(reviews: Path) -> None:
    made = load(QUICK_START / "trainer_config.resnet-lstm.py", {})
    assert [layer.inputs for layer in made.layers.values() if layer.kind == "addto"] == [
        ("__lstm_0__", "__lstm_1__"),
        ("__addto_0__", "__lstm_2__"),
        ("__addto_1__", "__lstm_3__"),
    ]


def test_recommendation_has_the_parameters_of_2016(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = {"type": "embedding", "dict": ["a", "b"]}
    movie = [
        {"name": "id", "type": "id", "max": 5},
        {"name": "title", "type": "embedding", "seq": "sequence", "dict": ["x"] * 9},
        {"name": "genres", "type": "one_hot_dense", "dict": ["g"] * 4},
    ]
    user = [{"name": "id", "type": "id", "max": 7}, *({"name": n, **embedded} for n in ("gender", "age", "occupation"))]
    meta = {"movie": {"__meta__": {"raw_meta": movie}}, "user": {"__meta__": {"raw_meta": user}}}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.bin").write_bytes(pickle.dumps(meta, 2))
    monkeypatch.chdir(tmp_path)
    old = load(RECOMMENDATION / "trainer_config.py", {}, "0.9", check_data=False)
    expected = [f"___embedding_{n}__.w0" for n in range(6)]
    expected += [f"___fc_layer_{n}__.{part}" for n in range(7) for part in ("w0", "wbias")]
    expected += [f"___sequence_conv_pooling_0___conv_fc.{part}" for part in ("w0", "wbias")]
    expected += [f"_movie_fusion.{part}" for part in ("w0", "w1", "w2", "wbias")]
    expected += [f"_user_fusion.{part}" for part in ("w0", "w1", "w2", "w3", "wbias")]
    assert sorted(old.parameters) == sorted(expected)
    assert old.inputs == (*(f"movie_{f['name']}" for f in movie), *(f"user_{f['name']}" for f in user), "rating")
    assert old.outputs == ("__regression_cost_0__",)
    assert old.layers["__cos_sim_0__"].options["scale"] == 5
    new = load(RECOMMENDATION / "trainer_config.py", {}, "0.10", check_data=False)
    assert new.outputs == ("__mse_cost_0__",)
    assert new.layers["__cos_sim_0__"].options["scale"] == 1


def test_predicting_has_no_cost_and_other_data(reviews: Path) -> None:
    made = load(QUICK_START / "trainer_config.lr.py", {"is_predict": "true"})
    assert made.outputs == ("__maxid_layer_0__", "__fc_layer_0__")
    assert made.inputs == ("word",)
    assert made.data is not None and made.data.train is None
    assert made.data.test is not None and made.data.test.obj == "process_predict"
    assert not made.evaluators


def test_defaults_are_those_of_2016(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "d = data_layer('d', 20)\nf = fc_layer(input=d, size=8)\nm = mixed_layer(size=8, input=full_matrix_projection(d))\n"
        "c = mixed_layer(input=context_projection(f, context_len=4))\np = pooling_layer(input=c)\n"
        "l = lstmemory(input=m)\ne = embedding_layer(input=d, size=3)\na = addto_layer(input=[f, m])\noutputs(p, l, e, a)\n",
    )
    fc, mixed, lstm = made.layers["__fc_layer_0__"], made.layers["__mixed_0__"], made.layers["__lstmemory_0__"]
    assert (fc.activation, fc.bias) == ("tanh", "___fc_layer_0__.wbias")
    assert (mixed.activation, mixed.bias) == ("linear", None)
    assert made.layers["__mixed_1__"].size == 32
    assert made.layers["__mixed_1__"].projections[0].options == {"start": -2, "length": 4}
    assert made.layers["__seq_pooling_0__"].options["how"] == "max"
    assert (lstm.size, lstm.activation) == (2, "tanh")
    assert lstm.options == {"reverse": False, "gate_activation": "sigmoid", "state_activation": "tanh"}
    assert made.layers["__addto_0__"].bias is None and made.layers["__addto_0__"].activation == "linear"
    init = {name: parameter.init for name, parameter in made.parameters.items()}
    assert init["___fc_layer_0__.w0"] == Normal(0, 1 / math.sqrt(20))
    assert init["___fc_layer_0__.wbias"] == Normal(0, 0)
    assert init["___embedding_0__.w0"] == Normal(0, 1 / math.sqrt(20))
    assert init["___lstmemory_0__.w0"] == Normal(0, 1 / math.sqrt(2))
    assert made.parameters["___lstmemory_0__.w0"].shape == (2, 8)
    assert made.settings.batch_size == 10
    assert made.settings.learning_rate == 1e-3
    assert made.settings.method.name == "momentum" and made.settings.method.numbers == {"momentum": 0.0}
    assert made.settings.schedule.constant


def test_attributes_of_parameters(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "d = data_layer('d', 20)\n"
        "def w(**kw):\n    return fc_layer(input=d, size=2, param_attr=ParamAttr(**kw), bias_attr=False)\n"
        "outputs(w(initial_std=0.5), w(initial_mean=1), w(initial_min=-1, initial_max=2), w(learning_rate=3, l1_rate=.1,\n"
        "  l2_rate=.2, momentum=.3, gradient_clipping_threshold=5), w(is_static=True), w(sparse_update=True), w(name='own'),\n"
        "  w(name='own'))\n",
    )
    numbered = [made.parameters.get(f"___fc_layer_{n}__.w0") for n in range(6)]
    assert [p.init for p in numbered[:3] if p] == [Normal(0, 0.5), Normal(1, 0.01), Uniform(-1, 2)]
    tuned = numbered[3]
    assert tuned is not None
    assert (tuned.learning_rate, tuned.l1, tuned.l2, tuned.momentum, tuned.clip) == (3, 0.1, 0.2, 0.3, 5)
    assert numbered[4] is not None and numbered[4].static
    assert numbered[5] is not None and numbered[5].sparse
    assert len(made.parameters) == 7
    assert made.layers["__fc_layer_7__"].parameters == ("own",)


def test_counters_advance_only_without_a_name(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "d = data_layer('d', 4)\na = fc_layer(input=d, size=2)\nb = fc_layer(input=a, size=2, name='mine')\n"
        "c = fc_layer(input=b, size=2)\nl = dropout_layer(input=c, dropout_rate=.5)\noutputs(l)\n",
    )
    assert list(made.layers) == ["d", "__fc_layer_0__", "mine", "__fc_layer_1__", "__dropout_0__"]
    assert made.layers["__dropout_0__"].drop_rate == 0.5


def test_the_order_of_inputs_is_a_walk_from_the_output(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "label = data_layer('label', 2)\nb = data_layer('b', 2)\na = data_layer('a', 2)\n"
        "f = fc_layer(input=[a, b], size=2, act=SoftmaxActivation())\n"
        "outputs(classification_cost(input=f, label=label))\n",
    )
    assert made.inputs == ("a", "b", "label")


def test_deep_networks_are_walked_once(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "x = data_layer('x', 4)\nfor i in xrange(60):\n    x = addto_layer(input=[x, x])\noutputs(x)\n",
    )
    assert made.inputs == ("x",)


@pytest.mark.parametrize(
    ("optimizer", "name", "numbers"),
    [
        ("MomentumOptimizer(momentum=0.9)", "momentum", {"momentum": 0.9}),
        ("AdamOptimizer()", "adam", {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}),
        ("AdamaxOptimizer(0.8, 0.9)", "adamax", {"beta1": 0.8, "beta2": 0.9}),
        ("RMSPropOptimizer()", "rmsprop", {"rho": 0.95, "epsilon": 1e-6}),
        ("AdaGradOptimizer()", "adagrad", {"epsilon": 1e-6}),
        ("AdaDeltaOptimizer(rho=0.9)", "adadelta", {"rho": 0.9, "epsilon": 1e-6}),
        ("DecayedAdaGradOptimizer()", "decayed_adagrad", {"rho": 0.95, "epsilon": 1e-6}),
    ],
)
def test_optimizers(tmp_path: Path, optimizer: str, name: str, numbers: dict[str, float]) -> None:
    source = f"settings(batch_size=5, learning_method={optimizer}, regularization=L2Regularization(8e-4),\n"
    source += "  gradient_clipping_threshold=25, is_async=True, learning_rate=0.1/128)\noutputs(data_layer('d', 1))\n"
    training = graph(tmp_path, source).settings
    assert (training.method.name, training.method.numbers) == (name, numbers)
    assert (training.l2, training.clip, training.is_async, training.learning_rate) == (8e-4, 25.0, True, 0.1 / 128)


def test_schedules(tmp_path: Path) -> None:
    def schedule(arguments: str) -> tuple[str, float, float, tuple[tuple[float, float], ...]]:
        made = graph(tmp_path, f"settings(batch_size=5, {arguments})\noutputs(data_layer('d', 1))\n").settings.schedule
        return made.name, made.a, made.b, made.segments

    rates = "learning_rate_decay_a=0.5, learning_rate_decay_b=0.75"
    for name in ("poly", "exp", "discexp", "linear", "caffe_poly", "constant"):
        assert schedule(f"learning_rate_schedule='{name}', {rates}") == (name, 0.5, 0.75, ())
    read = schedule("learning_rate_schedule='pass_manual', learning_rate_args='1:1.0,3:0.5'")
    assert read == ("pass_manual", 0.0, 0.0, ((1.0, 1.0), (3.0, 0.5)))


def test_arguments_of_the_command_line(tmp_path: Path) -> None:
    source = "n = get_config_arg('n', int, 3)\nyes = get_config_arg('yes', bool, False)\nx = get_config_arg('x', str)\n"
    source += "assert x is None\noutputs(data_layer('d', n if yes else 1))\n"
    assert graph(tmp_path, source).layers["d"].size == 1
    assert graph(tmp_path, source, n="7", yes="1").layers["d"].size == 7
    with pytest.raises(InputError, match=r"config\.py:4: --config_args yes=maybe: write true or false"):
        graph(tmp_path, source, yes="maybe")
    with pytest.raises(InputError, match=r"config\.py:3: --config_args n=many: write a value of type int"):
        graph(tmp_path, source, n="many")


def test_data_may_differ_for_training_and_testing(tmp_path: Path) -> None:
    source = (
        "define_py_data_sources2('a.list', 'b.list', module=('m', 'n'), obj='process', args=({'k': 1}, {'k': 2}))\n"
    )
    data = graph(tmp_path, source + "outputs(data_layer('d', 1))\n").data
    assert data is not None and data.train is not None and data.test is not None
    assert (data.train.list, data.train.module, data.train.args) == ("a.list", "m", {"k": 1})
    assert (data.test.list, data.test.module, data.test.args) == ("b.list", "n", {"k": 2})


D = "d = data_layer('d', 6)\ne = data_layer('e', 4)\n"


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        (D + "img_conv_layer(input=d, filter_size=3, num_filters=2)", 5, "img_conv_layer is a name of PaddlePaddle v1"),
        (D + "fc_layer(input=d, size=2, act=STanhActivation())", 5, "STanhActivation is a name of PaddlePaddle v1"),
        (D + "x = 1\nd + e", 6, "one of them size 1: layer 'd' of size 6, layer 'e' of size 4"),
        (D + "d * d", 5, "a layer can be multiplied with a number or with a layer of size 1"),
        (D + "-d", 5, "v1 adds, subtracts and multiplies layers, and nothing else; -a is a * -1"),
        (D + "'x' + d", 5, "+ of a layer wants another layer or a number, not 'x'"),
        (
            D + "concat_layer(input=[full_matrix_projection(d)])",
            5,
            "input 0, a projection of layer 'd' of size 6, must say",
        ),
        (D + "concat_layer(input=[full_matrix_projection(d, size=3), d])", 5, "input must be a layer, not"),
        (D + "last_seq(input=d, stride=0)", 5, "last_seq: stride must be a whole number of at least 1, not 0"),
        (D + "x = 3\nwith recurrent_group(input=d) as g:\n    pass", 6, "recurrent_group is a name of PaddlePaddle v1"),
        (D + "Settings(algorithm='sgd')", 5, "Settings is a name of PaddlePaddle v1"),
        (D + "fc_layer(input=nothing, size=2)", 5, "NameError: name 'nothing' is not defined"),
        (D + "fc_layer(input='d', size=2)", 5, "fc_layer: input must be a layer, not 'd'"),
        (
            D + "fc_layer(d, 2, TanhActivation())",
            5,
            "fc_layer: give these by their keywords, as PaddlePaddle v1 wanted",
        ),
        (D + "fc_layer(input=d, size=2, wat=1)", 5, "fc_layer: got an unexpected keyword argument 'wat'; it has input"),
        (D + "fc_layer(input=d)", 5, "fc_layer: missing a required argument: 'size'"),
        (D + "fc_layer(input=d, size=-2)", 5, "fc_layer: size must be a whole number of at least 1, not -2"),
        (D + "fc_layer(input=d, size=2, act='tanh')", 5, "act must be an activation like"),
        (D + "fc_layer(input=d, size=2, param_attr=ParamAttr(initial_std='x'))", 5, "initial_std must be a number"),
        (D + "addto_layer(input=[d, e])", 5, "layer 'd' of size 6 and layer 'e' of size 4"),
        (D + "cos_sim(a=d, b=e)", 5, "layer 'd' of size 6 and layer 'e' of size 4"),
        (D + "lstmemory(input=d)", 5, "layer 'd' of size 6 is not a multiple of 4"),
        (
            D + "f = fc_layer(input=d, size=3, act=SoftmaxActivation())\nclassification_cost(input=f, label=f)",
            6,
            "label must be a data_layer, not layer '__fc_layer_0__' of size 3",
        ),
        (D + "classification_cost(input=d, label=d)", 5, "must end in SoftmaxActivation()"),
        (
            D + "with mixed_layer(size=5) as m:\n    m += identity_projection(d)",
            5,
            "mixed layer '__mixed_0__' has size 5, but the identity projection of layer 'd' of size 6 gives 6",
        ),
        (D + "m = mixed_layer(size=5)\nfc_layer(input=m, size=1)", 6, "layer '__mixed_0__' is not finished yet"),
        (
            D + "with mixed_layer(size=5) as m:\n    m += d",
            6,
            "a mixed layer adds up projections, not layer 'd' of size 6",
        ),
        (D + "data_layer('d', 3)", 5, "there is a layer 'd' already, of line 3"),
        (
            D
            + "a = ParamAttr(name='p')\nfc_layer(input=d, size=2, param_attr=a)\nfc_layer(input=e, size=2, param_attr=a)",
            7,
            "parameter 'p' is shared, but is 6×2 there and 4×2 here",
        ),
        (D + "f = fc_layer(input=d, size=2)\nembedding_layer(input=f, size=2)", 6, "its input must be a data_layer"),
        ("settings(batch_size=0)", 3, "settings: batch_size must be a whole number"),
        ("settings(batch_size=1, learning_method='adam')", 3, "learning_method must be an optimizer like"),
        ("settings(batch_size=1, learning_rate_schedule='x')", 3, "learning_rate_schedule must be one of poly"),
        (
            "settings(batch_size=1, model_average=ModelAverage(-1))",
            3,
            "average_window must be a number of at least 0, not -1",
        ),
        ("define_py_data_sources2(None, None, 'm', 'o')", 3, "give a train_list or a test_list"),
        ("outputs([])", 3, "outputs: layers is empty"),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, source: str, line: int, said: str) -> None:
    with pytest.raises(InputError) as error:
        graph(tmp_path, source + "\n")
    assert str(error.value).startswith(f"{tmp_path}/config.py:{line}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["0.9", "0.10"])
def test_optional_arguments_that_v1_did_not_fill_in_may_stand_without_their_keyword(
    tmp_path: Path, version: str
) -> None:
    made = graph(
        tmp_path,
        D + "with mixed_layer(4) as m:\n    m += identity_projection(d, 1)\noutputs(cos_sim(m, e, 5))\n"
        "define_py_data_sources2('a.list', None, 'm', 'process', {'k': 1})\n",
        version,
    )
    assert made.layers["__mixed_0__"].projections[0].options == {"offset": 1}
    assert made.layers["__cos_sim_0__"].options == {"scale": 5.0}
    assert made.data is not None and made.data.train is not None and made.data.train.args == {"k": 1}
    assert made.warnings == ()


def test_the_size_of_a_label_is_not_compared_and_a_regression_may_be_against_any_layer(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "d = data_layer('d', 6)\nlabel = data_layer('label', 1)\nf = fc_layer(input=d, size=2, act=SoftmaxActivation())\n"
        "g = fc_layer(input=d, size=2)\noutputs(classification_cost(input=f, label=label), mse_cost(input=f, label=g))\n",
    )
    assert made.outputs == ("__cost_0__", "__mse_cost_0__")


def test_context_windows_are_padded_with_a_parameter_unless_told_not_to(tmp_path: Path) -> None:
    made = graph(
        tmp_path,
        "d = data_layer('d', 5)\na = mixed_layer(name='a', input=context_projection(d, context_len=4))\n"
        "b = mixed_layer(name='b', input=context_projection(d, context_len=4, padding_attr=False))\n"
        "p = ParamAttr(name='pad', initial_std=0.5)\n"
        "c = mixed_layer(name='c', input=context_projection(d, context_len=2, context_start=1, padding_attr=p))\n"
        "alone = mixed_layer(name='alone', input=context_projection(d, context_len=1, context_start=0))\n"
        "s = sequence_conv_pool(d, context_len=3, hidden_size=2)\noutputs(a, b, c, alone, s)\n",
    )
    padding = {name: p for name, p in made.parameters.items() if "conv_fc" not in name}
    assert {name: p.shape for name, p in padding.items()} == {"_a.w0": (3, 5), "pad": (2, 5)}
    assert padding["_a.w0"].init == Normal(0.0, 0.0) and padding["pad"].init == Normal(0.0, 0.5)
    assert made.layers["b"].projections[0].parameter is None


def test_data_files_may_be_listed_in_the_config(tmp_path: Path) -> None:
    source = "define_py_data_sources2(train_list=['a.txt', 'b.txt'], test_list=None, module='m', obj='o')\n"
    data = graph(tmp_path, source + "outputs(data_layer('d', 1))\n").data
    assert data is not None and data.train is not None and data.train.list == ("a.txt", "b.txt")


def test_importing_a_name_that_is_not_here_is_harmless(tmp_path: Path) -> None:
    source = "from paddle.trainer_config_helpers.layers import img_conv_layer\noutputs(data_layer('d', 1))\n"
    assert graph(tmp_path, source).inputs == ("d",)


def test_a_config_without_settings_outputs_or_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text("from paddle.trainer_config_helpers import *\noutputs(data_layer('d', 1))\n")
    with pytest.raises(InputError, match="never calls settings"):
        load(path, {})
    path.write_text(HEAD)
    with pytest.raises(InputError, match="never calls outputs"):
        load(path, {})
    path.write_text(HEAD + "outputs(data_layer('d', 1))\n")
    with pytest.raises(InputError, match="names no data"):
        load(path, {})
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "missing.py", {})


def test_a_missing_list_is_named_with_its_line(reviews: Path) -> None:
    (reviews / "data" / "test.list").unlink()
    with pytest.raises(InputError, match=r"trainer_config\.lr\.py:\d+: there is no test list 'data/test\.list' in "):
        load(QUICK_START / "trainer_config.lr.py", {})


def test_v1_and_native_configs_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(text: str) -> bool:
        (tmp_path / "deep" / "config.py").write_text(text)
        return is_v1(tmp_path / "deep" / "config.py")

    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    (tmp_path / "net.py").write_text("from paddle.trainer_config_helpers import *\nimport config\n")
    (tmp_path / "deep" / "words.py").write_text("import config, net\n")
    assert is_v1(QUICK_START / "trainer_config.lr.py")
    assert told("x = 1\nimport paddle.trainer_config_helpers\n")
    assert not is_v1(ROOT / "examples" / "quick_start" / "lr.py")
    assert not told("from paddles import oar\n")
    assert not told("import words\n"), "net.py is not where it looks"
    assert told('import sys\nsys.path.append("..")\nfrom net import *\n')
    assert told('import sys\nsys.path.insert(0, "..")\nimport os, words\n')


def test_a_later_settings_misses_the_parameters_there_are(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    rest = "from paddle.trainer_config_helpers import *\nd = data_layer('d', 6)\na = fc_layer(input=d, size=2)\n"
    first = "settings(batch_size=1, learning_method=MomentumOptimizer(0.5), regularization=L2Regularization(0.1))\n"
    last = (
        "settings(batch_size=1, learning_method=MomentumOptimizer(0.9), regularization=L2Regularization(0.2),\n"
        "    gradient_clipping_threshold=3)\nc = fc_layer(input=d, size=2, param_attr=ParamAttr(l2_rate=0.7))\noutputs(a, b, c)\n"
    )
    path.write_text(rest + first + "b = fc_layer(input=d, size=2)\n" + last)
    made = load(path, {}, check_data=False)
    own = {n: (p.momentum, p.l2, p.clip) for n, p in made.parameters.items() if n.endswith("w0")}
    assert own == {
        "___fc_layer_0__.w0": (0.0, 0.0, 0.0),
        "___fc_layer_1__.w0": (0.5, 0.1, 0.0),
        "___fc_layer_2__.w0": (None, 0.7, None),
    }
    assert (made.settings.l2, made.settings.clip) == (0.2, 3.0)
    _, options = selection.optimizers(made)
    assert options["___fc_layer_0__.w0"].clip == selection.UNBOUNDED and options["___fc_layer_2__.w0"].clip is None


def test_every_file_that_was_read_is_known(reviews: Path) -> None:
    made = load(QUICK_START / "trainer_config.emb.py", {})
    assert [Path(file).name for file in made.files] == ["trainer_config.emb.py", "reviews.py"]
