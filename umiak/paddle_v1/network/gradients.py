"""Where the gradient of a parameter goes.

The engine keeps one vector for all gradients and sets it to zero before each batch. Autograd would make a new tensor for the
gradient of every parameter and then add it to that vector; for a large embedding, of which a batch touches some
rows, that is twice the work. So the functions of this package add to `parameter.grad` themselves where it is
there already, and return nothing; otherwise they return the gradient as any autograd function does.
"""

from __future__ import annotations

import torch
from torch import Tensor


def destination(parameter: Tensor) -> tuple[Tensor, Tensor | None]:
    """The tensor to add a parameter's gradient to, and what to return to autograd afterwards."""
    if parameter.is_leaf and parameter.grad is not None:
        return parameter.grad, None
    fresh = torch.zeros_like(parameter)
    return fresh, fresh


def add_product(parameter: Tensor, left: Tensor, right: Tensor) -> Tensor | None:
    """Add left @ right to a parameter's gradient; what to return to autograd."""
    if parameter.is_leaf and parameter.grad is not None:
        parameter.grad.addmm_(left, right)
        return None
    return left @ right


def add(parameter: Tensor, gradient: Tensor) -> Tensor | None:
    """Add to a parameter's gradient; what to return to autograd."""
    shaped = gradient.reshape(parameter.shape)
    if parameter.is_leaf and parameter.grad is not None:
        parameter.grad.add_(shaped)
        return None
    return shaped
