"""The program of one process of a launch's fleets: main() with the argument TURNS.json, in a fork of emplace.runtime.agent."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from emplace.executor.asynchronous.job import (
    FleetRankReport,
    FleetTurns,
    HeldOutQuality,
    Role,
    StalenessSum,
    fleet_folder,
    fleet_report_path,
)
from emplace.executor.asynchronous.links import Server, connect
from emplace.executor.asynchronous.model import DenseModel, Tables
from emplace.executor.asynchronous.progress import Marks, Rounds
from emplace.executor.asynchronous.servers import serve_centre, serve_tables
from emplace.executor.asynchronous.settings import Averaging
from emplace.executor.asynchronous.shadow import cast_shadow
from emplace.executor.asynchronous.thread import Thread
from emplace.placement.reading import read_file
from emplace.runtime.allocator import keep_freed_memory
from emplace.runtime.files import write_whole
from emplace.runtime.rank_process import full_disk_as_exit_code, leave, tell_phase
from emplace.runtime.temporary import in_use


def main() -> None:
    with full_disk_as_exit_code():
        _train_recorded()


@record
def _train_recorded() -> None:
    path = Path(sys.argv[1])
    rank = int(os.environ["RANK"])
    with in_use(path.parent):
        turns = read_file(path, FleetTurns)
        fleet, role, index = turns.roles[rank]
        os.chdir(fleet_folder(path.parent, fleet))  # sockets have short names there
        tell_phase(path.parent, rank, f"training as {role} {index}")
        keep_freed_memory()
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        threads = dist.new_group(turns.thread_ranks)
        peers = [dist.new_group(turns.client_ranks(number)) for number in range(len(turns.fleets))]
        gc.freeze()
        report = _Process(turns, fleet, index, threads, peers[fleet]).run(role)
        write_whole(fleet_report_path(path.parent, rank), report.canonical_json())
        dist.barrier()  # nobody's connections close while another one needs them
    leave()


class _Process:
    """One process of a fleet, in any role. All meet once before servers accept, and once before the first round; threads after each turn."""

    def __init__(
        self, turns: FleetTurns, fleet: int, index: int, threads: dist.ProcessGroup | None, peers: dist.ProcessGroup | None
    ) -> None:
        self._turns, self._fleet, self._job, self._index = turns, fleet, turns.fleets[fleet], index
        self._threads, self._peers = threads, peers
        self._marks, self._staleness = Marks(), StalenessSum()

    def run(self, role: Role) -> FleetRankReport:
        """Train or serve until all is done; what this process saw."""
        losses: tuple[float, ...] = ()
        quality = None
        match role:
            case Role.SPARSE_SERVER:
                self._serve_tables()
            case Role.DENSE_SERVER:
                self._serve_centre()
            case Role.THREAD:
                losses, quality = self._train()
            case Role.SHADOW:
                self._cast_shadow()
        return FleetRankReport(
            role=role,
            index=self._index,
            turns=tuple(map(tuple, self._marks.turns)),
            losses=losses,
            staleness=self._staleness.result(),
            updates=self._staleness.updates,
            quality=quality,
        )

    def _serve_tables(self) -> None:
        job = self._job
        server = Server(Role.SPARSE_SERVER, self._index, job.settings.customers)
        tables = Tables(job.settings, job.tables_of(self._index))
        self._accept(server)
        serve_tables(server, tables, self._staleness, self._marks)

    def _serve_centre(self) -> None:
        settings, values = self._job.settings, DenseModel(self._job.settings, None).values
        shadows = settings.averaging is Averaging.SHADOWSYNC
        # Of threads that never average, the first one asks for the centre at the end.
        server = Server(Role.DENSE_SERVER, self._index, settings.trainers + 1 if shadows else settings.customers)
        centre = values[self._job.parameters_of(self._index, len(values))].copy()
        self._accept(server)
        serve_centre(server, centre, settings.elasticity, self._staleness, self._marks)

    def _accept(self, server: Server) -> None:
        dist.barrier()
        server.accept()
        dist.barrier()
        self._marks.begin()

    def _train(self) -> tuple[tuple[float, ...], HeldOutQuality | None]:
        job, settings, is_first = self._job, self._job.settings, self._index == 0
        examples = settings.task.examples(job.batch * job.rounds, self._index)
        trainer = self._index // settings.threads
        model, rounds = self._shared(trainer)
        in_round = settings.averaging is Averaging.EASGD and not job.synchronous
        dist.barrier()
        sparse = connect(Role.SPARSE_SERVER, settings.sparse_servers)
        asks_dense = in_round or (is_first and not job.synchronous)
        dense = connect(Role.DENSE_SERVER, settings.dense_servers if asks_dense else 0)
        thread = Thread(job, self._index, model, rounds, sparse, dense, self._peers if job.synchronous else None, staleness=self._staleness)
        dist.barrier()
        rounds_of_turns = iter(self._turns.rounds_of(self._fleet))
        for fleet in self._turns.order:
            if fleet == self._fleet:
                thread.train(next(rounds_of_turns), examples, in_round, self._marks)
            dist.barrier(self._threads)
        dist.barrier(self._peers)  # all rounds are done, and all averages
        quality = thread.quality(settings.task.held_out()) if is_first else None
        for link in sparse + dense:
            link.close()
        return tuple(thread.losses), quality

    def _cast_shadow(self) -> None:
        model, rounds = self._shared(self._index)
        dist.barrier()
        servers = connect(Role.DENSE_SERVER, self._job.settings.dense_servers)
        dist.barrier()
        cast_shadow(self._job, self._turns.rounds_of(self._fleet), model, rounds, servers, self._marks)
        dist.barrier(self._peers)
        for link in servers:
            link.close()

    def _shared(self, trainer: int) -> tuple[DenseModel, Rounds]:
        """The memory of a trainer; of synchronous threads each has its own, which stay alike."""
        job = self._job
        shared = None if job.synchronous else Path(f"dense-{trainer}")
        return DenseModel(job.settings, shared), Rounds(Path(f"rounds-{trainer}"), job.settings.threads)
