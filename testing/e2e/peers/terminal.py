#!/usr/bin/env python3
"""Somebody at a terminal (Python's pty and termios): runs a command on a pseudo-terminal and does what it is told.

usage: terminal.py LOG ROWS COLUMNS COMMAND...

All that the command writes goes to LOG, octet for octet. A line of JSON on stdin is an act: {"keys": TEXT} types, {"size": [ROWS, COLUMNS]}
changes the size, {"signal": NUMBER} signals the command; the end of stdin takes the terminal away. Once the command has ended a line on stdout tells how: {"status": its exit
code, or minus the signal that ended it; "before", "during" and "after": whether the terminal gave whole lines and echoed them (a
cooked one) before the command, when keys were typed last, and after it; "same": whether every setting is as before}.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios


def is_cooked(terminal):
    wanted = termios.ICANON | termios.ECHO | termios.ISIG
    return termios.tcgetattr(terminal)[3] & wanted == wanted


def take():
    """The terminal becomes the command's, which hears of its end whatever this program ignores."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main(log, rows, columns, *command):
    ours, theirs = pty.openpty()
    resize(theirs, int(rows), int(columns))
    told = {"before": is_cooked(theirs), "during": None}
    attributes = termios.tcgetattr(theirs)
    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=take,
    )
    end = os.pidfd_open(child.pid)
    waiting, acts = [ours, 0, end], b""
    with open(log, "wb", buffering=0) as out:
        while True:
            ready = select.select(waiting, [], [])[0]
            if ours in ready:
                out.write(os.read(ours, 65536))
            elif 0 in ready:
                octets = os.read(0, 65536)
                if not octets:
                    os.close(ours)
                    os.close(theirs)
                    break
                *lines, acts = (acts + octets).split(b"\n")
                for act in map(json.loads, lines):
                    if "keys" in act:
                        told["during"] = is_cooked(theirs)
                        os.write(ours, act["keys"].encode())
                    elif "size" in act:
                        # The command is told by the kernel.
                        resize(ours, *act["size"])
                    else:
                        child.send_signal(act["signal"])
            elif end in ready:
                # Nothing is left to read: that comes first.
                told |= {"after": is_cooked(theirs), "same": termios.tcgetattr(theirs) == attributes}
                break
    told["status"] = child.wait()
    print(json.dumps(told), flush=True)


main(*sys.argv[1:])
