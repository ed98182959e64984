#!/usr/bin/env python3
"""Signs and verifies messages with libopendkim, an implementation that is not ours.

    opendkim.py verify LIBRARY KEYS FILE
    opendkim.py sign LIBRARY SELECTOR DOMAIN KEYFILE FILE

FILE holds messages with CRLF line ends, one behind the other, each behind its length in octets: four octets, the highest first.
KEYS is a file with a line `name TXTVALUE` for each key, in place of DNS. `verify` prints `pass` or `fail: why` for each message;
`sign` writes FILE.made, the same messages signed with RSA, with the four pairs of canonical forms in turn.
"""

import ctypes
import sys

SETOPT = 1
QUERYMETHOD, QUERYINFO, SIGNHDRS = 6, 7, 4
QUERY_FILE = 1
RSASHA256 = 1
# Headers, body: 0 is simple, 1 is relaxed.
FORMS = [(1, 1), (0, 0), (1, 0), (0, 1)]
SIGNED = [b"from", b"to", b"subject", b"date", b"x-long", b"x-eight", None]


def messages(path):
    with open(path, "rb") as file:
        content = file.read()
    at = 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        yield content[at + 4 : at + 4 + length]
        at += 4 + length


class Library:
    def __init__(self, path):
        self.of = ctypes.CDLL(path)
        for name in ("dkim_init", "dkim_verify", "dkim_sign"):
            getattr(self.of, name).restype = ctypes.c_void_p
        for name in ("dkim_getresultstr", "dkim_geterror", "dkim_sig_geterrorstr"):
            getattr(self.of, name).restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p(self.of.dkim_init(None, None))

    def set(self, option, value, length):
        if self.of.dkim_options(self.handle, SETOPT, option, value, ctypes.c_size_t(length)) != 0:
            sys.exit(f"libopendkim does not take option {option}")

    def feed(self, context, message):
        """The message, and its end; the status of the last step."""
        status = self.of.dkim_chunk(context, message, ctypes.c_size_t(len(message)))
        if status == 0:
            status = self.of.dkim_chunk(context, None, ctypes.c_size_t(0))
        if status == 0:
            status = self.of.dkim_eom(context, None)
        return status

    def why(self, context, status):
        said = self.of.dkim_geterror(context) or self.of.dkim_getresultstr(status) or b""
        return f"{status} {said.decode(errors='replace')}"


def verify(path, keys, file):
    library = Library(path)
    method = ctypes.c_int(QUERY_FILE)
    library.set(QUERYMETHOD, ctypes.byref(method), ctypes.sizeof(method))
    library.set(QUERYINFO, keys.encode(), len(keys))
    for message in messages(file):
        status = ctypes.c_int()
        context = ctypes.c_void_p(library.of.dkim_verify(library.handle, b"test", None, ctypes.byref(status)))
        status = library.feed(context, message)
        print("pass" if status == 0 else f"fail: {library.why(context, status)}")
        library.of.dkim_free(context)


def sign(path, selector, domain, keyfile, file):
    library = Library(path)
    names = (ctypes.c_char_p * len(SIGNED))(*SIGNED)
    library.set(SIGNHDRS, names, ctypes.sizeof(ctypes.c_void_p))
    with open(keyfile, "rb") as key:
        key = key.read()
    with open(file + ".made", "wb") as made:
        for place, message in enumerate(messages(file)):
            header, body = FORMS[place % len(FORMS)]
            status = ctypes.c_int()
            context = ctypes.c_void_p(
                library.of.dkim_sign(
                    library.handle, b"test", None, key, selector.encode(), domain.encode(), header, body, RSASHA256,
                    ctypes.c_ssize_t(-1), ctypes.byref(status),
                )
            )
            status = library.feed(context, message)
            field = ctypes.create_string_buffer(8192)
            if status == 0:
                status = library.of.dkim_getsighdr(context, field, ctypes.c_size_t(len(field)), ctypes.c_size_t(16))
            if status != 0:
                sys.exit(f"not signed: {library.why(context, status)}")
            # What it folds, it folds with bare line feeds.
            value = field.value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            whole = b"DKIM-Signature: " + value + b"\r\n" + message
            made.write(len(whole).to_bytes(4, "big") + whole)
            library.of.dkim_free(context)


def main():
    verbs = {verb.__name__: verb for verb in (verify, sign)}
    if len(sys.argv) < 5 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    verbs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
