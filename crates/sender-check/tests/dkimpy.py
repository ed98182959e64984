#!/usr/bin/env python3
"""Signs, seals and verifies message files with dkimpy, an implementation that is not ours.

    dkimpy.py verify KEYS FILE...
    dkimpy.py chains KEYS FILE...
    dkimpy.py sign rsa|ed25519 SELECTOR DOMAIN KEYFILE FILE...
    dkimpy.py seal SELECTOR DOMAIN KEYFILE SERVER FILE...

KEYS is a file with a line `name TXTVALUE` for each key, in place of DNS. Files hold messages with CRLF line ends.
`verify` prints `pass FILE` or `fail FILE: why` for the first signature of each, `chains` the same for its ARC chain. `sign` and
`seal` write FILE.made, a signed or sealed copy; `sign` takes the four pairs of canonical forms in turn. Needs the Python packages
dkimpy, pynacl and, to seal, authres.
"""

import sys

import dkim

FORMS = [(b"relaxed", b"relaxed"), (b"simple", b"simple"), (b"relaxed", b"simple"), (b"simple", b"relaxed")]
SIGNED = [b"from", b"to", b"subject", b"date", b"x-long", b"x-eight"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def dns_of(path):
    """A function in place of dkimpy's TXT look-up."""
    lines = read(path).decode().splitlines()
    keys = dict(line.split(" ", 1) for line in lines)

    def txt(name, timeout=5):
        name = name.decode() if isinstance(name, bytes) else name
        value = keys.get(name.rstrip(".").lower())
        return value.encode() if value else None

    return txt


def verify(keys, *paths):
    dnsfunc = dns_of(keys)
    for path in paths:
        try:
            held = dkim.DKIM(read(path)).verify(dnsfunc=dnsfunc)
            report(path, None if held else "it does not verify")
        except dkim.DKIMException as error:
            report(path, str(error))


def chains(keys, *paths):
    dnsfunc = dns_of(keys)
    for path in paths:
        status, _, reason = dkim.arc_verify(read(path), dnsfunc=dnsfunc)
        report(path, None if status == dkim.CV_Pass else f"{status} {reason}")


def report(path, why):
    print(f"pass {path}" if why is None else f"fail {path}: {' '.join(why.split())}")


def sign(algorithm, selector, domain, keyfile, *paths):
    key = read(keyfile)
    for place, path in enumerate(paths):
        message = read(path)
        field = dkim.sign(
            message,
            selector.encode(),
            domain.encode(),
            key,
            canonicalize=FORMS[place % len(FORMS)],
            signature_algorithm=algorithm.encode() + b"-sha256",
            include_headers=SIGNED,
        )
        write(path, field + message)


def seal(selector, domain, keyfile, server, *paths):
    key = read(keyfile)
    for path in paths:
        message = read(path)
        fields = dkim.arc_sign(
            message, selector.encode(), domain.encode(), key, server.encode(), include_headers=SIGNED
        )
        if not fields:
            sys.exit(f"{path}: not sealed")
        write(path, b"".join(fields) + message)


def write(path, content):
    with open(path + ".made", "wb") as file:
        file.write(content)


def main():
    verbs = {verb.__name__: verb for verb in (verify, chains, sign, seal)}
    if len(sys.argv) < 4 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    verbs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
