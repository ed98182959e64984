#!/usr/bin/env python3
"""An independent SMTP client for the end-to-end tests: Python's smtplib, with every reply checked.

usage: smtp_client.py HOST PORT VERB [options]      (VERB --help lists its options)

  send     sends messages of the shapes that break mail servers: no body, no content at all, lines of dots, 8-bit text,
           lines of 998 octets, style sheets, exact sizes; optionally in chunks (BDAT), over STARTTLS and after AUTH.
           --ledger FILE gets a JSON line for every message: id, shape, reply, and number and SHA-256 of the octets
           that must end the message where it arrives (relays put their trace lines before them).
  submit   sends one small message over STARTTLS, with parameters of MAIL and header fields of the caller's.
  auth     STARTTLS, then AUTH PLAIN or LOGIN; checks that the mechanism is offered, and only where it should be.
  session  walks one connection through commands in wrong and right order and checks each reply code.

Exits 0 if every reply was the expected one; otherwise 1 with one line saying what was sent, expected and received.
Certificates are not verified: the servers under test make theirs up. Needs nothing beyond the standard library.
"""

import argparse
import email.utils
import hashlib
import json
import smtplib
import ssl
import sys
import uuid

CRLF = b"\r\n"
# RFC 5321 section 4.5.3.1.6: a text line has at most 1000 octets, CRLF included.
LINE_MAX_OCTETS = 998
SHAPES = ("plain", "nobody", "nothing", "dots", "eightbit", "longlines", "loneterm", "sheet", "sheet8")


class Mismatch(Exception):
    """A reply other than the expected one, or a capability that is missing or should be."""


def main():
    options = arguments()
    try:
        {"send": send, "submit": submit, "auth": auth, "session": session}[options.verb](options)
    except Mismatch as trouble:
        fail(str(trouble))
    except (smtplib.SMTPException, OSError) as trouble:
        fail(f"{type(trouble).__name__}: {trouble}")


# --- send ---------------------------------------------------------------------------------------------------------


def send(options):
    """Sends COUNT rounds of every shape and size, over as few connections as --per-connection allows."""
    work = [(shape, None) for shape in options.shapes] + [("plain", size) for size in options.sizes]
    ledger = open(options.ledger, "a", encoding="utf-8") if options.ledger else None
    client, sent_here, sent = None, 0, 0
    for _ in range(options.count):
        for shape, size in work:
            if client is None or sent_here == options.per_connection:
                if client:
                    finish(client)
                client, sent_here = connect(options), 0
            record = send_one(client, options, shape, size)
            sent_here, sent = sent_here + 1, sent + 1
            if ledger:
                ledger.write(json.dumps(record) + "\n")
    if client:
        finish(client)
    if ledger:
        ledger.close()
    print(f"sent {sent}")


def submit(options):
    """Sends one message under TLS; each of its parameters must be of an extension that is offered."""
    options.tls = True
    client = connect(options)
    for option in options.mail_option:
        name = "dsn" if option.startswith("RET=") else option
        if not client.has_extn(name):
            raise Mismatch(f"EHLO under TLS does not offer {name.upper()}, only {sorted(client.esmtp_features)}")
    lines = ["Subject: submitted", *options.header, "", "Hello.", ""]
    same("MAIL", client.mail(options.sender, options.mail_option), 250)
    for recipient in options.to:
        same("RCPT", client.rcpt(recipient), 250)
    same("DATA", client.data("\r\n".join(lines).encode()), 250)
    finish(client)


def send_one(client, options, shape, size):
    ident = uuid.uuid4().hex
    content = message(ident, options, shape, size)
    mail_options = []
    if any(octet > 127 for octet in content):
        if not client.has_extn("8bitmime"):
            raise Mismatch(f"message of shape {shape} needs 8BITMIME, which the server does not offer")
        mail_options.append("BODY=8BITMIME")
    if client.has_extn("size"):
        mail_options.append(f"SIZE={len(content)}")
    expect = {"mail": 250, "rcpt": 250, "data": 250, **options.expect}

    what = f"message {ident} ({shape}, {len(content)} octets)"
    reply = client.mail(options.sender, mail_options)
    done = not same(f"{what}: MAIL FROM:<{options.sender}> {' '.join(mail_options)}", reply, expect["mail"])
    if not done:
        for to in options.to:
            reply = client.rcpt(to)
            done = not same(f"{what}: RCPT TO:<{to}>", reply, expect["rcpt"]) or done
    if not done:
        try:
            reply = chunked(client, content, options.chunks) if options.chunks else client.data(content)
        except smtplib.SMTPDataError as refusal:
            # smtplib raises this when DATA itself is refused; for the test it is a reply like any other.
            reply = (refusal.smtp_code, refusal.smtp_error)
        done = not same(f"{what}: DATA", reply, expect["data"])
    if done:
        same("RSET", client.rset(), 250)
    return {
        "id": ident,
        "shape": shape,
        "octets": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "code": reply[0],
        "reply": text(reply),
    }


def chunked(client, content, octets):
    """Sends content by BDAT in chunks of OCTETS; the reply to the last."""
    if not client.has_extn("chunking"):
        raise Mismatch("EHLO does not offer CHUNKING")
    while len(content) > octets:
        client.send(b"BDAT %d\r\n" % octets + content[:octets])
        same("BDAT", client.getreply(), 250)
        content = content[octets:]
    client.send(b"BDAT %d LAST\r\n" % len(content) + content)
    return client.getreply()


def message(ident, options, shape, size):
    """The message as it must arrive: CRLF lines, the last one ended. SIZE counts all of it, dot stuffing apart."""
    if shape == "nothing":
        # Not a header, not a line: smtplib then sends the CRLF that the final dot's line needs, and only that.
        return CRLF
    head = CRLF.join(
        line.encode()
        for line in (
            f"From: <{options.sender}>",
            # An address a line: many in one would be longer than a line may be.
            "To: " + ",\r\n ".join(f"<{to}>" for to in options.to),
            f"Subject: {shape}",
            # Complete on purpose: what is missing, a relay may add behind these lines, and the octets would differ.
            f"Date: {email.utils.formatdate()}",
            f"Message-ID: <{ident}@smtp-client.test>",
            "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8",
            "Content-Transfer-Encoding: 8bit",
        )
    )
    head += CRLF
    if shape == "nobody":
        return head
    head += CRLF
    if shape == "plain":
        return head + filler((size if size is not None else 10240) - len(head))
    return head + CRLF.join(BODIES[shape]) + CRLF


def filler(octets):
    """Lines of 78 octets and a CRLF; the last line is as long as the wanted size leaves."""
    if octets <= 0:
        return b""
    if octets == 1:
        raise SystemExit("a body of 1 octet cannot end in CRLF: choose another size")
    full, rest = divmod(octets, 80)
    if full and rest == 1:
        full, rest = full - 1, rest + 80
    return (b"x" * 78 + CRLF) * full + (b"y" * (rest - 2) + CRLF if rest else b"")


def sheet(text):
    """A few lines in some hundred begin with a dot, as selectors in a style sheet do, far apart; the first does."""
    return [(b".rule%d { " % number if number % 90 == 0 else b"  ") + text * 8 for number in range(600)]


BODIES = {
    "sheet": sheet(b"plain "),
    "sheet8": sheet("größer ".encode()),
    "dots": [b".", b"..", b"...", b".a", b"", b".", b"a.", b" .", b". ", b"." * LINE_MAX_OCTETS, b"."],
    "eightbit": ["Grüße, здравствуйте, こんにちは".encode(), bytes(range(128, 256)), b"\xff\xfe\x80"],
    "longlines": [b"l" * LINE_MAX_OCTETS] * 40 + [b"", b"m" * (LINE_MAX_OCTETS - 1), b"."],
    # What a server that searches carelessly takes for the end of the message.
    "loneterm": [b"QUIT", b".", b"MAIL FROM:<smuggled@example.test>", b"250 ok", b".", b"DATA", b"", b"", b"."],
}


# --- auth ---------------------------------------------------------------------------------------------------------


def auth(options):
    """One login. With --expect auth=535 the refusal is what must happen; afterwards the session must still live."""
    client = plain_connection(options)
    if not options.no_tls:
        offered = mechanisms(client)
        if offered and not options.auth_without_tls:
            raise Mismatch(f"AUTH {' '.join(offered)} offered before STARTTLS")
        starttls(client)
    login(client, options)
    same("NOOP", client.noop(), 250)
    finish(client)
    print(f"auth {options.mechanism} as expected")


def login(client, options):
    if options.mechanism.upper() not in mechanisms(client):
        raise Mismatch(f"AUTH {options.mechanism.upper()} not offered, but {' '.join(mechanisms(client)) or 'nothing'}")
    client.user, client.password = options.user, options.password
    challenge = {"plain": client.auth_plain, "login": client.auth_login}[options.mechanism]
    try:
        reply = client.auth(options.mechanism, challenge, initial_response_ok=not options.no_initial_response)
    except smtplib.SMTPAuthenticationError as refusal:
        reply = (refusal.smtp_code, refusal.smtp_error)
    same(f"AUTH {options.mechanism.upper()} as {options.user}", reply, options.expect.get("auth", 235))


def mechanisms(client):
    return client.esmtp_features.get("auth", "").upper().split()


# --- session ------------------------------------------------------------------------------------------------------


def session(options):
    """Commands a careless client sends, each with the replies RFC 5321 allows, and the session alive after each."""
    sender, to = options.sender, options.to[0]
    client = smtplib.SMTP(options.host, options.port, options.helo, options.timeout)
    for command, codes in (
        ("NOOP", [250]),
        (f"RCPT TO:<{to}>", [503]),
        (f"HELO {options.helo}", [250]),
        (f"EHLO {options.helo}", [250]),
        ("XYZZY", [500, 502]),
        ("DATA", [503, 554]),
        (f"MAIL {sender}", [501, 500]),
        ("MAIL FROM:", [501, 500]),
        (f"MAIL FROM:<{sender}>", [250]),
        (f"MAIL FROM:<{sender}>", [503]),
        ("DATA", [503, 554]),
        ("RCPT TO:<>", [501, 553]),
        (f"RCPT TO:<{to}>", [250]),
        ("RSET", [250]),
        (f"RCPT TO:<{to}>", [503]),
        ("NOOP with words", [250]),
        ("MAIL FROM:<>", [250]),
        (f"RCPT TO:<{to}>", [250]),
        (f"EHLO {options.helo}", [250]),
        ("DATA", [503, 554]),
        ("VRFY postmaster", [250, 252, 502]),
        ("QUIT", [221]),
    ):
        same(command, client.docmd(command), *codes)
    client.close()
    print("session as expected")


# --- shared -------------------------------------------------------------------------------------------------------


def connect(options):
    client = plain_connection(options)
    if options.tls:
        starttls(client)
    if options.user is not None:
        login(client, options)
    return client


def plain_connection(options):
    # Connects too, and raises SMTPConnectError for any greeting but 220; STARTTLS needs the host given here.
    client = smtplib.SMTP(options.host, options.port, options.helo, options.timeout)
    same(f"EHLO {options.helo}", client.ehlo(), 250)
    for name in options.offers:
        if not client.has_extn(name):
            raise Mismatch(f"EHLO does not offer {name.upper()}, only {sorted(client.esmtp_features)}")
    return client


def starttls(client):
    if not client.has_extn("starttls"):
        raise Mismatch(f"EHLO does not offer STARTTLS, only {sorted(client.esmtp_features)}")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    same("STARTTLS", client.starttls(context=context), 220)
    same("EHLO after STARTTLS", client.ehlo(), 250)
    if client.has_extn("starttls"):
        raise Mismatch("STARTTLS offered again inside TLS")


def finish(client):
    same("QUIT", client.quit(), 221)


def same(what, reply, *expected):
    """Checks a reply; returns whether it was a positive one."""
    if reply[0] not in expected:
        raise Mismatch(f"{what}: expected {' or '.join(map(str, expected))}, got {reply[0]} {text(reply)}")
    return reply[0] < 400


def text(reply):
    return reply[1].decode("utf-8", "replace").replace("\n", " / ")


def fail(line):
    print(f"smtp_client: {line}", file=sys.stderr)
    sys.exit(1)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    verbs = parser.add_subparsers(dest="verb", required=True)
    common = argparse.ArgumentParser(add_help=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    common.add_argument("--from", dest="sender", default="sender@example.test")
    common.add_argument("--to", action="append", help="a recipient; may be repeated (default rcpt@example.test)")
    common.add_argument("--helo", default="client.example.test")
    common.add_argument("--timeout", type=float, default=30.0, help="seconds for every reply")
    common.add_argument("--offers", type=words, default=[], help="extensions EHLO must offer, comma separated")
    common.add_argument("--expect", type=expectation, action="append", help="STAGE=CODE: mail, rcpt, data or auth")
    common.add_argument("--user")
    common.add_argument("--password", default="")
    common.add_argument("--mechanism", choices=("plain", "login"), default="plain")
    common.add_argument("--no-initial-response", action="store_true", help="AUTH without its first answer in the line")

    one = verbs.add_parser("send", parents=[common])
    one.add_argument("--count", type=int, default=1, help="rounds through all shapes and sizes")
    one.add_argument("--shapes", type=words, default=list(SHAPES), help="comma separated; '' for none")
    one.add_argument("--sizes", type=sizes, default=[1024, 10240, 102400], help="plain messages of so many octets")
    one.add_argument("--per-connection", type=int, default=10, help="messages before a new connection")
    one.add_argument("--tls", action="store_true", help="STARTTLS first")
    one.add_argument("--chunks", type=int, default=0, help="send content by BDAT in chunks of so many octets; 0 by DATA")
    one.add_argument("--ledger", help="file that gets a JSON line for every message")
    three = verbs.add_parser("submit", parents=[common])
    three.add_argument("--mail-option", action="append", default=[], help="a parameter of MAIL; may be repeated")
    three.add_argument("--header", action="append", default=[], help="a header field; may be repeated")
    two = verbs.add_parser("auth", parents=[common])
    two.add_argument("--no-tls", action="store_true", help="try it in the clear")
    two.add_argument("--auth-without-tls", action="store_true", help="do not mind AUTH offered before STARTTLS")
    verbs.add_parser("session", parents=[common])

    options = parser.parse_args()
    options.to = options.to or ["rcpt@example.test"]
    options.expect = dict(options.expect or [])
    if options.verb == "auth" and options.user is None:
        parser.error("auth needs --user")
    unknown = [shape for shape in getattr(options, "shapes", []) if shape not in SHAPES]
    if unknown:
        parser.error(f"no shape {unknown[0]}; there are {', '.join(SHAPES)}")
    return options


def words(value):
    return [word for word in value.split(",") if word]


def sizes(value):
    return [int(word) for word in words(value)]


def expectation(value):
    stage, _, code = value.partition("=")
    if stage not in ("mail", "rcpt", "data", "auth") or not code.isdigit():
        raise argparse.ArgumentTypeError(f"'{value}' is not STAGE=CODE with a stage of mail, rcpt, data, auth")
    return stage, int(code)


if __name__ == "__main__":
    main()
