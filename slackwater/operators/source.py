"""The source: lets pages in, learns from each how far time has passed, and says so when asked (S1, S3).

It is what holds time back for a whole plan: no window closes before the source's punctuation has come by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from slackwater.events import decisions_of
from slackwater.figures import Figures
from slackwater.operators.batching import Batching, SinglePages, needs_at
from slackwater.operators.label import Label
from slackwater.operators.large_columns import Column, LargeColumns, columns_of
from slackwater.operators.operator import MAIN, Emit, Input, State, Unary, Wanted
from slackwater.operators.page import Page
from slackwater.operators.policy_port import PolicyPort, Subscription
from slackwater.operators.prod import Prod
from slackwater.operators.signal_reader import SignalReader
from slackwater.operators.source_values import SourceValues
from slackwater.progress.ahead import AheadGuard
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.histogram import LatenessHistogram
from slackwater.progress.log_ends import LogEnds, ReadLog
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.restorable import parted
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.progress.time_kinds import LatentTracker, StampTracker
from slackwater.progress.window_losses import WindowLosses


class Source(Unary):
    """Runs a stream's disorder policies: the stream's own for port MAIN, and those of queries that bring their own.

    What has arrived with a page is known only when the page has been worked on; the heartbeat that follows from
    it is sent behind it, on demand or with the next page.
    """

    def __init__(
        self,
        label: str,
        tracker: Tracker,
        needs: frozenset[str] = frozenset(),
        batching: Batching | None = None,
        ahead: int | None = None,
        policy: str = "",
        signals: SignalReader | None = None,
    ) -> None:
        super().__init__(label)
        self._guard, self._batching, self._signals = AheadGuard(ahead), batching or SinglePages(), signals
        self._ports = {MAIN: PolicyPort(tracker)}
        self._policy = policy  # The policy in words: a port of another policy must not take over its state.
        self._needs = self.asked = needs
        self._columns = LargeColumns()
        self._kept: dict[str, dict[str, object]] = {}
        """What the journal holds of policies whose queries have not come back yet."""
        self._under_way: list[Page] = []
        """Pages that have been sent and not been worked on."""
        self._to_come_back: set[int] = set()
        """Numbers of those that were under way when the process ended."""
        self._waiting: list[int] = []
        """When the pages were admitted that have not been sent yet."""
        self._listeners: dict[str, Source] = {}
        self._told_by: dict[str, Source] = {}
        """Sources that have bounds with this one, to tell and to hear from; with bounds, it is one of them."""
        self._heard: list[tuple[Label, Arrival]] = []
        """What came to them, while pages of this one may wait."""
        self._announced = self._pages = self._rows = self._missing = self._behind = self._takes = 0
        # A time for which the process was away is no silence of the stream: policies do not see it pass.
        self._away, self._seen, self._quiet_since = 0, MIN_TICK, MIN_TICK
        """When the last row came, by that clock; before the first row, when the stream began to be read."""
        self._highest: int | None = None
        self._unsaid = True
        """Whether it may have learned something that it has not said: for a commit, or before a restart."""
        self._lateness, self._log = LatenessHistogram(), ReadLog()

    def follow(
        self, query: str, port: str, tracker: Tracker, reader: Subscription, bound: Mapping[str, str] | None = None
    ) -> None:
        """A query reads by this port; equal policies are computed once, so the port may be there already.

        `bound` names the streams that have bounds with each other, by the labels of their sources.
        """
        if port not in self._ports:
            self._ports[port] = PolicyPort(tracker)
            if port in self._kept:
                self._ports[port].tracker.restore(self._kept.pop(port))
        self._ports[port].followers[query, reader.reporter] = reader
        self._ports[port].bound = dict(bound or {})
        self._publish_asked()

    def unsubscribe(self, query: str) -> None:
        """A query is gone, and with its last query a policy that is not the stream's own."""
        for port, policy_port in list(self._ports.items()):
            policy_port.followers = {key: f for key, f in policy_port.followers.items() if key[0] != query}
            if port != MAIN and not policy_port.followers:
                del self._ports[port]
        self._publish_asked()

    def _publish_asked(self) -> None:
        followers = (f for policy_port in self._ports.values() for f in policy_port.followers.values())
        self.asked = self._needs.union(*(follower.needs for follower in followers))

    def listen(self, sources: Mapping[str, Source]) -> None:
        """Be told of what comes to sources that have bounds with this one."""
        for label in {label for policy_port in self._ports.values() for label in policy_port.bound}:
            if label in sources:
                sources[label]._listeners[self.label] = self
                self._told_by[label] = sources[label]

    @property
    def hears_from(self) -> Set[str]:
        """The sources that it listens to."""
        return self._told_by.keys()

    def _hear_bound(self, now: int) -> bool:
        """Let bounds between streams learn what came before now, and before its own pages that wait, if any did."""
        before = min([now, *self._waiting[:1]])
        earlier = [(label, arrival) for label, arrival in self._heard if arrival.at < before]
        self._heard = [(label, arrival) for label, arrival in self._heard if arrival.at >= before]
        for label, arrival in sorted(earlier, key=lambda heard: heard[1].at):
            for policy_port in [p for p in self._ports.values() if label in p.bound]:
                told = replace(arrival, at=arrival.at - policy_port.away(self._away))
                policy_port.tracker.arrive_on(policy_port.bound[label], told)
        return bool(earlier)

    def drop_pending(self, waiting: Set[int], now: int) -> None:
        """Nobody will read the other pages whose rows are not known yet: they count as empty."""
        for page in [p for p in self._under_way if self.pages.arrival(p) is None and p.number not in waiting]:
            self._under_way.remove(page)
            self.pages.release(page)
            for policy_port in self._ports.values():
                policy_port.tracker.arrive(Arrival(0, 0, None, None, now - policy_port.away(self._away)))

    def on_restored_page(self, page: Page) -> None:
        """A page waits somewhere since before a restart: if it was under way, there is still something to learn."""
        if page.number in self._to_come_back:
            self._to_come_back.remove(page.number)
            self._send(page)

    def prepare(self, page: Page, now: int) -> Page:
        """Stamp it, where time is internal, and say what will be asked of it."""
        tracker = self._ports[MAIN].tracker
        if isinstance(tracker, StampTracker):
            page = page.stamped(tracker.stamp(now))
        self._announced += 1
        self._waiting.append(now)
        return page.admitted(self.label, now, needs_at(self.asked, self._announced - 1))

    def _send(self, page: Page) -> None:
        """A page is under way until it has been worked on."""
        self.pages.hold(page)
        self.pages.guards[self.label] = self._guard
        self._under_way.append(page)

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Take one element, or some pages as one."""
        if isinstance(inputs[0].peek(), (Punctuation, Prod)):
            super().run(inputs, emit)
            return
        page, pages = self._batching.take(inputs[0], self.pages)
        if pages > 1:
            # Else one page of which a sketch is asked would have the rows of all others sketched too.
            page = replace(page, needs=needs_at(self.asked, self._takes))
        self._takes, self._pages = self._takes + 1, self._pages + pages
        self._hear_bound(page.at)
        del self._waiting[:pages]
        self.on_page(page, emit)

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send a page on, behind what the pages before it have taught."""
        self._learn()
        self._log.empty = False
        for policy_port in self._ports.values():
            policy_port.idle = False
        self._say(emit)
        self._send(page)
        self._lateness.admit(page.number, self._highest)
        for port, policy_port in self._ports.items():
            policy_port.tracker.admit(page.number)
            emit(page, port)
        for prod in [] if self._signals is None else self._signals.prods(self.pages, page):
            emit(prod)

    def output(self, times: Sequence[Punctuation]) -> None:
        """It says by itself how far time has come, by each policy."""

    def due(self, now: int, wanted: Wanted) -> bool:
        """Whether a page has been worked on, or the clock has reached what a policy or a demand waits for."""
        heard, wakes = self._hear_bound(now), (self.wake_at(), self.wake_for(wanted))
        in_time = heard or any(t is not None and t <= now for t in wakes)
        return in_time or any(self.pages.arrival(p) is not None for p in self._under_way)

    @property
    def watches_clock(self) -> bool:
        """When the clock has moved, it says what pages have taught meanwhile."""
        return True

    def tick(self, now: int, emit: Emit) -> None:
        """Say what pages have taught, whether somebody waits for it or not."""
        self._begin(now)
        self._hear_bound(now)
        self._learn()
        if self._unsaid:
            self._say(emit)

    def enable(self, now: int, emit: Emit, wanted: Wanted) -> None:
        """An enabling timestamp: all that arrivals and the clock allow now, if that is as far as somebody wants."""
        self._learn()
        self._hear_bound(now)
        self._begin(now)
        self._seen = max(self._seen, now)
        for policy_port in self._ports.values():
            idle_at = self._idle_at(policy_port)
            policy_port.idle = self._log.empty or (idle_at is not None and now >= idle_at)
            if policy_port.moves(now - policy_port.away(self._away), wanted):
                policy_port.tracker.tick(now - policy_port.away(self._away))
        self._say(emit)
        if self._highest is None or any(p.tracker.asks_log for p in self._ports.values()):
            self._log.ask(self.pages.logs.get(self.label))

    def read_to(self, ends: LogEnds) -> None:
        """The log has said how far it has been read; the next demand finds what follows."""
        highest = self._log.answer(ends)
        for policy_port in self._ports.values():
            policy_port.tracker.read_to(ends, highest)

    def _begin(self, now: int) -> None:
        """The stream is read: what has never sent anything counts as silent from now on."""
        if self._quiet_since == MIN_TICK:
            self._quiet_since = now - self._away

    def _idle_at(self, policy_port: PolicyPort) -> int | None:
        """When the stream is idle by a policy, if nothing comes until then."""
        with_others = policy_port.bound if policy_port.tracker.silent_with_others else ()
        streams = [self, *(self._told_by[label] for label in with_others if label in self._told_by)]
        return policy_port.idle_at([stream._silent_since for stream in streams])

    @property
    def _silent_since(self) -> int | None:
        """When its last row came; None before it is read, and while pages of it wait."""
        busy = self._quiet_since == MIN_TICK or self._under_way or self._waiting
        return None if busy else self._quiet_since + self._away

    def resume(self, now: int, since: int | None = None) -> None:
        """The process is back: what it was away for does not count as silence."""
        if (since := max(self._seen, MIN_TICK if since is None else since)) > MIN_TICK:
            self._away += max(0, now - since)
        self._seen = max(self._seen, now)

    def on_report(self, report: WindowLosses) -> None:
        """A query tells what it made of a page: its policy learns from it."""
        mine = [p for p in self._ports.values() if any(f.reporter == report.query for f in p.followers.values())]
        for policy_port in mine or [self._ports[MAIN]]:
            policy_port.tracker.hear(report)

    @property
    def highest(self) -> int | None:
        """The largest time of all pages that have been worked on."""
        self._learn()
        return self._highest

    def end(self, emit: Emit, for_good: bool, last: int | None = None) -> None:
        """Close every window; if more rows may come, no window that has none yet."""
        self._learn()
        for port, policy_port in self._ports.items():
            if for_good:
                emit(Punctuation.END, port)
            elif last is not None:
                # Rows of latent time have none yet: they count from the last stamp.
                top = 0 if isinstance(policy_port.tracker, LatentTracker) else last
                emit(Punctuation(Heartbeat(min(top + policy_port.reach, MAX_TICK - 1))), port)

    def wake_at(self) -> int | None:
        """When a policy's timeout, if any, runs out, or one of its promises falls due."""
        ports = self._ports.values()
        times = [t + p.away(self._away) for p in ports if (t := p.tracker.wake_at()) is not None]
        times += [t for p in ports if not p.idle and (t := self._idle_at(p)) is not None]
        return min([*times, *(arrival.at + 1 for _, arrival in self._heard)], default=None)

    def wake_for(self, wanted: Wanted) -> int | None:
        """When the clock alone brings a policy's heartbeat as far as it is wanted."""
        times = [t + p.away(self._away) for p in self._ports.values() if (t := p.reaches(wanted)) is not None]
        return min(times, default=None)

    def _learn(self) -> None:
        """Learn from pages that have been worked on."""
        waiting, before = [], len(self._under_way)
        for page in self._under_way:
            if (arrival := self.pages.arrival(page)) is None:
                waiting.append(page)
                continue
            if self._signals is not None:
                arrival = self._signals.read(self.pages, page, arrival)
            self._count(page, arrival)
            self.pages.release(page)
            if arrival.rows:
                self._quiet_since = max(self._quiet_since, arrival.at - self._away)
            for listener in self._listeners.values():
                listener._heard.append((self.label, arrival))
            with decisions_of(self.label):
                for policy_port in self._ports.values():
                    away = policy_port.away(self._away)
                    policy_port.tracker.arrive(replace(arrival, at=arrival.at - away) if away else arrival)
        if before and not waiting:
            self._log.learn(self._under_way[-1].number, self._highest)
        self._under_way, self._unsaid = waiting, self._unsaid or len(waiting) < before

    def _count(self, page: Page, arrival: Arrival) -> None:
        self._rows += arrival.rows
        self._missing += arrival.missing - arrival.ahead
        if not isinstance(self._ports[MAIN].tracker, LatentTracker):
            self._lateness.arrive(page.number, arrival)
        if senders := [p for p in self._ports.values() if p.tracker.promised_by_sender]:
            self._behind += senders[0].ungrammatical(self.pages, page, arrival)
        if arrival.highest is not None and (self._highest is None or arrival.highest > self._highest):
            self._highest = arrival.highest

    def _say(self, emit: Emit) -> None:
        self._unsaid = False
        for port, policy_port in self._ports.items():
            emit(policy_port.now(), port)

    def state(self, whole: bool) -> State:
        """Policy states and counts; of columns with a value for each source, what has changed."""
        self._learn()
        policies = {**self._kept, **{port: p.tracker.state() for port, p in self._ports.items()}}
        columns: dict[str, Column] = {}
        for port, kept in policies.items():
            policies[port], large = parted(kept)
            columns.update({f"{port}:{name}": values for name, values in large.items()})
        return State(
            SourceValues(
                policy=self._policy,
                policies=policies,
                columns=list(columns),
                counts=(self._announced, self._pages, self._rows, self._missing, self._behind),
                guard=self._guard.state(),
                clock=(self._away, self._seen, self._quiet_since),
                highest=self._highest,
                waiting=self._waiting,
                under_way=sorted({page.number for page in self._under_way} | self._to_come_back),
                lateness=self._lateness.state(),
                read=self._log.last,
                heard=[(label.to_json(), arrival.saved()) for label, arrival in self._heard],
            ),
            self._columns.tables(columns, whole),
            whole,
        )

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state."""
        values = states[-1].read(SourceValues)
        self._kept = dict(values["policies"])
        for key, column in columns_of(states, values.get("columns")).items():
            port, _, name = key.rpartition(":")
            self._kept[port][name] = column
        self._kept = {p: k for p, k in self._kept.items() if p != MAIN or values["policy"] == self._policy}
        for port, policy_port in self._ports.items():
            if port in self._kept:
                policy_port.tracker.restore(self._kept.pop(port))
        self._announced, self._pages, self._rows, self._missing, self._behind = values["counts"]
        self._guard.restore(values["guard"])
        self._away, self._seen, self._quiet_since = values["clock"]
        self._highest = values["highest"]
        self._waiting, self._to_come_back = list(values["waiting"]), set(values["under_way"])
        self._lateness.restore(values["lateness"])
        self._log.learn(values.get("read"), self._highest)
        self._heard = [(Label.from_json(label), Arrival.load(saved)) for label, saved in values["heard"]]

    def detach(self) -> None:
        """Nobody reads it any more, so it stops listening to other streams."""
        for other in self._told_by.values():
            other._listeners.pop(self.label, None)
        self.pages.guards.pop(self.label, None)
        for page in self._under_way:
            self.pages.release(page)

    def metrics(self) -> Figures:
        """Counts, how late rows come, and what the policies say; heartbeats are the engine's."""
        slowest = {port: p.slowest() for port, p in self._ports.items() if p.by_source}
        return {
            "highest": self._highest,
            "heard": None if self._quiet_since == MIN_TICK else self._quiet_since + self._away,
            "pages": self._pages,
            **self._batching.metrics(),
            # A page's rows are counted by the work on it, so its run does not know them.
            **dict.fromkeys(("rows", "rows_in", "rows_out"), self._rows),
            "missing_time": self._missing,
            "far_ahead": self._guard.rows,
            "idle": self._ports[MAIN].idle,
            "lateness": self._lateness.quantiles(),
            "lateness_shares": self._lateness.shares(),
            "policies": {port: p.tracker.metrics() for port, p in self._ports.items()},
            **({"slowest_sources": slowest} if any(slowest.values()) else {}),
            **({"ungrammatical_rows": self._behind} if self._ports[MAIN].tracker.promised_by_sender else {}),
        }
