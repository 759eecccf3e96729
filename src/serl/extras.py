"""Optional packages: which extras of serl bring what is missing, from the metadata of serl itself."""

from importlib import metadata
from importlib.util import find_spec
from traceback import walk_tb
from typing import TYPE_CHECKING

from serl.exchange.errors import SerlError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OF_DEVELOPERS = ("dev", "docs")


class MissingPackageError(SerlError, ImportError):
    """A package that serl can do without is needed and not installed; the text says what for, and how to install it."""


def require(purpose: str, *modules: str) -> None:
    """MissingPackageError unless all of these modules are installed. For what is imported only when other work is under way, or done by a
    child; what is imported at once needs no such call, see `missing_package`."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingPackageError(_text(missing, purpose, extras_of(missing)))


def missing_package(error: ModuleNotFoundError, purpose: str) -> MissingPackageError | None:
    """What an import that failed lacks; None if no extra brings it, or it is there and the import is wrong."""
    name = (error.name or "").partition(".")[0]
    extras = extras_of([name], _importer(error))
    if not extras or find_spec(name) is not None:
        return None
    return MissingPackageError(_text([name], purpose, extras))


def _importer(error: ModuleNotFoundError) -> str:
    """The extra that is named like a package of serl that the import came from, as serl.researcher is; else nothing. What else is
    imported there comes with it."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__)]
    named = [part for module in modules if module.startswith("serl.") for part in module.split(".")]
    return next((part for part in named if part in extras_of_users()), "")


def extras_of(modules: list[str], preferred: str = "") -> list[str]:
    """The fewest extras that bring all of these modules, of equals the preferred one or the smallest; [""] where serl itself does, empty if
    none do."""
    from packaging.utils import canonicalize_name

    left = {
        canonicalize_name(name) for name in modules
    }  # as distributions are called; those of serl have the names of their modules
    brought = {
        extra: {canonicalize_name(one.name) for one in requirements(extra)} for extra in ("", *extras_of_users())
    }
    chosen = []
    while left:
        best = max(brought, key=lambda extra: (len(left & brought[extra]), extra == preferred, -len(brought[extra])))
        if not left & brought[best]:
            return []
        chosen.append(best)
        left -= brought[best]
    return sorted(chosen)


def extras_of_users() -> list[str]:
    """Names of the extras, but for those of developers."""
    try:
        extras = metadata.metadata("serl").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []
    return sorted(set(extras) - set(OF_DEVELOPERS))


def requirements(extra: str = "") -> "list[Requirement]":
    """What an extra requires on this machine beside what serl requires by itself, or that; nothing where serl is not installed."""
    from packaging.requirements import Requirement

    try:
        listed = [Requirement(text) for text in metadata.requires("serl") or ()]
    except metadata.PackageNotFoundError:
        return []
    own = [one for one in listed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return own if not extra else [one for one in listed if one not in own and _applies(one, extra)]


def _applies(requirement: "Requirement", extra: str) -> bool:
    return requirement.marker is not None and requirement.marker.evaluate({"extra": extra})


def _text(missing: list[str], purpose: str, extras: list[str]) -> str:
    wanted = ",".join(filter(None, extras))
    package = f"'serl[{wanted}]'" if wanted else "serl" if extras else " ".join(missing)
    one = len(missing) == 1
    return (
        f"expected the package{'' if one else 's'} {', '.join(missing)} for {purpose}, got none{'' if one else ' of them'}; "
        f"install {'it' if one else 'them'} with: pip install {package}"
    )
