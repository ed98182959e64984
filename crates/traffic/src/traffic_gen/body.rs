//! The body all messages of a run share: made or read once, checksummed once, dot-stuffed once.
//!
//! In: a size, or a file. Out: the bytes as they go over the wire, the same as a JSON string, and the checksum of the
//! content below the header block. Made bodies are the same for the same size, hold text of varied characters, and
//! begin some lines with one to three dots so that every transfer exercises dot-stuffing.

use std::path::{Path, PathBuf};

use memchr::memmem;

/// Content shared by all messages, without the header block made for each.
pub(super) struct Body {
    /// Dot-stuffed, ending with CRLF unless empty.
    pub smtp: Box<[u8]>,
    /// The unstuffed content as the inside of a JSON string.
    pub json: Box<[u8]>,
    /// CRC-32 of the unstuffed content after the header block.
    pub check: u32,
    /// Octets that it is the checksum of.
    pub checked_octets: u64,
    /// The content brings its own header block, so that only our two marks go above it.
    pub has_header: bool,
    /// It has bytes above 127.
    pub is_8bit: bool,
}

/// Why a `--body-file` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It cannot be read.
    #[error("--body-file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// HTTP injection carries JSON, which is UTF-8.
    #[error("--body-file {path} is not UTF-8, which --http needs")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
}

impl Body {
    /// A body of `bytes` bytes, line ends included.
    pub(super) fn of_size(bytes: usize) -> Self {
        let content = text(bytes);
        Self {
            smtp: stuff(&content),
            json: json(&String::from_utf8_lossy(&content)),
            check: crc32fast::hash(&content),
            checked_octets: content.len() as u64,
            has_header: false,
            is_8bit: false,
        }
    }

    /// The content of a file with its line ends made CRLF. A file that begins with a header field is taken as a whole
    /// message, any other as a body.
    pub(super) fn from_file(path: &Path, for_http: bool) -> Result<Self, BodyError> {
        let raw = std::fs::read(path).map_err(|source| BodyError::Read { path: path.to_owned(), source })?;
        let content = with_crlf(&raw);
        let json = match std::str::from_utf8(&content) {
            Ok(text) => json(text),
            Err(_) if for_http => {
                return Err(BodyError::NotUtf8 { path: path.to_owned() });
            }
            Err(_) => Box::default(),
        };
        let has_header = begins_with_field(&content);
        let below_header = match memmem::find(&content, b"\r\n\r\n") {
            Some(end) if has_header => &content[end + 4..],
            None if has_header => &[],
            _ => &content[..],
        };
        Ok(Self {
            smtp: stuff(&content),
            json,
            check: crc32fast::hash(below_header),
            checked_octets: below_header.len() as u64,
            has_header,
            is_8bit: !content.is_ascii(),
        })
    }
}

/// Lines of 76 characters. Of each 168 lines the 4th, 10th and 17th begin with dots, and of the rest one in 82 by chance.
fn text(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(TEXT_SEED);
    let mut text = Vec::with_capacity(bytes + LINE_CHARACTERS + 2);
    let mut line = 0_usize;
    while text.len() + 2 < bytes {
        let characters = LINE_CHARACTERS.min(bytes - text.len() - 2);
        let line_start = text.len();
        text.extend((0..characters).map(|_| CHARACTERS[random.usize(..CHARACTERS.len())]));
        let dots = match line % DOTTED_PERIOD {
            3 => 1,
            9 => 2,
            16 => 3,
            _ => 0,
        };
        let dots_end = line_start + characters.min(dots);
        text[line_start..dots_end].fill(b'.');
        text.extend_from_slice(b"\r\n");
        line += 1;
    }
    text
}

fn stuff(content: &[u8]) -> Box<[u8]> {
    let mut stuffed = Vec::with_capacity(content.len() + content.len() / 64);
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        // Every LF has its CR here, so every line of this split is one of SMTP.
        if line.first() == Some(&b'.') {
            stuffed.push(b'.');
        }
        stuffed.extend_from_slice(line);
    }
    stuffed.into_boxed_slice()
}

/// CR, LF and CRLF each become CRLF; a last line without end gets one.
fn with_crlf(raw: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(raw.len() + raw.len() / 32);
    let mut after_cr = false;
    for &byte in raw {
        match byte {
            b'\n' if after_cr => {}
            b'\r' | b'\n' => content.extend_from_slice(b"\r\n"),
            _ => content.push(byte),
        }
        after_cr = byte == b'\r';
    }
    if !content.is_empty() && !content.ends_with(b"\r\n") {
        content.extend_from_slice(b"\r\n");
    }
    content
}

fn begins_with_field(content: &[u8]) -> bool {
    let name_end = content.iter().position(|byte| !byte.is_ascii_graphic() || *byte == b':');
    name_end.is_some_and(|end| end > 0 && content[end] == b':')
}

/// The text as it stands between the quotes of a JSON string.
fn json(text: &str) -> Box<[u8]> {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.as_bytes()[1..quoted.len() - 1].into()
}

const LINE_CHARACTERS: usize = 76;
/// Lines until dots begin lines again.
const DOTTED_PERIOD: usize = 168;
/// No braces: an injection API may take them for a template.
const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789      .,;:!?-+*/()=_";
const TEXT_SEED: u64 = 0x706f_7374_7269_6465;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_met_and_lines_are_legal() {
        for bytes in [0, 1, 2, 3, 4, 77, 78, 79, 80, 81, 10_000, 100_000] {
            let content = text(bytes);
            assert!(content.len().abs_diff(bytes) <= 2, "{bytes}: {}", content.len());
            assert!(content.is_empty() || content.ends_with(b"\r\n"));
            assert!(content.split(|&byte| byte == b'\n').all(|line| line.len() <= 77));
        }
        let content = text(10_000);
        for start in [&b"\r\n.."[..], b"\r\n...", b"\r\n."] {
            assert!(memmem::find(&content, start).is_some());
        }
        let dotted = |bytes| text(bytes).split(|&byte| byte == b'\n').filter(|line| line.starts_with(b".")).count();
        assert_eq!([1_000, 10_000, 100_000].map(dotted), [2, 3, 36]);
    }

    #[test]
    fn stuffing_doubles_leading_dots_only() {
        assert_eq!(*stuff(b".\r\n..a\r\nb.\r\n\r\n"), *b"..\r\n...a\r\nb.\r\n\r\n");
        assert_eq!(*stuff(b""), *b"");
    }

    #[test]
    fn files_with_and_without_a_header() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let path = folder.path().join("body");
        for (raw, smtp, checked, has_header) in [
            ("Subject: x\nTo: y\n\n.a\nb", "Subject: x\r\nTo: y\r\n\r\n..a\r\nb\r\n", ".a\r\nb\r\n", true),
            ("just text\r\n", "just text\r\n", "just text\r\n", false),
            ("one\rtwo\n\rthree", "one\r\ntwo\r\n\r\nthree\r\n", "one\r\ntwo\r\n\r\nthree\r\n", false),
            ("Subject: no body\n", "Subject: no body\r\n", "", true),
            ("", "", "", false),
        ] {
            std::fs::write(&path, raw).expect("write");
            let body = Body::from_file(&path, true).expect("read");
            assert_eq!(String::from_utf8_lossy(&body.smtp), smtp);
            assert_eq!(body.check, crc32fast::hash(checked.as_bytes()), "{raw:?}");
            assert_eq!(body.has_header, has_header, "{raw:?}");
        }
        std::fs::write(&path, b"\xff\n").expect("write");
        assert!(Body::from_file(&path, false).expect("read").is_8bit);
        assert!(matches!(Body::from_file(&path, true), Err(BodyError::NotUtf8 { .. })));
        assert!(matches!(Body::from_file(&folder.path().join("none"), false), Err(BodyError::Read { .. })));
    }
}
