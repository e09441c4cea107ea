"""Spark standalone on the loopback: a master, and workers that do not see the driver's temporary folder.

Each worker lives in a mount namespace of its own in which `private` is an empty folder. So what it writes there
the driver never sees, as on another machine. It has a host name of its own, too: then Spark fetches shuffle files
by the network, and not from the disk that the processes share.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pyspark

_JARS = Path(pyspark.__file__).parent / "jars"
#: Seconds until a process must have said that it is there.
_PATIENCE = 60


def can_isolate() -> bool:
    """Whether this user may make mount namespaces."""
    command = ["unshare", "-m", "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, check=False).returncode == 0


class Cluster:
    """A master and two workers, with room for two drivers."""

    def __init__(self, base: Path) -> None:
        self.shared, self.private, self._logs = base / "shared", base / "private", base / "logs"
        for folder in (self.shared, self.private, self._logs):
            folder.mkdir()
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._start("master", f"{self._java('Master')} --host 127.0.0.1 --port {port} --webui-port 0")
        self._await("master", "New state: ALIVE")
        for number in (1, 2):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """A worker on a host of its own."""
        work, name = self.private / "work", f"worker{number}"
        java = (
            f"{self._java('Worker')} --host 127.0.0.{number + 1} --cores 2 --memory 2g --webui-port 0 "
            f"--work-dir {shlex.quote(str(work))} {self.master}"
        )
        hidden = shlex.quote(str(self.private))
        isolated = f"mount --make-rprivate / && mount -t tmpfs tmpfs {hidden} && exec {java}"
        self._start(name, f"unshare -m bash -c {shlex.quote(isolated)}")
        self._await(name, "Successfully registered with master")

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker and its executors; to whoever waits for it, a machine that is gone."""
        self._kill(f"worker{number}")

    def stop(self) -> None:
        """End all processes."""
        for name in list(self._processes):
            self._kill(name)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _java(self, role: str) -> str:
        java = "java" if "JAVA_HOME" not in os.environ else f"{os.environ['JAVA_HOME']}/bin/java"
        options = f"-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={self.private}"
        return f"{java} {options} -cp '{_JARS}/*' org.apache.spark.deploy.{role.lower()}.{role}"

    def _start(self, name: str, command: str) -> None:
        # A worker starts executors from Spark's own folder, in which it would look for a build to tell the version.
        spark = {"SPARK_HOME": str(_JARS.parent), "SPARK_SCALA_VERSION": "2.13"}
        here = {"PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(self.private)}
        environment = {**os.environ, **spark, **here}
        with (self._logs / name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], start_new_session=True, stderr=log, stdout=log, env=environment
            )

    def _await(self, name: str, line: str) -> None:
        end = time.monotonic() + _PATIENCE
        while line not in (text := (self._logs / name).read_text()):
            gone = self._processes[name].poll() is not None
            assert not gone and time.monotonic() < end, f"{name} does not come up:\n{text[-3000:]}"
            signal.sigtimedwait([], 0.05)
