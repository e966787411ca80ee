"""Six workers write, read and delete four records while the network fails at random.

The history of each record is checked separately, because every call concerns one record. A call
of unknown outcome may take effect until a later call on its record has returned, and no longer.
JAZZMINE_SEED repeats the schedule of a run that failed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.apis import APIS, Api
from tests.behaviour.samples import conversation
from tests.faults.networks import NETWORKS, Network, is_memory
from tests.faults.schedules import Schedule, seed
from tests.faults.sizes import TOLERANCE, report, size
from tests.faults.workload import TIMEOUT, WORKERS, Run, call_at_once, read_all, recorders

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

SECONDS = size(3, 20)
RUNS = size(1, 4)
SETTLED = 0.5  # after which delivered data has taken effect


def config(name: str, network: Network, schedule: Schedule) -> dict[str, object]:
    config = {**network.through, "timeout": TIMEOUT}
    if name.startswith("postgres"):
        config["pool_max"] = schedule.chance.choice([2, WORKERS])
    return config


async def run(api: Api, name: str, seed: int) -> Run:
    kind: Any = api.WorkingMemoryStore if is_memory(name) else api.MessageStore
    with NETWORKS[name]() as network:
        schedule, workers = Schedule(network.proxy, seed), recorders(name, seed)
        async with await kind.initialize(config(name, network, schedule)) as store:
            if not is_memory(name):
                await store.store_conversation(conversation())
            with schedule:
                await call_at_once(api, workers, store, SECONDS)
            await api.pause(SETTLED)
            await read_all(workers[0], store)
    return Run(name, workers, schedule.faults)


def check(run: Run, api: str, seed: int) -> None:
    print(f"JAZZMINE_SEED={seed}: {len(run.history)} calls, {run.unknown()} of unknown outcome,")
    print(f"{len(run.faults)} faults, the slowest call took {run.slowest():.2f} s")
    run.check()
    assert run.slowest() < TIMEOUT + 0.5 + TOLERANCE, "not back at the deadline"
    report(
        f"schedules, {run.name}, {api}, seed {seed}: {len(run.history)} calls, {run.unknown()} of"
        f" unknown outcome, {len(run.faults)} faults: linearizable"
    )


@pytest.mark.every_combination
@pytest.mark.parametrize("api", APIS, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
async def test_calls_see_one_order_however_the_network_fails(name: str, api: Api) -> None:
    for number in range(RUNS):
        chosen = seed() + number
        check(await run(api, name, chosen), api.name, chosen)
