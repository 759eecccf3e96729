"""How functions are compiled.

They do without numba's reference counting: matching allocates nothing, so there is nothing to count. Compile times depend on how much code LLVM
gets. A function that other functions call is compiled once and linked into each of them. A `merged` function is not: numba copies it, with
everything merged into it, into its caller, so merging a long function costs more than it saves.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from inspect import signature
from typing import Any

import numba
import numpy as np
from llvmlite import binding as llvm
from numba import cfunc, njit, types
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload

from serl.exchange.code_cache import FOLDER, alone, is_writable


@contextmanager
def _kept_here() -> Iterator[None]:
    """Functions decorated within the block are cached in FOLDER; the caches of other functions stay where they are. If FOLDER is read-only, they are
    loaded from it, and what is compiled within the block is not stored."""
    locator, file = caching._CacheLocator, caching.IndexDataCacheFile
    before = numba.config.CACHE_DIR, locator.ensure_cache_path, file.save
    numba.config.CACHE_DIR = str(FOLDER)
    if not is_writable():  # numba would look for another folder, and raise RuntimeError if there is none
        locator.ensure_cache_path, file.save = lambda self: None, lambda self, key, data: None
    try:
        yield
    finally:
        numba.config.CACHE_DIR, locator.ensure_cache_path, file.save = before


_OPTIONS = {"_nrt": False, "error_model": "numpy"}


def compiled(function: Any = None, **options: Any) -> Any:
    """Decorates a function that Python calls; the options are numba's."""
    if function is None:
        return lambda function: compiled(function, **options)
    with _kept_here():
        dispatcher = njit(cache=FOLDER.is_dir(), **{**_OPTIONS, **options})(function)
    dispatcher.compile = _once(dispatcher.compile, f"{function.__module__}.{function.__qualname__}")
    return dispatcher


def _once(compile_: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """If several processes need the same function at the same time, one compiles it and the others then load it."""

    def compile_or_load(arguments: Any) -> Any:
        # in this order, because numba holds its lock while it compiles the functions that this one calls
        with global_compiler_lock, alone(name), _kept_here():
            return compile_(arguments)

    return compile_or_load


_ALLOCATING = {"_nrt": True, "error_model": "python"}
allocating = compiled(**_ALLOCATING)
"""Decorates a function that Python calls and that allocates arrays."""


def entry(function: Any, kind: Any = None, keep: bool = True) -> Any:
    """Decorates a function that is called through its `.address`. `kind`: the numba type of its signature; by default seven int64 to one."""
    with _kept_here():
        return cfunc(kind or types.int64(*[types.int64] * 7), cache=keep and FOLDER.is_dir(), **_OPTIONS)(function)


class _Part(JITCodeLibrary):
    """Code that exists only as part of its callers' code: it is neither optimised nor turned into machine code by itself.

    This is the only part of this module that relies on something numba does not promise to keep; docs/architecture.md says what it saves.
    """

    _final_module: Any
    inlining: str | None = None
    """The LLVM attribute of its function: `alwaysinline`, `noinline`, or none. numba's own option, `forceinline`, is inherited by all functions that
    this one calls, and they are compiled again for callers with other options."""

    def finalize(self) -> None:
        """Links the functions that it calls; the only thing left to finalise is the environment that numba fills in for each function."""
        if self.inlining:
            for function in self._final_module.functions:
                if not function.is_declaration:
                    function.add_function_attribute(self.inlining)
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        code = self._final_module
        for function in code.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        names = (variable.name for variable in code.global_variables)
        environments = [f"@{name} = common global ptr null" for name in names if name.startswith("_ZN08NumbaEnv")]
        self._final_module = llvm.parse_assembly("\n".join(environments))
        self._final_module.triple, self._final_module.name = code.triple, code.name
        self._shared_module = code
        self._finalize_final_module()


class _PartCompiler(Compiler):
    """numba's own compiler, with a `_Part` as its target."""

    inlining: str | None = None

    def compile_extra(self, func: Any) -> Any:
        """Compiles a Python function."""
        self.state.library = _Part(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.inlining = self.inlining
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class _InlinedCompiler(_PartCompiler):
    inlining = "alwaysinline"


class _ApartCompiler(_PartCompiler):
    inlining = "noinline"


def inner(function: Any, compiler: type[Compiler] = _PartCompiler, options: Any = _OPTIONS) -> Any:
    """Decorates a function that compiled code calls. It is compiled once for each combination of argument types, not for each constant as with `njit`.

    If Python calls it, it is compiled separately for that. options: those of its callers.
    """

    @cache
    def whole() -> Any:
        return compiled(function, **options)

    @wraps(function)
    def for_python(*arguments: Any) -> Any:
        return whole()(*arguments)

    names = ", ".join(signature(function).parameters)
    implementation = eval(f"lambda {names}: function", {"function": function})
    part = {**options, "pipeline_class": compiler, "no_cfunc_wrapper": True}
    overload(for_python, jit_options=part, strict=False)(implementation)
    return for_python


def inlined(function: Any) -> Any:
    """Like `inner`, but LLVM inlines the function wherever it is called: for short functions on hot paths."""
    return inner(function, _InlinedCompiler)


def allocating_inner(function: Any) -> Any:
    """Like `inner`, for functions called by `allocating` ones."""
    return inner(function, options=_ALLOCATING)


def apart(function: Any) -> Any:
    """Like `inner`, but never inlined: for long functions that hot paths seldom call."""
    return inner(function, _ApartCompiler)


def merged(function: Any) -> Any:
    """For functions with one caller or one line: numba copies them into the caller and compiles nothing separately."""
    return njit(inline="always", **_OPTIONS)(function)


int64: Any = np.int64
"""Signed 64 bits; type checkers see an int. Compiled code must convert with it wherever a narrower field is part of a sum."""
