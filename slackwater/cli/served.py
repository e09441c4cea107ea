"""The live page of a command: served while it works, and afterwards until the user has seen enough."""

from __future__ import annotations

import threading
from collections.abc import Callable

from slackwater.cli.follow import interrupt
from slackwater.cli.show import say
from slackwater.spark.api.session import Session

#: Takes a session, and gives a function to be called when its work is done.
Watch = Callable[[Session], Callable[[], None]]


def served(port: int, host: str, until: Callable[[], threading.Event] = interrupt) -> Watch:
    """Serve the page of a session; at the end of the work, wait until the event is set."""

    def stay() -> None:
        stop = until()
        say("the work is done; the page stays until Ctrl-C")
        stop.wait()

    def watch(session: Session) -> Callable[[], None]:
        say(f"the live page is at {session.serve(port, host).url}")
        return stay

    return watch
