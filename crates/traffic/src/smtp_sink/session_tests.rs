//! Transcripts of the sink's session, whole and at every split.

use clap::Parser as _;

use super::super::{Options, Sink};
use super::*;

fn sink(arguments: &[&str]) -> Sink {
    let options = Options::try_parse_from(std::iter::once(&"smtp-sink").chain(arguments)).expect("arguments");
    Sink::new(options).expect("sink")
}

/// Feeds the pieces in order; returns the reply codes and the last step.
fn talk<'a>(sink: &Sink, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Step) {
    let mut session = Session::new();
    let mut replies = Vec::new();
    let mut last = Step::More;
    'pieces: for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let (used, step) = session.feed(sink, rest, &mut replies);
            rest = &rest[used..];
            last = step;
            if step == Step::Close {
                break 'pieces;
            }
        }
    }
    let text = String::from_utf8(replies).expect("ASCII replies");
    let codes = text.split_terminator("\r\n").map(|line| line[..4].trim_end().to_owned());
    (codes.collect(), last)
}

fn codes(arguments: &[&str], wire: &[u8]) -> String {
    talk(&sink(arguments), [wire]).0.join(" ")
}

const ONE_MESSAGE: &[u8] = b"MAIL FROM:<>\r\nRCPT TO:<a@b.test>\r\nDATA\r\nA: b\r\n\r\n..x\r\n.\r\n";

#[test]
fn two_pipelined_messages_at_every_split() {
    let sink = sink(&[]);
    let wire = [b"EHLO me\r\n", ONE_MESSAGE, ONE_MESSAGE, b"QUIT\r\n"].concat();
    let want = "250- 250- 250- 250- 250- 250 250 250 354 250 250 250 354 250 221";
    for split in 0..=wire.len() {
        let (codes, step) = talk(&sink, [&wire[..split], &wire[split..]]);
        assert_eq!(codes.join(" "), want, "{split}");
        assert_eq!(step, Step::Close);
    }
    assert_eq!(talk(&sink, wire.chunks(1)).0.join(" "), want);
    assert_eq!(sink.count().received, 2 * (wire.len() as u64 + 2));
}

#[test]
fn commands_out_of_order_or_malformed() {
    for (wire, want) in [
        (&b"RCPT TO:<a@b.test>\r\n"[..], "503"),
        (b"DATA\r\n", "503"),
        (b"MAIL FROM:<a@b.test>\r\nDATA\r\n", "250 554"),
        (b"MAIL FROM:<a@b.test>\r\nMAIL FROM:<>\r\n", "250 503"),
        (b"MAIL a@b.test\r\nMAIL FROM:a@b.test\r\nMAIL FROM:<a\r\n", "501 501 501"),
        (b"MAIL FROM:<>\r\nRCPT TO:<>\r\nRCPT TO:<a,b>\r\n", "250 501 501"),
        (b"mail from: <a@b.test> SIZE=5 BODY=8BITMIME\r\nrcpt to:<x@y.test>\r\n", "250 250"),
        (b"MAIL FROM:<>\r\nRSET\r\nRCPT TO:<a@b.test>\r\n", "250 250 503"),
        (b"EHLO\r\nHELO me\r\nNOOP\r\nVRFY x\r\nHELP\r\n", "501 250 250 252 214"),
        (b"STARTTLS\r\nAUTH PLAIN\r\nBDAT 5\r\n\r\nFOO\r\n", "502 502 502 500 500"),
        (b"NOOP\nDATA x\r\n", "250 501"),
    ] {
        assert_eq!(codes(&[], wire), want, "{}", wire.escape_ascii());
    }
}

#[test]
fn command_lines_are_bounded() {
    for (length, want) in [
        (COMMAND_LINE_BYTES_MAX, "250 250"),
        (COMMAND_LINE_BYTES_MAX + 1, "500 250"),
        (3 * COMMAND_LINE_BYTES_MAX, "500 250"),
    ] {
        let mut wire = b"NOOP ".to_vec();
        wire.resize(length - 2, b'x');
        wire.extend_from_slice(b"\r\nNOOP\r\n");
        assert_eq!(codes(&[], &wire), want, "{length}");
        assert_eq!(talk(&sink(&[]), wire.chunks(100)).0.join(" "), want, "{length} in pieces");
    }
}

#[test]
fn recipients_and_errors_are_bounded() {
    let mut wire = b"MAIL FROM:<>\r\n".to_vec();
    wire.extend(b"RCPT TO:<a@b.test>\r\n".repeat(RECIPIENTS_MAX + 1));
    let (codes, _) = talk(&sink(&[]), [&wire[..]]);
    assert_eq!(codes[RECIPIENTS_MAX], "250");
    assert_eq!(codes[RECIPIENTS_MAX + 1], "452");

    let wire = b"FOO\r\n".repeat(ERRORS_MAX as usize + 5);
    let (codes, step) = talk(&sink(&[]), [&wire[..]]);
    assert_eq!(codes.len(), ERRORS_MAX as usize + 1);
    assert_eq!((codes[ERRORS_MAX as usize].as_str(), step), ("421", Step::Close));
}

#[test]
fn faults_on_demand() {
    let four = ONE_MESSAGE.repeat(4);
    let half = codes(&["--fail-rate", "50", "--fail-code", "550"], &four);
    assert_eq!(half.matches("354 250").count(), 2);
    assert_eq!(half.matches("354 550").count(), 2);

    let arguments = ["--max-messages-per-connection", "2"];
    let (capped, step) = talk(&sink(&arguments), [&four[..]]);
    assert_eq!(capped.join(" "), "250 250 354 250 250 250 354 250 421");
    assert_eq!(step, Step::Close);

    let (dropped, step) = talk(&sink(&["--drop-after-dot", "50"]), [&four[..]]);
    assert_eq!(dropped.join(" "), "250 250 354 250 250 250 354");
    assert_eq!(step, Step::Close);

    let delayed = sink(&["--delay-ms", "1"]);
    let mut session = Session::new();
    let mut replies = Vec::new();
    let (used, step) = session.feed(&delayed, &four, &mut replies);
    assert_eq!((used, step), (ONE_MESSAGE.len(), Step::Pause));
}
