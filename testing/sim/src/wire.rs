//! Mail as clients write it and peers read it: made here, not by the code under test.

use crate::dice::Dice;

/// The content of a transaction: a header block and a body, CRLF line ends.
pub(crate) fn content(dice: &mut Dice, number: usize, body_octets: usize, eight_bit: bool) -> Vec<u8> {
    let mut out = format!("Subject: number {number}\r\nX-Number: {number}\r\n\r\n").into_bytes();
    let end = out.len() + body_octets;
    while out.len() < end {
        match dice.below(6) {
            0 => out.extend_from_slice(b".\r\n"),
            1 => out.extend_from_slice(b"..leading dots\r\n"),
            2 => out.extend_from_slice(b"\r\n"),
            3 if eight_bit => out.extend_from_slice("caf\u{e9}\r\n".as_bytes()),
            _ => {
                let length = dice.below(90);
                out.extend((0..length).map(|i| b'a' + ((i + out.len()) % 26) as u8).collect::<Vec<u8>>());
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    out
}

/// The number in content made by [`content`].
pub(crate) fn number_in(content: &[u8]) -> Option<usize> {
    let line = content.split(|o| *o == b'\r').next()?;
    core::str::from_utf8(line).ok()?.strip_prefix("Subject: number ")?.parse().ok()
}

/// Content with dots stuffed and the final dot (RFC 5321 section 4.5.2).
pub(crate) fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 16);
    for line in content.split_inclusive(|o| *o == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    out.extend_from_slice(b".\r\n");
    out
}

/// Takes one line without its CRLF from the front.
pub(crate) fn take_line(input: &mut Vec<u8>) -> Option<String> {
    let end = input.windows(2).position(|w| w == b"\r\n")?;
    let line: Vec<u8> = input.drain(..end + 2).collect();
    Some(String::from_utf8_lossy(&line[..end]).into_owned())
}

/// Takes stuffed content with its final dot from the front, and unstuffs it.
pub(crate) fn take_content(input: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = match input.starts_with(b".\r\n") {
        true => 0,
        false => input.windows(5).position(|w| w == b"\r\n.\r\n")? + 2,
    };
    let wire: Vec<u8> = input.drain(..end + 3).collect();
    let lines = wire[..end].split_inclusive(|o| *o == b'\n');
    Some(lines.flat_map(|line| line.strip_prefix(b".").unwrap_or(line)).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stuffed_comes_out_again() {
        for text in ["", "a\r\n", ".\r\n", "..\r\n.x\r\n\r\n", "\r\n.\r\n"] {
            let mut wire = stuffed(text.as_bytes());
            wire.extend_from_slice(b"QUIT\r\n");
            assert_eq!(take_content(&mut wire).as_deref(), Some(text.as_bytes()), "{text:?}");
            assert_eq!(take_line(&mut wire).as_deref(), Some("QUIT"));
        }
        assert_eq!(take_content(&mut b"a\r\n.\r".to_vec()), None);
    }
}
