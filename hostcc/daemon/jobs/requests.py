"""Other parameters for jobs that run: asked for by command, or by their processes' environment."""

from __future__ import annotations

from hostcc.config.sections.job import JobRequest
from hostcc.daemon.changes import kinds
from hostcc.daemon.jobs import rights
from hostcc.daemon.jobs.table import JobTable
from hostcc.system.quota import Owner


def ask(table: JobTable, name: str, wishes: JobRequest, why: str) -> None:
    """Give a job that runs other parameters.  Raises what the journal and the kernel raise."""
    job = table.jobs[name]
    wishes = wishes.over(job.wishes)
    after = table.fields(name, wishes, table.slots.owner(job.slot))
    table.journal.begin(
        kinds.job_request(name, after, why)
        if job.group is None
        else kinds.job_group(name, job.group, after, why)
    )
    table.edition += 1
    job.wishes = wishes
    table.tell(job, why)


def declare(table: JobTable, name: str, declared: JobRequest, why: str) -> None:
    """Take what a job's processes ask for, where nobody has asked otherwise."""
    job = table.jobs.get(name)
    if job is not None and job.declared != declared:
        table.edition += 1
        job.declared = declared
        table.tell(job, why)


def owner(table: JobTable, name: str) -> Owner:
    """Whose a job is; None: root's, or there is no such job."""
    job = table.jobs.get(name)
    return rights.owner_of(name, table.slots.owner(job.slot) if job is not None else None)


def given(table: JobTable, name: str, what: str) -> bool:
    """Whether a job gets `rdma` or `marks`, by the configuration's `[users]`."""
    return what not in rights.refused(table.config.users, owner(table, name))


def forget_ended(table: JobTable) -> None:
    """Drop what was asked for jobs that are here no more."""
    active = table.journal.active.values()
    table.journal.undone(kinds.requests(active, table.jobs), "the job ended")
