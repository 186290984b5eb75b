"""Matrix products with frozen weights, by the faster of the two libraries that PyTorch carries for CPUs.

In float32 a plain linear layer goes to MKL. oneDNN is faster on the processors measured, most of all for wide layers
(an unembedding of 49152 rows: 84 against 56 GFLOP/s on one core of an AMD EPYC with AVX-512, 64 rows). PyTorch's own
compiler calls the same operators; where they are missing, the plain product is used.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_PACKED_ROWS = 64  # the layout is chosen for so many rows; it serves any number


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (R, in) times the transpose of weight (out, in), plus bias (out): (R, out). Not recorded by autograd."""
    if ONEDNN and x.dtype == torch.float32 and not x.is_cuda and x.shape[0] > 1:
        return packed_product(x, weight, bias)
    return functional.linear(x, weight, bias)


def product_back(grad: Tensor, weight: Tensor) -> Tensor:
    """grad (R, out) times weight (out, in): the gradient of :func:`product` by its input, (R, in)."""
    return product(grad, weight.t())


def pack(weight: Tensor) -> Tensor:
    """A copy of a float32 weight (out, in) in oneDNN's own layout, for :func:`packed_product` only."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _PACKED_ROWS)


def packed_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`product` by oneDNN, where the weight may have gone through :func:`pack`."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _available() -> bool:
    """Whether oneDNN's operators are there and compute what they should."""
    if not torch.backends.mkldnn.is_available():
        return False
    x, weight = torch.eye(2, 3), torch.arange(12.0).view(4, 3)
    expected = functional.linear(x, weight)
    try:
        with torch.no_grad():
            return all(torch.equal(packed_product(x, layout), expected) for layout in (weight, pack(weight)))
    except (AttributeError, RuntimeError):  # a PyTorch without the operators, or one whose operators refuse
        return False


ONEDNN = _available()
