"""`paddle version`: which PaddlePaddle this behaves like, in the lines of the original."""

from __future__ import annotations

from umiak import __version__

OLDEST, NEWEST = "0.9.0", "0.10.0"


def run(argv: list[str]) -> int:
    import torch

    built = {
        "avx": "AVX" in torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.is_available(),
        "double": False,
        "python": True,
        "rdma": False,
        "timer": False,
    }
    print(f"PaddlePaddle {NEWEST}, as umiak {__version__} runs it (--paddle_version=0.9: {OLDEST}), with")
    for name, value in built.items():
        print(f"    with_{name}: {'ON' if value else 'OFF'}")
    return 0
