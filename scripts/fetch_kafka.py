"""Fetch a Kafka broker and Spark's connector into build/kafka, for make test-kafka; what is there already stays.

The jars are listed in kafka_jars.txt. Ivy fetches them, which Spark brings along. Each must have the SHA-256 that
stands in the list.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("kafka_jars.txt")
IVY = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
PATTERN = "[artifact]-[revision].[ext]"


@dataclass(frozen=True)
class Jar:
    """A line of the list."""

    folder: str
    module: str
    """Group, name and version, as Maven writes them."""
    sha256: str

    @property
    def path(self) -> Path:
        """Where it lies."""
        _, name, version = self.module.split(":")
        return ROOT / "build" / "kafka" / self.folder / f"{name}-{version}.jar"

    @property
    def there(self) -> bool:
        """Whether it is there, and is what it should be."""
        return self.path.exists() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


def fetch(folder: str, jars: list[Jar]) -> None:
    """Have Ivy bring these jars, and nothing that they depend on: all of that is in the list."""
    modules = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" transitive="false"/>'
        for org, name, version in (jar.module.split(":") for jar in jars)
    )
    target = ROOT / "build" / "kafka" / folder
    with tempfile.TemporaryDirectory() as cache:
        wanted = Path(cache) / "ivy.xml"
        wanted.write_text(
            '<ivy-module version="2.0"><info organisation="slackwater" module="kafka"/>'
            f"<dependencies>{modules}</dependencies></ivy-module>",
            "utf-8",
        )
        command = ["java", "-jar", str(IVY), "-ivy", str(wanted), "-cache", cache, "-types", "jar", "bundle"]
        done = subprocess.run(
            [*command, "-retrieve", str(target / PATTERN)], capture_output=True, text=True, check=False
        )
    missing = [jar.module for jar in jars if not jar.path.exists()]
    if missing:
        raise SystemExit(f"fetch_kafka: Ivy did not find {', '.join(missing)}:\n{done.stdout[-2000:]}{done.stderr}")
    wrong = [jar.module for jar in jars if not jar.there]
    if wrong:
        raise SystemExit(f"fetch_kafka: not what kafka_jars.txt says, by SHA-256: {', '.join(wrong)}")


def main() -> None:
    """Fetch what is missing."""
    jars = [Jar(*line.split()) for line in LIST.read_text("utf-8").splitlines() if not line.startswith("#")]
    new = [jar for jar in jars if not jar.there]
    for folder in sorted({jar.folder for jar in new}):
        fetch(folder, [jar for jar in new if jar.folder == folder])
    print(f"fetch_kafka: {len(new)} of {len(jars)} jars fetched" if new else "fetch_kafka: up to date")


if __name__ == "__main__":
    sys.exit(main())
