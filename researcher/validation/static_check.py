"""Static check of a module's text. It gives good messages and saves time; the sandbox is what makes running code safe."""

import ast

from serl.researcher.modules.contracts import SIGNATURES, Kind
from serl.researcher.validation import gaming
from serl.researcher.validation.findings import Finding, Reason

CHARACTERS_MAX, NODES_MAX = 16_000, 4000
DEPTH_MAX = 100
"""Maximum depth of the syntax tree. Code on the host that reads a module descends the tree recursively, with several frames per level; a long sum has
a level per term."""
CONTRACTS = "serl.researcher.modules.contracts"
IMPORTS = ("numpy", "torch", "math", "dataclasses", "typing", "collections.abc", "__future__", CONTRACTS)
FORBIDDEN = frozenset(
    {"eval", "exec", "compile", "open", "input", "breakpoint", "globals", "locals", "vars", "getattr", "setattr", "delattr",
     "exit", "quit", "memoryview"}
)  # fmt: skip
ATTRIBUTES = frozenset(
    {"load", "save", "fromfile", "tofile", "memmap", "loadtxt", "savetxt", "genfromtxt", "from_file", "ctypeslib", "ctypes", "hub",
     "distributed", "multiprocessing", "utils", "system", "cpp_extension", "compile", "jit"}
)  # fmt: skip
"""Attributes of numpy and torch that reach files, other processes or compilers."""
GENERATORS = frozenset(
    {"default_rng", "RandomState", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
)
"""Sources of random numbers of numpy that without a seed draw other numbers in each process."""
METHODS = frozenset({"__init__", "__call__", "__post_init__", "__name__", "__version__"})


def check_source(kind: Kind, source: str) -> list[Finding]:
    """The findings on a module's text, without running it."""
    if len(source) > CHARACTERS_MAX:
        return [
            Finding(
                Reason.SIZE,
                f"expected at most {CHARACTERS_MAX:,} characters, got {len(source):,}; shorten the module",
            )
        ]
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [
            Finding(
                Reason.SYNTAX,
                f"line {error.lineno}: {error.msg}; answer with Python code only, without prose or code fences",
            )
        ]
    except (ValueError, RecursionError, MemoryError) as error:
        return [Finding(Reason.SYNTAX, f"the text cannot be parsed as Python ({error}); write it simpler")]
    nodes = list(ast.walk(tree))
    if len(nodes) > NODES_MAX:
        return [
            Finding(Reason.SIZE, f"expected at most {NODES_MAX:,} syntax nodes, got {len(nodes):,}; shorten the module")
        ]
    if (depth := _depth(tree)) > DEPTH_MAX:
        return [
            Finding(
                Reason.SIZE,
                f"expected a syntax tree of at most {DEPTH_MAX} levels, got {depth:,}; split long expressions and deep nesting",
            )
        ]
    return [*_signature(kind, tree), *(finding for node in nodes for finding in _node(node))]


def _depth(tree: ast.AST) -> int:
    """The number of levels of a tree, without recursion."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _signature(kind: Kind, tree: ast.Module) -> list[Finding]:
    name, parameters = SIGNATURES[kind]
    expected = f"def {name}({', '.join(parameters)})"
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        return [Finding(Reason.SIGNATURE, f"expected `{expected}` at the module's top level, got none")]
    defined = found[-1].args
    names = tuple(argument.arg for argument in (*defined.posonlyargs, *defined.args))
    extra = bool(defined.vararg or defined.kwarg or [each for each in defined.kw_defaults if each is None])
    required = names[: len(names) - len(defined.defaults)]
    if names[: len(parameters)] != parameters or len(required) > len(parameters) or extra:
        return [
            Finding(
                Reason.SIGNATURE,
                f"line {found[-1].lineno}: expected `{expected}`, got `def {name}({ast.unparse(defined)})`",
            )
        ]
    return []


def _node(node: ast.AST) -> list[Finding]:
    if isinstance(node, ast.Import):
        return [finding for alias in node.names for finding in _import(alias.name, node.lineno)]
    if isinstance(node, ast.ImportFrom):
        names = (
            [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)] if not node.level else ["."]
        )
        return _import(names[0], node.lineno) or _names_of(node)
    if isinstance(node, ast.Name) and (node.id in FORBIDDEN or _private(node.id)):
        reason = gaming.NAMES.get(node.id, Reason.FORBIDDEN)
        return [Finding(reason, f"line {node.lineno}: `{node.id}` is not allowed in a module; remove it")]
    if isinstance(node, ast.Attribute) and (node.attr in ATTRIBUTES | set(gaming.ATTRIBUTES) or _private(node.attr)):
        reason = gaming.ATTRIBUTES.get(node.attr, Reason.FORBIDDEN)
        return [Finding(reason, f"line {node.lineno}: `.{node.attr}` is not allowed in a module; remove it")]
    if isinstance(node, ast.Call) and not (node.args or node.keywords) and _last_name(node.func) in GENERATORS:
        text = f"line {node.lineno}: `{_last_name(node.func)}()` draws other numbers whenever the module is loaded; give it a seed, or use the given rng"
        return [Finding(Reason.NOT_DETERMINISTIC, text)]
    if isinstance(node, ast.AsyncFunctionDef | ast.Await):
        return [
            Finding(
                Reason.FORBIDDEN,
                f"line {node.lineno}: asynchronous code is not allowed in a module; use plain functions",
            )
        ]
    return []


def _last_name(node: ast.expr) -> str:
    """`c` of the expression `a.b.c`; empty if it is not a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _private(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in METHODS


def _names_of(node: ast.ImportFrom) -> list[Finding]:
    return [
        Finding(
            gaming.ATTRIBUTES.get(alias.name, Reason.IMPORT),
            f"line {node.lineno}: `{alias.name}` cannot be imported from {node.module}; remove it",
        )
        for alias in node.names
        if alias.name in ATTRIBUTES | set(gaming.ATTRIBUTES)
    ]


def _import(name: str, line: int) -> list[Finding]:
    allowed = name in IMPORTS or name.split(".")[0] in ("numpy", "torch")
    if allowed and not any(part in ATTRIBUTES for part in name.split(".")):
        return []
    return [
        Finding(
            gaming.reason_of_import(name),
            f"line {line}: `{name}` cannot be imported; a module may import {', '.join(IMPORTS)}",
        )
    ]
