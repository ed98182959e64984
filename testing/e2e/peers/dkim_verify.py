#!/usr/bin/env python3
"""Verifies the DKIM signatures of message files with dkimpy, an implementation that is not ours.

    dkim_verify.py --key selector._domainkey.domain=TXTVALUE [--key ...] FILE...

Keys come from the command line instead of DNS. Each file must hold the message exactly as it was
received (CRLF line ends). Prints "pass FILE" or "fail FILE: why" for each; a file passes when it has
at least one signature and every signature in it verifies. Exits 1 if any file failed, 2 on wrong usage.
Needs the Python packages dkimpy and, for Ed25519, pynacl.
"""

import argparse
import sys

import dkim


def key_option(text):
    name, separator, value = text.partition("=")
    if not separator or "._domainkey." not in name:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected selector._domainkey.domain=TXTVALUE"
        )
    return name.rstrip(".").lower(), value.encode()


def stub_dns(keys):
    """A function in place of dkimpy's TXT look-up."""

    def txt(name, timeout=5):
        name = name.decode() if isinstance(name, bytes) else name
        return keys.get(name.rstrip(".").lower())

    return txt


def judge(message, dnsfunc):
    """None when every signature verifies, else the reason it does not."""
    signed = dkim.DKIM(message)
    count = sum(1 for name, _ in signed.headers if name.strip().lower() == b"dkim-signature")
    if count == 0:
        return "no DKIM-Signature"
    for place in range(count):
        try:
            if not signed.verify(idx=place, dnsfunc=dnsfunc):
                return f"signature {place + 1} of {count} does not verify"
        except dkim.DKIMException as error:
            return f"signature {place + 1} of {count}: {error}"
    return None


def main():
    parser = argparse.ArgumentParser(description="verify DKIM signatures with dkimpy")
    parser.add_argument("--key", action="append", type=key_option, default=[], metavar="NAME=TXT")
    parser.add_argument("file", nargs="+")
    options = parser.parse_args()
    dnsfunc = stub_dns(dict(options.key))
    failed = 0
    for path in options.file:
        try:
            with open(path, "rb") as file:
                why = judge(file.read(), dnsfunc)
        except (OSError, dkim.MessageFormatError) as error:
            why = str(error)
        if why is None:
            print(f"pass {path}")
        else:
            failed += 1
            print(f"fail {path}: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
