"""Kinds of streams that are held out: written last, not looked at while choosing anything.

`experiments/early.py --held-out` judges early answers on them, `benchmarks/progress.py --held-out` policies.
Choose nothing on them. Whoever has chosen something on one of them writes another one. What docs/progress.md says
of the stretch was found on `tunnels`, so they are no longer held out for `drop_ratio`. What early answers do at
each time of the day was chosen on `two_populations`, with other seeds; `three_populations` was written after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.lab.arrivals import SECOND
from experiments.lab.early_kinds import SLIDE, Random
from experiments.lab.early_streams import START, Case, made, spread_out

VEHICLES = 24
#: Seconds in a tunnel, and km/h that may be driven there.
SHORTEST, LONGEST, LIMIT = 10, 45, 80
MINUTES_OF_A_DAY = 1440


def tunnels(windows: int, rng: Random) -> Case:
    """24 vehicles send their speed; what a vehicle measures in a tunnel comes all at once when it has left it.

    Each is in a tunnel for 10 to 45 seconds, about each five minutes, and drives at 80 km/h at most there.
    """
    drives = [_drive(windows * SLIDE, rng) for _ in range(VEHICLES)]
    names = np.repeat(np.arange(VEHICLES), [len(times) for times, _, _ in drives])
    times, speeds, delays = (np.concatenate(part) for part in zip(*drives, strict=True))
    return made(times, speeds, delays, names, slack="50 seconds")


def _drive(seconds: int, rng: Random) -> tuple[Any, Any, Any]:
    """Times, speeds and delays of one vehicle's rows: 0.5 to 3 rows a second."""
    times = spread_out(np.full(seconds, rng.uniform(0.5, 3)), rng)
    left = _leaves_tunnel(times, seconds, rng)
    inside = left > 0
    sway = np.zeros(seconds)
    for second in range(1, seconds):
        sway[second] = 0.98 * sway[second - 1] + rng.normal(0, 1.5)
    speeds = rng.uniform(60, 110) + sway[times.astype(np.int64)]
    speeds = np.where(inside, np.minimum(speeds, LIMIT), speeds) + rng.normal(0, 3, len(times))
    return times, speeds, np.where(inside, left - times, rng.exponential(0.5, len(times)).clip(max=4.9))


def _leaves_tunnel(times: Any, seconds: int, rng: Random) -> Any:
    """For rows made in a tunnel the instant at which the vehicle has left it and is online again; else 0."""
    most = seconds // SHORTEST + 1
    lengths = rng.uniform(SHORTEST, LONGEST, most)
    begins = np.cumsum(60 + rng.exponential(240, most)) + np.cumsum(lengths) - lengths
    online = begins + lengths + rng.uniform(1, 4, most)
    which = np.searchsorted(begins, times, side="right") - 1
    inside = (which >= 0) & (times < (begins + lengths)[which])
    return np.where(inside, online[which], 0.0)


def two_populations(windows: int, rng: Random) -> Case:
    """Shops send sales at once, couriers minutes later; the mix moves over the day and is another at weekends.

    Windows of 30 minutes each 10 minutes: 144 windows a day. Each day has somewhat more or less of both.
    """
    minutes = np.arange(windows * 10)
    shops = spread_out(_shops(minutes) * _of_days(minutes, rng), rng)
    couriers = spread_out(_couriers(minutes) * _of_days(minutes, rng), rng)
    quick = rng.exponential(0.3, len(shops)).clip(max=5)
    slow = rng.lognormal(np.log(4), 0.8, len(couriers)).clip(max=39)
    sales = np.concatenate([rng.gamma(2, 15, len(shops)), rng.gamma(3, 15, len(couriers))])
    how = {"range": "30 minutes", "slide": "10 minutes", "slack": "40 minutes", "page": 150 * SECOND}
    return made(np.concatenate([shops, couriers]) * 60, sales, np.concatenate([quick, slow]) * 60, **how)


def three_populations(windows: int, rng: Random) -> Case:
    """Phones send at once, vans minutes later, and branch offices all of ten minutes together; offices close early.

    Windows of 30 minutes each 10 minutes. Each day has somewhat more or less of each of them.
    """
    minutes = np.arange(windows * 10)
    work = np.where(_weekend(minutes), 0.1, 1.0)
    phones = spread_out((4 + 18 * _bump(minutes, at=21, hours=2.5)) * _of_days(minutes, rng), rng)
    calls = _bump(minutes, at=8, hours=1.5) + 0.7 * _bump(minutes, at=16.5, hours=1.5)
    vans = spread_out((1 + 22 * calls * np.where(_weekend(minutes), 0.5, 1.0)) * _of_days(minutes, rng), rng)
    offices = spread_out((0.5 + 20 * _bump(minutes, at=11, hours=2) * work) * _of_days(minutes, rng), rng)
    delays = [
        rng.exponential(0.2, len(phones)).clip(max=5),
        rng.gamma(2, 3.5, len(vans)).clip(max=39),
        (np.ceil(offices / 10) * 10 - offices) + rng.exponential(1, len(offices)).clip(max=10),
    ]
    values = [rng.gamma(1.5, 10, len(phones)), rng.gamma(4, 15, len(vans)), rng.normal(30, 8, len(offices))]
    how = {"range": "30 minutes", "slide": "10 minutes", "slack": "40 minutes", "page": 150 * SECOND}
    times = np.concatenate([phones, vans, offices])
    return made(times * 60, np.concatenate(values), np.concatenate(delays) * 60, **how)


def _shops(minutes: Any) -> Any:
    """Rows a minute: most at one o'clock, at weekends two fifths of it."""
    return (3 + 40 * _bump(minutes, at=13, hours=3)) * np.where(_weekend(minutes), 0.4, 1.0)


def _couriers(minutes: Any) -> Any:
    """Rows a minute: most at seven in the evening; at weekends more, and a second time at noon."""
    evening, noon = _bump(minutes, at=19, hours=2), _bump(minutes, at=12.5, hours=2)
    return 2 + 25 * evening * np.where(_weekend(minutes), 1.5, 1.0) + 20 * noon * _weekend(minutes)


def _bump(minutes: Any, at: float, hours: float) -> Any:
    of_day = (START // (60 * SECOND) + minutes) % MINUTES_OF_A_DAY / 60
    return np.exp(-0.5 * ((of_day - at) / hours) ** 2)


def _weekend(minutes: Any) -> Any:
    """Whether a minute is on a Saturday or Sunday: the epoch began on a Thursday."""
    return ((START // (60 * SECOND) + minutes) // MINUTES_OF_A_DAY + 3) % 7 >= 5


def _of_days(minutes: Any, rng: Random) -> Any:
    days = (START // (60 * SECOND) + minutes) // MINUTES_OF_A_DAY
    return rng.lognormal(0, 0.15, int(days[-1] - days[0]) + 1)[days - days[0]]


HELD_OUT: dict[str, Callable[[int, Random], Case]] = {
    "tunnels": tunnels,
    # 600 windows would be four days without a weekend; 1,800 are twelve with two.
    "two populations": lambda windows, rng: two_populations(3 * windows, rng),
    "three populations": lambda windows, rng: three_populations(3 * windows, rng),
}
