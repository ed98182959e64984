#!/usr/bin/env bash
# Prints the user+system CPU, in milliseconds, that a process and all its descendants have used so far, those that have
# exited and been waited for included. For a Postfix master this is all of Postfix.
#
# A living process is read from schedstat, in nanoseconds: /proc/PID/stat counts in ticks of 10 ms, and rounding a
# hundred short-lived smtpd down would hide up to a second. (schedstat covers the main thread alone, which for Postfix
# is the process.) Exited children come from the parent's cutime and cstime, which the kernel sums before rounding.
#
# usage: postfix_cpu.sh PID
set -euo pipefail

if [ $# -ne 1 ] || [ ! -d "/proc/$1" ]; then
    echo "usage: postfix_cpu.sh PID (a living process)" >&2
    exit 2
fi

# One pass over /proc: a line a process, `pid ppid utime stime cutime cstime run_ns`.
snapshot() {
    local stat rest run
    local -a field
    for stat in /proc/[0-9]*/stat; do
        # A process may be gone by now; its parent then has its time.
        { read -r rest <"$stat"; } 2>/dev/null || continue
        run=-1
        { read -r run _ <"${stat%/stat}/schedstat"; } 2>/dev/null || true
        # The command name stands in parentheses and may contain anything, so fields count from the last one.
        read -r -a field <<<"${rest##*) }"
        echo "${rest%% *} ${field[1]} ${field[11]} ${field[12]} ${field[13]} ${field[14]} $run"
    done
}

# Prints `MS PIDS`: the sum and the processes it is made of.
total() {
    snapshot | awk -v top="$1" -v hz="$(getconf CLK_TCK)" '
        { parent[$1] = $2; live[$1] = $7 >= 0 ? $7 / 1e6 : ($3 + $4) * 1000 / hz; gone[$1] = ($5 + $6) * 1000 / hz }
        END {
            for (pid in parent) {
                up = pid
                while (up != top && up in parent && up > 1) up = parent[up]
                if (up == top) { sum += live[pid] + gone[pid]; count++; ids += pid }
            }
            printf "%d %d:%d\n", sum + 0.5, count, ids
        }'
}

# A child that exits during the pass may be counted twice or not at all; the pass counts if the next sees the same set.
before=$(total "$1")
for _ in 1 2 3 4 5; do
    now=$(total "$1")
    if [ "${before#* }" = "${now#* }" ]; then break; fi
    before=$now
done
echo "${now%% *}"
