"""`paddle dump_config CONFIG [ARGS] [--whole]`: what a config says, as the message that v1 made of it, in text."""

from __future__ import annotations

from pathlib import Path

from umiak.cli.paddle.environment import paddle_version
from umiak.errors import InputError
from umiak.spec.flags import pairs

USAGE = "paddle dump_config CONFIG_FILE [config_str] [--whole], where config_str is NAME=VALUE,NAME=VALUE"


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(f"usage: {USAGE}\n\nPrints the layers and parameters; with --whole, the data and the settings too.")
        return 0
    words = [word for word in argv if word != "--whole"]
    if not 1 <= len(words) <= 2 or any(word.startswith("-") for word in words):
        raise InputError(f"write {USAGE}")
    config = Path(words[0])
    if not config.is_file():
        raise InputError(f"there is no config {config}")
    try:
        arguments = pairs(words[1]) if len(words) == 2 and words[1] else {}
    except ValueError:
        raise InputError(f"{words[1]!r} is not a list of name=value: write {USAGE}") from None

    from umiak.paddle_v1.formats.modelconfig import model_config
    from umiak.paddle_v1.formats.textformat import text
    from umiak.paddle_v1.formats.trainerconfig import trainer_config
    from umiak.paddle_v1.language import reading

    graph = reading.load(config, arguments, paddle_version() or "0.10", check_data=False)
    if "--whole" in argv:
        print(text(trainer_config(graph), "TrainerConfig"))
    else:
        print(text(model_config(graph, whole=True), "ModelConfig"))
    return 0
