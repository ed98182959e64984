//! Replies of a server: the reply reader and the capabilities of an EHLO reply.
//!
//! Input: an octet that chooses the pieces, then what a server sends. Checked: the same replies
//! come out wherever the input is cut; text is bounded and has nothing that breaks a log line; a
//! reply that is written reads back as itself.

#![no_main]

use fuzz::pieces;
use libfuzzer_sys::fuzz_target;
use smtp_wire::reply_reader::{MalformedReply, REPLY_LINES_MAX, REPLY_TEXT_BYTES_MAX, ReplyReader};
use smtp_wire::{Capabilities, Reply};

fuzz_target!(|data: &[u8]| {
    let [cuts, input @ ..] = data else { return };
    let replies = read(&[input]);
    assert_eq!(read(&pieces(*cuts, input)), replies);
    for reply in replies.into_iter().flatten() {
        check(&reply);
    }
});

/// Every result; reading goes on behind an error, as a new reader would.
fn read(pieces: &[&[u8]]) -> Vec<Result<Reply, MalformedReply>> {
    let mut reader = ReplyReader::new();
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            found.extend(reader.read(&mut rest));
        }
    }
    found
}

fn check(reply: &Reply) {
    assert!((200..=599).contains(&reply.code));
    assert!(!reply.text.contains(|c: char| c.is_control() && c != '\n'), "{:?}", reply.text);
    assert!(!reply.to_single_line().contains(char::is_control));
    // An octet that is no UTF-8 takes three as U+FFFD.
    assert!(reply.text.len() <= 3 * REPLY_TEXT_BYTES_MAX);
    assert!(reply.text.split('\n').count() <= REPLY_LINES_MAX);
    assert!(reply.enhanced.is_none_or(|e| u16::from(e.class) == reply.code / 100));
    let capabilities = Capabilities::from_ehlo(reply);
    assert!(capabilities.auth.iter().all(|mechanism| capabilities.offers_auth(mechanism)));
    let is_short = reply.text.split('\n').all(|line| line.len() < 4000) && reply.text.len() < 60_000;
    if is_short {
        let mut wire = Vec::new();
        reply.write_to(&mut wire);
        let written = wire.iter().filter(|octet| **octet == b'\n').count();
        if written > REPLY_LINES_MAX {
            // Lines of more than 512 octets are several, and then there may be too many.
            return;
        }
        let again = read(&[&wire]);
        let [Ok(again)] = &again[..] else { panic!("{reply:?} reads back as {again:?}") };
        assert_eq!((again.code, again.enhanced), (reply.code, reply.enhanced));
        match written == reply.text.split('\n').count() {
            true => assert_eq!(lines(again), lines(reply)),
            false => assert_eq!(without_blanks(again), without_blanks(reply)),
        }
    }
}

/// The text of a reply, wherever its lines end.
fn without_blanks(reply: &Reply) -> String {
    reply.text.replace([' ', '\n'], "")
}

/// The lines of a reply; blanks between the enhanced code and the text are not kept.
fn lines(reply: &Reply) -> Vec<&str> {
    reply.text.split('\n').map(|line| line.trim_start_matches(' ')).collect()
}
