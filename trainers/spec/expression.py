"""The small language in which a loss of one's own is written: arithmetic on per-token values, and nothing else.

An expression is parsed by Python's grammar and then walked: what is not on the lists below is refused, so that nothing
of Python itself (attributes, imports, calls of other things) can be reached. It is never given to ``eval``. Without
torch, so that the control plane can check it; :mod:`trainers.losses.custom` computes it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

VARIABLES = {
    "logprobs": "log-probability of the token under the model in training (carries the gradient)",
    "old_logprobs": "the same under the policy that sampled",
    "ratio": "exp(logprobs - old_logprobs)",
    "advantages": "advantage of the token",
    "reference_logprobs": "log-probability under the model that training started from",
    "mask": "1 for tokens of the model, 0 for tokens of an environment",
    "clip_low": "the setting of that name",
    "clip_high": "the setting of that name",
    "beta": "the setting of that name (0.1 where it is empty)",
}
# Name → number of arguments.
FUNCTIONS = {
    "exp": 1, "log": 1, "log1p": 1, "expm1": 1, "sqrt": 1, "square": 1, "abs": 1, "tanh": 1, "sigmoid": 1,
    "logsigmoid": 1, "relu": 1, "detach": 1, "minimum": 2, "maximum": 2, "clamp": 3, "where": 3, "sum": 1, "mean": 1,
}  # fmt: skip
INTERFACE = (
    "A loss is one expression per token of "
    + ", ".join(VARIABLES)
    + ", numbers, + - * / **, comparisons with and, or, not inside where(), and the functions "
    + ", ".join(FUNCTIONS)
    + "; sum and mean run over the tokens of one completion."
)
MAX_NODES = 300
MAX_NUMBER = 1e6
MAX_EXPONENT = 8

Kind = Literal["number", "truth"]


class ExpressionError(ValueError):
    """An expression that is not a loss; the message names the interface."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}. {INTERFACE}")


@dataclass(frozen=True)
class Node:
    """``op`` is ``number``, ``variable``, an operator's or a function's name. ``kind``: a number or a truth value."""

    op: str
    kind: Kind
    value: float | str = 0.0
    parts: tuple[Node, ...] = ()

    def names(self) -> frozenset[str]:
        """The variables that it reads."""
        own = {str(self.value)} if self.op == "variable" else set()
        return frozenset(own.union(*(part.names() for part in self.parts)))


def parse_expression(text: str) -> Node:
    """The tree of an expression. Raises :class:`ExpressionError`."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError("This is not a well-formed expression") from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise ExpressionError(f"The expression has more than {MAX_NODES} parts")
    node = _node(tree.body)
    if node.kind != "number":
        raise ExpressionError("The expression compares and gives no number; put the comparison into where()")
    if not node.names() & {"logprobs", "ratio"}:
        raise ExpressionError("The expression reads neither logprobs nor ratio, so there would be nothing to learn")
    return node


_BINARY: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


def _node(tree: ast.expr) -> Node:
    match tree:
        case ast.Constant(value=bool() | None):
            raise ExpressionError(f"{tree.value!r} is not a number")
        case ast.Constant(value=int() | float() as number):
            if not abs(number) <= MAX_NUMBER:
                raise ExpressionError(f"Numbers may reach {MAX_NUMBER:g}")
            return Node("number", "number", float(number))
        case ast.Name(id=name):
            if name not in VARIABLES:
                raise ExpressionError(f"There is no value called {name[:40]!r}")
            return Node("variable", "number", name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            part = _number(operand)
            return Node("negative", "number", parts=(part,)) if isinstance(tree.op, ast.USub) else part
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Node("not", "truth", parts=(_truth(operand),))
        case ast.BoolOp(op=op, values=values):
            return Node("and" if isinstance(op, ast.And) else "or", "truth", parts=tuple(_truth(v) for v in values))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return Node("power", "number", _exponent(right), (_number(left),))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return Node(_BINARY[type(operator)], "number", parts=(_number(left), _number(right)))
        case ast.Compare(left=left, ops=[one], comparators=[right]) if type(one) in _COMPARE:
            return Node(_COMPARE[type(one)], "truth", parts=(_number(left), _number(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _call(name, arguments)
    raise ExpressionError(f"{ast.unparse(tree)[:60]!r} cannot be used in a loss")


def _call(name: str, arguments: list[ast.expr]) -> Node:
    if name not in FUNCTIONS:
        raise ExpressionError(f"There is no function called {name[:40]!r}")
    if len(arguments) != FUNCTIONS[name]:
        raise ExpressionError(f"{name}() takes {FUNCTIONS[name]} values, not {len(arguments)}")
    if name == "where":
        return Node(name, "number", parts=(_truth(arguments[0]), _number(arguments[1]), _number(arguments[2])))
    return Node(name, "number", parts=tuple(_number(argument) for argument in arguments))


def _exponent(tree: ast.expr) -> float:
    sign = 1.0
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        sign, tree = -1.0, tree.operand
    node = _node(tree)
    if node.op != "number" or float(node.value) > MAX_EXPONENT:
        raise ExpressionError(f"An exponent must be a plain number up to {MAX_EXPONENT}")
    return sign * float(node.value)


def _number(tree: ast.expr) -> Node:
    node = _node(tree)
    if node.kind != "number":
        raise ExpressionError(f"{ast.unparse(tree)[:60]!r} compares; use it inside where()")
    return node


def _truth(tree: ast.expr) -> Node:
    node = _node(tree)
    if node.kind != "truth":
        raise ExpressionError(f"{ast.unparse(tree)[:60]!r} is a number where a comparison is needed")
    return node
