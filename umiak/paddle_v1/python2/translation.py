"""Compiles Python 2: a file of 2016 becomes code that runs here, each line under its own number. Nothing is written.

fissix parses the old grammar and rewrites its syntax (print, except X, e, 0777, `x`); then the few operators and methods
that mean something else today become calls of builtin_names.py. Names and imports are language/modules.py's part.
"""

from __future__ import annotations

import ast
import codecs
import functools
import logging
import re
import warnings
from types import CodeType
from typing import Any, NamedTuple

from umiak.errors import InputError
from umiak.extras import needed
from umiak.paddle_v1.python2.builtin_names import METHODS

_SYNTAX = (
    *("apply", "except", "exec", "funcattrs", "metaclass", "methodattrs", "ne", "nonzero", "numliterals", "paren"),
    *("print", "raise", "repr", "sys_exc", "throw", "tuple_params"),
)
_LITERAL = re.compile(r"([uUbBrR]*)(\"\"\"|'''|\"|')(.*)\2", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BACKSLASH_NOT_U = re.compile(r"\\(?!u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_FUTURE = re.compile(r"^from[ \t]+__future__[ \t]+import[ \t]+([^#\n(]+|\([^)]*\))", re.MULTILINE)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Special methods under their new names, where a class defines only the old one.
_RENAMED = {"next": "__next__", "__div__": "__truediv__", "__idiv__": "__itruediv__", "__rdiv__": "__rtruediv__"}


class Located(InputError):
    """An error that already names its file and line; leaves this package as a plain InputError."""


class Compiled(NamedTuple):
    """Code, and whether it means Python 2; a file that is only Python 3 stays what it is."""

    code: CodeType
    python2: bool


def compile_file(data: bytes, filename: str) -> Compiled:
    """The code of a file. The error names the line that neither Python understands."""
    try:
        return Compiled(compile_python2(data, filename), True)
    except SyntaxError as error:
        try:
            return Compiled(compile(data, filename, "exec", dont_inherit=True), False)
        except (SyntaxError, ValueError):
            raise Located(f"{filename}:{error.lineno or 1} is not Python: {error.msg}") from None


def compile_python2(data: bytes, filename: str) -> CodeType:
    """Raises a SyntaxError with the line of the file."""
    encoding = _encoding(data)
    # One character per byte: a literal of bytes is then what it was, and u"…" is decoded by itself.
    text = data.removeprefix(codecs.BOM_UTF8).decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise SyntaxError("it contains zero bytes", (filename, text[: text.index("\0")].count("\n") + 1, 0, ""))
    tree = _parse(text if text.endswith("\n") else f"{text}\n", filename)
    future = set(re.findall(r"\w+", " ".join(_FUTURE.findall(text))))
    lines = _modernise(tree, encoding, "unicode_literals" in future)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = _ast(str(tree), filename)
        except SyntaxError as error:
            error.lineno = lines.get(error.lineno or 1, error.lineno)
            raise
        for node in ast.walk(module):
            if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.keyword | ast.alias):
                node.lineno = lines.get(node.lineno, node.lineno)
                node.end_lineno = max(node.lineno, lines.get(node.end_lineno or 0, node.lineno))
                if node.end_lineno == node.lineno:
                    node.end_col_offset = max(node.col_offset, node.end_col_offset or 0)
        meaning = ast.fix_missing_locations(_Meaning(future, filename).visit(module))
        return compile(meaning, filename, "exec", dont_inherit=True)


@functools.cache
def _tool() -> Any:
    """fissix, without the cache file it would write without a lock: trainers that start together would read half of it."""
    with needed("paddle", "v1 configs and data providers need"):
        from fissix.pgen2 import driver

    driver.load_grammar = functools.partial(driver.load_grammar, gp="", save=False, force=True)
    from fissix.refactor import RefactoringTool

    for name in ("RefactoringTool", "fissix", "fissix.refactor"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return RefactoringTool([f"fissix.fixes.fix_{name}" for name in _SYNTAX])


def _parse(text: str, filename: str) -> Any:
    tool = _tool()
    from fissix.pgen2.parse import ParseError
    from fissix.pgen2.tokenize import TokenError

    try:
        return tool.refactor_string(text, filename)
    except ParseError as error:
        line = error.context[1][0]
        ends = {"": "the file ends too early", "\n": "the line ends too early"}
        said = ends.get(error.value or "", f"{error.value!r} is not expected here")
        raise SyntaxError(said, (filename, line, error.context[1][1], "")) from None
    except TokenError as error:
        message, (line, column) = error.args
        raise SyntaxError(str(message), (filename, line, column, "")) from None


def _modernise(tree: Any, encoding: str, unicode_literals: bool) -> dict[int, int]:
    """Rewrite the string literals; and the line of the file for each line of the rewritten text."""
    from fissix.pgen2 import token

    lines: dict[int, int] = {}
    ends: dict[int, int] = {}
    line = 1
    for leaf in tree.leaves():
        line += leaf.prefix.count("\n")
        if leaf.type == token.STRING:
            try:
                leaf.value = _literal(leaf.value, encoding, unicode_literals)
            except UnicodeDecodeError:
                raise SyntaxError(f"a string that is not {encoding}", ("", leaf.lineno, leaf.column, "")) from None
        if leaf.lineno:
            known = ends if leaf.type in (token.NEWLINE, token.INDENT, token.DEDENT) else lines
            known.setdefault(line, leaf.lineno)
        line += leaf.value.count("\n")
    return ends | lines


def _literal(text: str, encoding: str, unicode_literals: bool) -> str:
    match = _LITERAL.fullmatch(text)
    if match is None:
        return text
    prefix, quote, body = match[1].lower(), match[2], match[3]
    if "u" in prefix or (unicode_literals and "b" not in prefix):
        body = body.encode("latin-1").decode(encoding)
        if "r" in prefix:
            body = _BACKSLASH_NOT_U.sub(r"\\\\", body)
        return f"u{quote}{body}{quote}"
    if "r" in prefix:
        return f"r{quote}{body}{quote}"
    return f"{quote}{_ESCAPE.sub(_kept, body)}{quote}"


def _kept(escape: re.Match[str]) -> str:
    """\\u, \\U and \\N are escapes in Python 3's strings; in Python 2's bytes they were themselves."""
    return f"\\{escape[0]}" if escape[1] in "uUN" else escape[0]


def _ast(text: str, filename: str) -> ast.Module:
    try:
        return ast.parse(text, filename)
    except TabError:
        # Python 2 let tabs and blanks stand for each other, eight columns a tab.
        return ast.parse(re.sub(r"^[ \t]+", lambda indent: indent[0].expandtabs(8), text, flags=re.MULTILINE), filename)


def _encoding(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8"
    for line in data.splitlines()[:2]:
        if match := _COOKIE.match(line):
            try:
                return codecs.lookup(match[1].decode()).name
            except LookupError:
                return "utf-8"
    return "utf-8"


class _Meaning(ast.NodeTransformer):
    """Puts calls where the same text means something else in Python 3."""

    def __init__(self, future: set[str], filename: str) -> None:
        self.true_division, self.print_statement = "division" in future, "print_function" not in future
        self.filename = filename

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div) and not self.true_division:
            return _call("__py2_div__", node, node.left, node.right)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div) or self.true_division:
            return node
        if any(isinstance(part, ast.Call) for part in ast.walk(node.target)):
            raise SyntaxError(
                "write a = a / b: /= on the result of a call is not understood", (self.filename, node.lineno, 0, "")
            )
        value = ast.parse(ast.unparse(node.target), mode="eval").body
        for part in ast.walk(value):
            ast.copy_location(part, node)
        return ast.copy_location(
            ast.Assign([node.target], _call("__py2_idiv__", node, self.visit(value), node.value)), node
        )

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in METHODS:
            node.args = [called.value, *node.args]
            node.func = ast.copy_location(ast.Name(f"__py2_{called.attr}__", ast.Load()), node)
        elif isinstance(called, ast.Name) and called.id == "print" and self.print_statement:
            called.id = "__py2_print__"
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A text on its own stays one: it may be a docstring, after which __future__ may stand."""
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.kind == "u":
            return _call("__py2_unicode__", node, node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        defined = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        for old, new in _RENAMED.items():
            if old in defined and new not in defined:
                assignment = ast.Assign([ast.Name(new, ast.Store())], ast.Name(old, ast.Load()))
                node.body.append(ast.copy_location(assignment, node.body[-1]))
        return node


def _call(name: str, where: ast.AST, *arguments: ast.expr) -> ast.Call:
    called = ast.copy_location(ast.Name(name, ast.Load()), where)
    return ast.copy_location(ast.Call(called, list(arguments), []), where)
