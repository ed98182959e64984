#!/usr/bin/env python3
"""Builds test programs and runs several at once: most of them wait for a disk, a timer or a peer.

usage: tools/run_tests.py [--jobs N] ARGUMENT...   (those of `cargo test`, such as -p queue)

`cargo test` runs one program after the other. This runs N (as many as there are cores) at once, and those named in
ALONE by themselves behind the others, a test at a time. What a program printed is shown in one piece when it ends. Exits 1 when
one failed, ended without a result or took longer than PROGRAM_SECONDS_MAX.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

# The slowest takes 150 s alone on a slow machine.
PROGRAM_SECONDS_MAX = 900
SLOWEST_SHOWN = 15
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)

# Program (package/target) and why nothing else may run beside it.
ALONE = {
    "e2e/console_cold": "how soon a page is there",
    "e2e/kill": "how many messages a kill doubles: those whose end is not noted yet, which is a matter of moments",
    "e2e/runaway": "handlers that take all the processors there are, and how long others then wait",
}

# Leaders of the sessions that run now: an interrupt of this program does not reach them by itself.
RUNNING = set()


@dataclass
class Program:
    name: str
    path: str
    directory: str


@dataclass
class Outcome:
    program: Program
    passed: int
    ignored: int
    seconds: float
    cpu_seconds: float
    # What is wrong, or nothing.
    wrong: str


def build(arguments):
    """The test programs, by what cargo says it made."""
    command = ["cargo", "test", "--no-run", "--tests", "--message-format=json-render-diagnostics", *arguments]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        sys.exit(made.returncode)
    programs = []
    for message in map(json.loads, made.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            directory = os.path.dirname(message["manifest_path"])
            name = f"{os.path.basename(directory)}/{message['target']['name']}"
            programs.append(Program(name, message["executable"], directory))
    return programs


def wait(child):
    """Its status, what it and its children used, and whether it was killed for being late."""
    late = threading.Event()

    def kill():
        late.set()
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(PROGRAM_SECONDS_MAX, kill)
    timer.start()
    _, status, usage = os.wait4(child.pid, 0)
    timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage, late.is_set()


def run(program):
    """Runs it to its end; shows what it printed."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [program.path, *(["--test-threads=1"] if program.name in ALONE else [])],
            cwd=program.directory,
            env={**os.environ, "CARGO_MANIFEST_DIR": program.directory},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        RUNNING.add(child.pid)
        status, usage, late = wait(child)
        RUNNING.discard(child.pid)
        output.seek(0)
        text = output.read().decode(errors="replace")
    seconds = time.monotonic() - begun
    results = RESULT.findall(text)
    passed, failed, ignored = (sum(int(result[i]) for result in results) for i in range(3))
    wrong = ""
    if late:
        wrong = f"killed after {PROGRAM_SECONDS_MAX} s"
    elif failed:
        wrong = f"{failed} failed"
    elif status != 0:
        wrong = f"ended with status {status}"
    elif not results:
        wrong = "no result"
    print(f"     Running {program.name} ({program.path})\n{text}", flush=True)
    return Outcome(program, passed, ignored, seconds, usage.ru_utime + usage.ru_stime, wrong)


def run_all(programs, jobs):
    """Outcomes of programs, so many at once; the end to end ones first, which wait most."""
    order = sorted(programs, key=lambda program: not program.name.startswith("e2e/"))
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(run, order))


def report(outcomes, seconds):
    """Says what came out; whether all is well."""
    cpu = sum(outcome.cpu_seconds for outcome in outcomes)
    passed, ignored = sum(o.passed for o in outcomes), sum(o.ignored for o in outcomes)
    print(f"slowest of {len(outcomes)} programs, in seconds (and of CPU):")
    for outcome in sorted(outcomes, key=lambda o: -o.seconds)[:SLOWEST_SHOWN]:
        print(f"  {outcome.seconds:7.1f} ({outcome.cpu_seconds:.1f}) {outcome.program.name}")
    print(f"{passed} tests passed, {ignored} ignored, in {seconds:.0f} s, {cpu:.0f} s of CPU")
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    for outcome in wrong:
        print(f"FAILED: {outcome.program.name}: {outcome.wrong}")
    return not wrong


def end_all(signal_number, _frame):
    """Ends what runs, with the servers and peers it started, and this program."""
    for leader in list(RUNNING):
        # It may have ended this moment.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
    os._exit(128 + signal_number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options, arguments = parser.parse_known_args()
    programs = build(arguments)
    if not programs:
        sys.exit("run_tests.py: cargo made no test program of these arguments")
    names = {program.name for program in programs}
    packages = {name.split("/")[0] for name in names}
    gone = [name for name in ALONE if name.split("/")[0] in packages and name not in names]
    if gone and not {"--test", "--lib"} & set(arguments):
        sys.exit(f"run_tests.py: ALONE names {gone}, which cargo did not make")
    signal.signal(signal.SIGINT, end_all)
    signal.signal(signal.SIGTERM, end_all)
    begun = time.monotonic()
    outcomes = run_all([p for p in programs if p.name not in ALONE], options.jobs)
    outcomes += run_all([p for p in programs if p.name in ALONE], 1)
    if not report(outcomes, time.monotonic() - begun):
        sys.exit(1)


if __name__ == "__main__":
    main()
