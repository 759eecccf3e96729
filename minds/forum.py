"""The forum: short posts that minds write to each other (StockAgent, arXiv 2407.18957)."""

from dataclasses import dataclass

POSTS_MAX = 100_000
"""Posts kept in memory; minds read the newest."""


@dataclass(frozen=True)
class Post:
    """A post at `time_ns` of the exchange's clock."""

    time_ns: int
    author: str
    text: str


class Forum:
    """Posts in order of arrival. A mind sees a post at its first decision after the post's time."""

    def __init__(self) -> None:
        self._posts: list[Post] = []

    def __len__(self) -> int:
        return len(self._posts)

    def post(self, time_ns: int, author: str, text: str) -> None:
        """Publishes a post; posts beyond POSTS_MAX are dropped."""
        if len(self._posts) < POSTS_MAX:
            self._posts.append(Post(time_ns, author, text))

    def unread(self, first: int, before_ns: int, reader: str) -> tuple[list[Post], int]:
        """(posts of others from number `first` on that were written before `before_ns`, number of the next post).

        Posts with the same time are sorted by author, so that in lockstep their order does not depend on which model answered first.
        """
        end = first
        while end < len(self._posts) and self._posts[end].time_ns < before_ns:
            end += 1
        found = [post for post in self._posts[first:end] if post.author != reader]
        return sorted(found, key=lambda post: (post.time_ns, post.author)), end
