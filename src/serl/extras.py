"""Optional packages: which extras of serl provide a missing package, according to serl's metadata."""

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from traceback import walk_tb
from typing import TYPE_CHECKING

from serl.exchange.errors import SerlError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DEVELOPER_EXTRAS = ("bench", "dev", "fuzz", "interop")


class MissingPackageError(SerlError, ImportError):
    """An optional package is needed but not installed. The text says what it is needed for and how to install it."""


def require(purpose: str, *modules: str, extra: str = "") -> None:
    """Raises MissingPackageError unless all of these modules are installed. extra: the extra to name if several provide them.

    Use it for imports that happen late or in a child process; `missing_package` covers imports at the start of a command.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingPackageError(_text(missing, purpose, extras_providing(missing, extra)))


def require_day_files() -> None:
    """Raises MissingPackageError unless the packages to read and write day files and files of bars are installed."""
    require("files of days and bars", "pyarrow", extra="history")


def require_reports(*modules: str) -> None:
    """Raises MissingPackageError unless the packages for reports with charts, including reports of day files, are installed, and these modules, which
    are those of `learning`."""
    require("reports", "matplotlib", "pyarrow", *modules, extra="learning" if modules else "reports")


def missing_package(error: ModuleNotFoundError, purpose: str) -> MissingPackageError | None:
    """The error for a failed import. None if no extra provides the module, or if the module is installed, so that the import itself is wrong."""
    name = (error.name or "").partition(".")[0]
    extras = extras_providing([name], _importing_extra(error))
    if not extras or find_spec(name) is not None:
        return None
    return MissingPackageError(_text([name], purpose, extras))


def _importing_extra(error: ModuleNotFoundError) -> str:
    """The extra with the same name as the importing package, such as serl.researcher, because it also provides that package's other imports; "" if
    there is none."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__)]
    parts = [part for module in modules if module.startswith("serl.") for part in module.split(".")]
    return next((part for part in parts if part in user_extras()), "")


def extras_providing(modules: list[str], preferred: str = "") -> list[str]:
    """The smallest number of extras that provide all of these modules; among equals the preferred one, then the one with the fewest packages. [""] if
    serl itself requires the modules, [] if no extras provide them."""
    from packaging.utils import canonicalize_name

    # module names stand for distributions: in serl's requirements the two are the same
    missing = {canonicalize_name(name) for name in modules}
    listed = _requirements()
    provided = {extra: {canonicalize_name(one.name) for one in _of(extra, *listed)} for extra in ("", *user_extras())}
    chosen = []
    while missing:
        best = max(
            provided, key=lambda extra: (len(missing & provided[extra]), extra == preferred, -len(provided[extra]))
        )
        if not missing & provided[best]:
            return []
        chosen.append(best)
        missing -= provided[best]
    return sorted(chosen)


def install_command(*extras: str) -> str:
    """The command that installs serl with these extras, in its clone: serl is not on PyPI, where another project has its name."""
    wanted = ",".join(filter(None, extras))
    return f"pip install -e '.[{wanted}]'" if wanted else "pip install -e ."


def user_extras() -> list[str]:
    """Names of the extras for users, not including those for developers."""
    try:
        extras = metadata.metadata("serl").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []
    return sorted(set(extras) - set(DEVELOPER_EXTRAS))


def requirements(extra: str = "") -> "list[Requirement]":
    """The requirements of an extra on this machine, without serl's own requirements; without an extra, serl's own. [] if serl is not installed."""
    return _of(extra, *_requirements())


def _requirements() -> "tuple[list[Requirement], list[Requirement]]":
    """serl's own requirements on this machine, and all others."""
    try:
        return _parsed(tuple(metadata.requires("serl") or ()))
    except metadata.PackageNotFoundError:
        return [], []


@cache
def _parsed(texts: tuple[str, ...]) -> "tuple[list[Requirement], list[Requirement]]":
    from packaging.requirements import Requirement

    listed = [Requirement(text) for text in texts]
    own = [one for one in listed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return own, [one for one in listed if one not in own]


def _of(extra: str, own: "list[Requirement]", others: "list[Requirement]") -> "list[Requirement]":
    return [one for one in others if _applies(one, extra)] if extra else list(own)


def _applies(requirement: "Requirement", extra: str) -> bool:
    return requirement.marker is not None and requirement.marker.evaluate({"extra": extra})


def _text(missing: list[str], purpose: str, extras: list[str]) -> str:
    place, command = (
        (" in serl's clone", install_command(*extras)) if extras else ("", f"pip install {' '.join(missing)}")
    )
    one = len(missing) == 1
    return (
        f"expected the package{'' if one else 's'} {', '.join(missing)} for {purpose}, got none{'' if one else ' of them'}; "
        f"install {'it' if one else 'them'}{place} with: {command}"
    )
