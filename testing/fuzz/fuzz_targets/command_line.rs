//! Command lines: the line reader and the command parser.
//!
//! Input: an octet that chooses the limit, one that chooses the pieces, then what a client sends.
//! Checked: the reader finds the lines a split at LF finds, wherever the input is cut, and never
//! holds more than the limit; the parser survives everything; what it accepts has no control
//! characters, does not depend on the verb's case or on blanks at the end, and holds addresses
//! that read back as themselves.

#![no_main]

use fuzz::pieces;
use libfuzzer_sys::fuzz_target;
use smtp_wire::address::split_path;
use smtp_wire::line::{AUTH_LINE_OCTETS_MAX, COMMAND_LINE_OCTETS_MAX, Line, LineReader};
use smtp_wire::{Command, Mailbox, ReversePath};

fuzz_target!(|data: &[u8]| {
    let [limit, cuts, input @ ..] = data else { return };
    let octets_max = [16, 64, COMMAND_LINE_OCTETS_MAX, AUTH_LINE_OCTETS_MAX][usize::from(limit % 4)];
    let lines = read(&pieces(*cuts, input), octets_max);
    assert_eq!(lines, reference(input, octets_max));
    for line in lines.into_iter().flatten() {
        parse(&line);
    }
});

/// Every line as text, `None` for one over the limit.
fn read(pieces: &[&[u8]], octets_max: usize) -> Vec<Option<Vec<u8>>> {
    let mut reader = LineReader::new();
    let mut unread = Vec::new();
    let mut lines = Vec::new();
    for piece in pieces {
        unread.extend_from_slice(piece);
        loop {
            let (line, consumed) = match reader.next(&unread, octets_max) {
                Line::Complete { text, consumed } => (Some(text.to_vec()), consumed),
                Line::TooLong { consumed } => (None, consumed),
                Line::Incomplete { consumed } => {
                    unread.drain(..consumed);
                    break;
                }
            };
            unread.drain(..consumed);
            lines.push(line);
        }
        assert!(unread.len() < octets_max, "{} octets are kept", unread.len());
    }
    lines
}

fn reference(input: &[u8], octets_max: usize) -> Vec<Option<Vec<u8>>> {
    let whole = input.split_inclusive(|octet| *octet == b'\n').filter(|line| line.ends_with(b"\n"));
    let text = |line: &[u8]| {
        let line = &line[..line.len() - 1];
        line.strip_suffix(b"\r").unwrap_or(line).to_vec()
    };
    whole.map(|line| (line.len() <= octets_max).then(|| text(line))).collect()
}

fn parse(line: &[u8]) {
    let parsed = Command::parse(line);
    assert_eq!(Command::parse(&[line, b" \t "].concat()), parsed, "blanks at the end");
    let verb_end = line.iter().position(|octet| matches!(octet, b' ' | b'\t')).unwrap_or(line.len());
    let mut swapped = line.to_vec();
    swapped[..verb_end].iter_mut().for_each(|octet| *octet ^= if octet.is_ascii_alphabetic() { 0x20 } else { 0 });
    assert_eq!(Command::parse(&swapped), parsed, "the verb's case");
    let Ok(command) = parsed else { return };
    assert!(!line.iter().any(|octet| *octet < b' ' && *octet != b'\t' || *octet == 0x7f));
    match command {
        Command::Mail { sender, params } => {
            assert_eq!(ReversePath::parse(sender.as_str()), Ok(sender.clone()));
            sender.0.iter().for_each(address);
            assert!(params.envid.is_none_or(|envid| !envid.contains(char::is_control)));
        }
        Command::Rcpt { recipient, params } => {
            address(&recipient);
            assert!(params.orcpt.is_none_or(|orcpt| !orcpt.address.contains(char::is_control)));
        }
        Command::Bdat { octets, last } => {
            let again = format!("BDAT {octets}{}", if last { " LAST" } else { "" });
            assert_eq!(Command::parse(again.as_bytes()), Ok(Command::Bdat { octets, last }));
        }
        _ => {}
    }
}

fn address(mailbox: &Mailbox) {
    let text = mailbox.as_str();
    assert_eq!(Mailbox::parse(text).as_ref(), Ok(mailbox));
    assert_eq!(split_path(&format!("<{text}> X")), Ok((text, " X")), "an address leaves its brackets");
    assert!(!mailbox.domain().contains(['@', '<', '>', ' ']));
    let _ = mailbox.user();
}
