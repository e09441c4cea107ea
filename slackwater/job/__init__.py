"""Job files: a stream, a query and a sink as TOML, read into frozen settings and built on a session."""

from slackwater.job.build import build
from slackwater.job.read import parse_job, read_job
from slackwater.job.settings import Columns, Job
from slackwater.job.table import JobError

__all__ = ["Columns", "Job", "JobError", "build", "parse_job", "read_job"]
