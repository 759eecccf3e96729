"""How many files and connections this process may have open."""

import resource


def raise_open_files(wanted: int) -> int | None:
    """Lets the process open this many files, as far as the system permits. Returns how many it may open; None: any number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return None if soft == resource.RLIM_INFINITY else soft
