"""Runs one shell line and says what it cost.

Time and CPU are those of the line and of every child it waited for, counted by the
kernel and read through `/usr/bin/time` (a tiny parent: the kernel counts the memory
of a process before its exec as the child's, so Python must not be the parent).
Memory is the larger of the largest single process and the sampled sum of the whole
group, because some tools (bupstash, borg serve) split the work over processes.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time

TIME = "/usr/bin/time"
# wall is taken by Python: %e knows hundredths only.
FORMAT = "%U %S %M %I %O %x"
BLOCK = 512                  # unit of %I and %O
KIB_PER_MIB = 1024
SAMPLE_S = 0.1
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def run(line, env, log, variables, prefix=()):
    """Runs the line under bash, behind the words of `prefix`; returns a dict of figures."""
    with tempfile.NamedTemporaryFile("r", prefix="icecore-bench-") as figures:
        command = [TIME, "-f", FORMAT, "-o", figures.name, *prefix,
                   "bash", "-o", "pipefail", "-c", line]
        os.sync()
        load = os.getloadavg()[0]
        busy, kernel = busy_cpu_s(), kernel_cpu_s()
        started = time.perf_counter()
        process = subprocess.Popen(command, env={**env, **variables}, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True)
        sampler = GroupMemory(process.pid)
        try:
            code = process.wait()
        except BaseException:
            # A bench that is ended leaves nobody running.
            os.killpg(process.pid, signal.SIGTERM)
            raise
        wall = time.perf_counter() - started
        busy, kernel = busy_cpu_s() - busy, kernel_cpu_s() - kernel
        sampler.stop()
        return figures_of(figures.read(), wall, code, (busy, kernel), load, sampler.peak_kib)


def figures_of(text, wall, code, cpu, load, group_kib):
    """The last line is ours; `time` writes a sentence before it when a command fails."""
    if not text:
        raise OSError(f"{TIME} wrote no figures to {tempfile.gettempdir()}: is the disk full?")
    user, system, peak, read, written, _ = text.splitlines()[-1].split()
    own, (busy, kernel) = float(user) + float(system), cpu
    return {"wall_s": round(wall, 3), "user_s": float(user), "system_s": float(system),
            "peak_mib": round(max(int(peak), group_kib) / KIB_PER_MIB, 1),
            "peak_process_mib": round(int(peak) / KIB_PER_MIB, 1),
            "read_mib": round(int(read) * BLOCK / 2**20, 1),
            "written_mib": round(int(written) * BLOCK / 2**20, 1),
            # CPU time that others had meanwhile: how much the figure can be trusted. What threads
            # of the kernel did (writing back, above all) is mostly the tool's own doing.
            "foreign_cpu_s": round(max(0.0, busy - kernel - own), 2),
            "kernel_cpu_s": round(kernel, 2),
            "load_before": load, "exit": code}


def busy_cpu_s():
    """CPU time all of the machine has spent so far, idling and waiting excluded."""
    with open("/proc/stat") as file:
        fields = [int(n) for n in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) * TICK_S


KTHREADD = b"2"                # parent of the kernel's threads


def kernel_cpu_s():
    """CPU time that the kernel's threads have spent so far."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rsplit(b")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[1] == KTHREADD:
            ticks += int(fields[11]) + int(fields[12])
    return ticks * TICK_S


class GroupMemory:
    """Samples the resident memory of all processes of one session."""

    def __init__(self, session):
        self.session = session
        self.foreign = set()
        self.peak_kib = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.done.wait(SAMPLE_S):
            self.peak_kib = max(self.peak_kib, sum(self.resident()))

    def resident(self):
        for name in os.listdir("/proc"):
            if name.isdigit() and name not in self.foreign:
                yield self.resident_kib(name)

    def resident_kib(self, pid):
        """Resident KiB of the process, or 0 when it is gone or of another session."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name may hold blanks and brackets: fields count from the last one.
                fields = file.read().rsplit(b")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        if int(fields[3]) != self.session:
            # Asked once only: reading all of /proc ten times a second costs CPU.
            self.foreign.add(pid)
            return 0
        return int(fields[21]) * PAGE_KIB

    def stop(self):
        self.done.set()
        self.thread.join()


def drop_caches():
    """Forgets page cache and inodes. A virtual disk's host may still have them."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def stored_bytes(folder):
    """Bytes of all files of a repository, as `ls` shows them."""
    total = 0
    for here, _, names in os.walk(folder):
        total += sum(os.lstat(os.path.join(here, name)).st_size for name in names)
    return total


def warm(folder):
    """Reads a repository once, so that a restore does not start at the disk's mercy."""
    for here, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(here, name), "rb", buffering=0) as file:
                while file.read(2**20):
                    pass
