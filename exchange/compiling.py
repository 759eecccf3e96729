"""How the kernel's functions are compiled.

Without numba's reference counting (nothing is allocated while matching, so there is nothing to count) and with the hot
path inlined: a call would copy the state's two dozen array headers. Together 1 M to 11 M messages a second.

What is inlined lives on in the cached code of others, and numba's cache looks only at the file of a function itself. So
what is cached here carries a checksum of all that it may be made of: after an update it is compiled anew.

numba makes optimized machine code of each function, and then again of its copy in each of its callers. Here that is done once, for what
is called from outside (a Whole); what only others call is handed on to them as it is (a Part). And a Part is compiled once for each kind
of arguments, not, as numba would, once for each constant that it is called with.
"""

import os
import re
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numba import njit, types
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

import serl

CONSTANTS = ("records.py", "state.py", "constants.py")
"""Files without compiled functions whose constants are part of them."""

COMPILED = re.compile(rb"^(?:from|import) (?:numba|serl\.exchange\.compiling)\b", re.MULTILINE)
"""What a file with compiled functions has."""

outside: set[str] = set()
"""Paths of files that are not serl's and whose compiled functions have serl's inlined into them: cached as serl's own."""


@cache
def _sources() -> int:
    """A checksum over serl's source files that have to do with compiled code."""
    checksum = 0
    for folder, folders, names in os.walk(os.path.dirname(serl.__file__), followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                if name in CONSTANTS or COMPILED.search(text):
                    checksum = zlib.crc32(text, checksum)
    return checksum


def _of_serl(locator: type[Any]) -> type[Any]:
    """A numba cache locator for serl's own files and those `outside`: where `locator` keeps the cache, valid while no source changed."""

    class SerlLocator(locator):  # type: ignore[misc]
        def get_source_stamp(self) -> Any:
            return super().get_source_stamp(), _sources()

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            path = os.path.abspath(py_file)
            ours = path in outside or path.startswith(os.path.dirname(serl.__file__) + os.sep)
            return super().from_function(py_func, py_file) if ours else None

    return SerlLocator


_known = caching.CompileResultCacheImpl._locator_classes
_known[:0] = [_of_serl(locator) for locator in _known]


class Whole(JITCodeLibrary):  # type: ignore[misc]
    """Code that is called from outside: optimized with all that it calls, of which it keeps only what it needs."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                # so that arguments nobody reads, such as most arrays of a State, are not passed
                function.linkage = "internal"
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)


class Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that lives on in the code of others only: neither optimized nor made machine code of its own."""

    _final_module: Any

    def finalize(self) -> None:
        """Links what it calls behind it; what is left to run is the environment that numba fills in for each function."""
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


class _Compiler(Compiler):  # type: ignore[misc]
    """numba's own, into a library of this class."""

    library: type[JITCodeLibrary]

    def compile_extra(self, func: Any) -> Any:
        """Compiles a Python function."""
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class WholeCompiler(_Compiler):
    """For what is called from outside."""

    library = Whole


class PartCompiler(_Compiler):
    """For what only compiled code calls."""

    library = Part


_OPTIONS = {"_nrt": False, "error_model": "numpy"}
WHOLE = {**_OPTIONS, "pipeline_class": WholeCompiler}
"""Options of numba's njit and cfunc for functions that are called from outside."""


def _without_constants(function: Any) -> Any:
    """The same function of njit, compiled by the types of its arguments, whatever their values: the optimizer sees to those."""
    template = function.get_call_template

    def plain_template(arguments: Any, named: Any) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in named.items()}
        return template(tuple(map(types.unliteral, arguments)), plain)

    function.get_call_template = plain_template
    return function


def compiled(function: Any) -> Any:
    """Decorates a function that Python calls."""
    return _without_constants(njit(cache=True, **WHOLE)(function))


def _part(**options: Any) -> Callable[[Any], Any]:
    """A decorator of functions that compiled code calls: cached in it. Python may call them too: then they are `compiled` as well."""

    def decorate(function: Any) -> Any:
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        part = _without_constants(njit(pipeline_class=PartCompiler, **_OPTIONS, **wrappers, **options)(function))

        @cache
        def whole() -> Any:
            return compiled(function)

        def for_python(*arguments: Any, **named: Any) -> Any:
            entry = whole()._compile_for_args(*arguments, **named)
            for kinds, result in whole().overloads.items():
                part._insert([kind._code for kind in kinds], result.entry_point, result.objectmode)
            return entry

        def add(result: Any) -> None:
            part.overloads[tuple(result.signature.args)] = result  # and not what Python calls

        part._compile_for_args, part.add_overload = for_python, add
        return part

    return decorate


inner = _part()
inlined = _part(forceinline=True)
"""For functions that compiled code calls: a call would copy the headers of a State's arrays."""

int64: Any = np.int64
"""Signed 64 bits, to type checkers an int: what compiled code must say wherever a narrower field takes part in sums."""
