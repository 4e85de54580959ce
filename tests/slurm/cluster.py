"""A Slurm cluster of one node on this machine, without accounting, for as long as it is needed.

Starts munged, slurmctld and slurmd as processes of its own, with their configuration, sockets, logs
and states in a temporary folder, and ends exactly these. Nothing of the system is changed, and a
Slurm that runs already is left alone: the commands find this one by SLURM_CONF.
"""

import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import PitbError, run_main

EXAMPLES = """  python tests/slurm/cluster.py --check
  python tests/slurm/cluster.py sinfo
  python tests/slurm/cluster.py snakemake --profile profiles/slurm"""
DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "scancel", "sinfo", "squeue", "srun")
HOW = "on Debian or Ubuntu, apt install slurmctld slurmd slurm-client munge"
SECONDS = 60
# On Debian daemons stand where the PATH of an ordinary user does not lead.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])

SUBMITTED = re.compile(
    r"submitted with SLURM jobid (\d+) \(log: \S.*?/slurm_logs/rule_(\w+)/", re.DOTALL
)

CONFIGURATION = """\
ClusterName=pitb
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# Neither systemd nor cgroups are needed.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
# The one record of the jobs that ended, since there is no accounting.
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
# A job that takes more memory than it asked for is killed, as on most clusters.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
MinJobAge=300
KillWait=3
ReturnToService=2
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=test Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


def check() -> None:
    """Raise where a program of Slurm or munge is missing, with the way to get it."""
    missing = [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name, path=PATH) is None]
    if missing:
        raise PitbError(f"Slurm is needed, and {', '.join(missing)} is missing; {HOW}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [int(item.getsockname()[1]) for item in sockets]
    for item in sockets:
        item.close()
    return ports


def submitted(printed: str) -> dict[str, str]:
    """The jobs that Snakemake says it handed to Slurm: the name of a rule by the job's id."""
    return dict(SUBMITTED.findall(printed))


class Cluster:
    """The three daemons; a context, with `environment` for the commands that shall find them."""

    def __init__(self, cpus: int | None = None, memory_mb: int | None = None) -> None:
        """Of so many processors and megabytes, by default of all that the machine has."""
        check()
        self.cpus = cpus or os.cpu_count() or 1
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        self.memory_mb = memory_mb or whole * 9 // 10
        # Not below a test's own folder: the path of a socket has some 100 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="pitb-slurm-"))
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SLURM_")},
            "PATH": os.pathsep.join([str(self.folder / "bin"), PATH]),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    def __enter__(self) -> "Cluster":
        """Start it; returns once the node is idle."""
        try:
            self.configure()
            self.start("munged", f"--key-file={self.folder}/munge.key", *self.munge_files())
            self.wait_for("munged", lambda: (self.folder / "munge.socket").exists())
            self.start("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
            self.start("slurmd", "-D", "-f", self.environment["SLURM_CONF"])
            self.wait_for(
                "sinfo to say idle", lambda: self.ask("sinfo", "-h", "-o", "%T") == "idle"
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel what still runs, end the daemons in reverse order, remove the folder."""
        if len(self.daemons) == len(DAEMONS):
            self.ask("scancel", "--user", getpass.getuser())
            ends = time.monotonic() + 15
            while self.ask("squeue", "-h") and time.monotonic() < ends:
                time.sleep(0.2)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def configure(self) -> None:
        """Write slurm.conf and munge's key."""
        self.folder.chmod(0o755)
        for name in ("state", "spool", "bin"):
            (self.folder / name).mkdir()
        # Snakemake's plugin takes SLURM_CONF, as all of its kind, from the srun that it calls in a
        # job. Where slurm.conf is in its ordinary place that does no harm.
        srun = self.folder / "bin/srun"
        conf = self.environment["SLURM_CONF"]
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        controller_port, node_port = free_ports(2)
        text = CONFIGURATION.format(
            folder=self.folder,
            node=socket.gethostname().partition(".")[0],
            user=getpass.getuser(),
            controller_port=controller_port,
            node_port=node_port,
            cpus=self.cpus,
            memory=self.memory_mb,
        )
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")

    def munge_files(self) -> list[str]:
        """munged's options; in the foreground, also below a folder that others may write to."""
        names = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        files = [f"--{name}={self.folder}/munge.{suffix}" for name, suffix in names.items()]
        return ["--foreground", "--force", *files]

    def start(self, name: str, *arguments: str) -> None:
        """Start a daemon; what it says goes to a file of its own."""
        program = shutil.which(name, path=PATH)
        assert program is not None
        with (self.folder / f"{name}.out").open("wb") as out:
            self.daemons.append(
                subprocess.Popen(
                    [program, *arguments],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                )
            )

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints, stripped; empty where it fails."""
        ended = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=30
        )
        return ended.stdout.strip() if ended.returncode == 0 else ""

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds; raises what the daemons said where it does not come."""
        ends = time.monotonic() + SECONDS
        while not holds():
            ended = [daemon for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > ends:
                said = "\n".join(
                    path.read_text(encoding="utf-8", errors="replace")
                    for pattern in ("*.out", "*.log")
                    for path in sorted(self.folder.glob(pattern))
                )
                first = f"waited for {what}, which did not come; the daemons said:"
                raise PitbError(first, *said.splitlines())
            time.sleep(0.1)

    def jobs(self) -> dict[str, dict[str, str]]:
        """The jobs that ended, by their ids, as Slurm recorded them."""
        record = self.folder / "jobs.txt"
        lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
        found = [dict(part.partition("=")[::2] for part in line.split()) for line in lines]
        return {job["JobId"]: job for job in found}


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--check", action="store_true", help="only say whether Slurm is installed")
    parser.add_argument("command", nargs="...", help="what to run while the cluster is up")
    arguments = parser.parse_args()
    if arguments.check or not arguments.command:
        check()
        return 0
    with Cluster() as cluster:
        return subprocess.run(arguments.command, env=cluster.environment).returncode


if __name__ == "__main__":
    sys.exit(run_main(main))
