"""The news of a day, as JSON in the metadata of its file, so that readers that do not know about news ignore it."""

import json
from collections.abc import Mapping, Sequence

from serl.exchange.news import News
from serl.history.errors import NotADayFile

KEY = b"serl.news"


def news_metadata(news: Sequence[News]) -> dict[bytes, bytes]:
    """The metadata that stores this news in a file; empty without news."""
    return {KEY: json.dumps([message.to_json() for message in news]).encode()} if news else {}


def news_of(path: object, metadata: Mapping[bytes, bytes] | None) -> tuple[News, ...]:
    """The news in the metadata of the file `path`. Raises NotADayFile if it is damaged."""
    try:
        return tuple(News.from_json(values) for values in json.loads((metadata or {}).get(KEY, b"[]")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotADayFile(f"{path}: its news is damaged ({error!r}); import it again") from None
