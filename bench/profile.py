#!/usr/bin/env python3
"""Where the server's CPU time goes: `perf` beside a benchmark, by what the time is spent on.

  bench/profile.py BENCH WORKLOAD [SECONDS]

BENCH is a built `postrider-bench`, WORKLOAD a part of a workload's name, such as `10 KB unsigned, 100`. It needs root, `perf`, and a
temporary folder that is on a disk.
The kernel's part is told by system call, the program's by the crate of the function that runs: its build has no frame pointers,
so who called it is not known. Percent of the server's samples; what is below half a percent is summed up.
"""

import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

KERNEL = [
    ("page faults", r"exc_page_fault"),
    ("sockets read", r"sys_(recv|read\b|readv|recvfrom)"),
    ("spool and log written", r"(sys|do|vfs)_pwrite|ext4_file_write"),
    ("sockets written", r"sys_(send|sendto|sendmsg|write\b|writev)|do_writev|sock_write"),
    ("synced", r"sys_f(data)?sync|sys_sync"),
    ("waited for sockets", r"sys_epoll"),
    ("threads woken and put to sleep", r"sys_futex|sys_sched_yield"),
    ("connections opened and closed", r"sys_(accept|connect|socket|close|shutdown|bind|[gs]etsockopt)"),
    ("memory mapped", r"sys_(mmap|munmap|madvise|brk)"),
    ("interrupts", r"asm_(sysvec|common_interrupt)|irq_exit|softirq"),
    ("pushed off the core", r"exit_to_user_mode_loop"),
    ("ways in and out of the kernel", r"do_syscall_64|x64_sys_call"),
]
PROGRAM = [
    ("the clock", r"clock_gettime|SystemTime|Timespec"),
    ("RSA and hashes (aws-lc)", r"aws_lc|bn_|rsaz|RSA_|sha\d+_|SHA\d+|mont"),
    ("DKIM besides", r"sender_auth|mail_auth"),
    ("Lua", r"lua[A-Z_]|^lua::|mlua|policy::"),
    ("compression of the log", r"ZSTD|zstd|HUF_|FSE_"),
    ("memory allocated", r"_?rjem|je_|malloc|free$|alloc::alloc"),
    ("memory copied, cleared, searched", r"mem(cpy|move|set|chr|cmp)"),
    ("check sums", r"crc32"),
    ("SMTP in", r"smtp_server"),
    ("SMTP out", r"smtp_client"),
    ("SMTP words, content", r"smtp_wire|mime::"),
    ("queues", r"^<*queue::"),
    ("spool", r"^<*(spool|store)::"),
    ("log and metrics", r"telemetry|record::|prometheus"),
    ("the engine", r"^<*engine::|<impl engine::"),
    ("the runtime", r"tokio|mio::|parking_lot|std::sync|core::sync"),
]


def bucket(frames):
    kernel = [name for name, where in frames if "kernel" in where]
    leaf, where = frames[0]
    if kernel and kernel[0] == leaf:
        for name, pattern in KERNEL:
            if any(re.search(pattern, symbol) for symbol in kernel):
                return "kernel", name
        return "kernel", "other"
    for name, pattern in PROGRAM:
        if re.search(pattern, leaf):
            return "program", name
    return "program", "other"


def samples(lines):
    """Each sample's stack: a function and where it is from, the one that runs first."""
    frames = []
    for line in [*lines, ""]:
        found = re.match(r"\s+[0-9a-f]+ (.*) \((.*)\)$", line.rstrip())
        if found:
            frames.append((re.sub(r"\+0x[0-9a-f]+$", "", found.group(1)), found.group(2)))
        elif not line.strip() and frames:
            yield frames
            frames = []


def children(parent, of=""):
    found = subprocess.run(["pgrep", "-P", str(parent), "-f", of], capture_output=True, text=True)
    return found.stdout.split()


def server_of(bench, workload, deadline):
    # The sink is beside the server that is measured, unless it is that itself.
    policy = r"sink\.lua" if "discarded" in workload else r"relay\.lua"
    while time.monotonic() < deadline:
        if bench.poll() is not None:
            sys.exit(f"the benchmark has ended with {bench.returncode}")
        if found := children(bench.pid, policy):
            return found[0]
        time.sleep(0.1)
    sys.exit("no server was started")


def end(bench):
    """With all that it has started."""
    started = children(bench.pid)
    bench.kill()
    bench.wait()
    for pid in started:
        os.kill(int(pid), signal.SIGKILL)


def main():
    bench, workload = sys.argv[1:3]
    seconds = sys.argv[3] if len(sys.argv) > 3 else "15"
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        run = subprocess.Popen([bench, "run", "--only", workload, "--runs", "50", "--work", folder], stdout=subprocess.DEVNULL)
        try:
            pid = server_of(run, workload, time.monotonic() + 60)
            # The warm-up.
            time.sleep(3)
            record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-p", pid, "-o", data, "--", "sleep", seconds]
            subprocess.run(record, check=True)
        finally:
            end(run)
        script = ["perf", "script", "--no-inline", "-i", data, "-F", "comm,ip,sym,dso"]
        text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    counts, leaves = collections.Counter(), collections.defaultdict(collections.Counter)
    for frames in samples(text.splitlines()):
        at = bucket(frames)
        counts[at] += 1
        leaves[at][frames[0][0]] += 1
    total = sum(counts.values())
    print(f"{workload}: {total} samples at 997 Hz in {seconds} s")
    rest = 0.0
    for side in ("kernel", "program"):
        print(f"{side}: {100 * sum(n for (s, _), n in counts.items() if s == side) / total:.1f} %")
        for (of, name), number in counts.most_common():
            share = 100 * number / total
            if of != side:
                continue
            if share < 0.5:
                rest += share
                continue
            top = ", ".join(f"{symbol[:60]} {100 * n / total:.1f}" for symbol, n in leaves[(of, name)].most_common(3))
            print(f"  {share:5.1f}  {name}    ({top})")
    print(f"the rest: {rest:.1f} %")


if __name__ == "__main__":
    main()
