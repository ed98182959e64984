//! The text of a `DKIM-Signature` field: tags in order, folded at a readable width.
//!
//! In: tags, names, base64. Out: the field's bytes. Cannot fail.
//! Folds stand only where RFC 6376 section 3.5 allows white space: between tags, after a colon in
//! `h=`, inside `b=`. The value of `b=` comes last, so what is signed is simply all text before it.

/// A field being written.
pub(crate) struct FieldWriter {
    out: Vec<u8>,
    column: usize,
}

impl FieldWriter {
    pub(crate) fn new() -> FieldWriter {
        FieldWriter { out: Vec::with_capacity(FIELD_BYTES_EXPECTED), column: 0 }
    }

    /// Begins with text that is already folded, such as the unchanging tags of a signer.
    pub(crate) fn begin(text: &[u8]) -> FieldWriter {
        let mut writer = FieldWriter::new();
        writer.out.extend_from_slice(text);
        let line = memchr::memrchr(b'\n', text).map_or(0, |lf| lf + 1);
        writer.column = text.len() - line;
        writer
    }

    /// Writes the next tag (or the first part of one) after a space or a fold.
    pub(crate) fn tag(&mut self, text: &str) {
        if self.column + 1 + text.len() > LINE_WIDTH {
            self.fold();
        } else if self.column > 0 {
            self.out.push(b' ');
            self.column += 1;
        }
        self.push(text.as_bytes());
    }

    /// Writes the next part of the tag before, after a fold when there is no room.
    pub(crate) fn part(&mut self, text: &str) {
        if self.column + text.len() > LINE_WIDTH {
            self.fold();
        }
        self.push(text.as_bytes());
    }

    /// Writes the value of the last tag, cut at the line width, and ends the field.
    pub(crate) fn finish(mut self, base64: &str) -> Vec<u8> {
        let mut rest = base64.as_bytes();
        while !rest.is_empty() {
            let room = LINE_WIDTH.saturating_sub(self.column);
            if room == 0 {
                self.fold();
                continue;
            }
            let (line, after) = rest.split_at(room.min(rest.len()));
            self.push(line);
            rest = after;
        }
        self.out.extend_from_slice(b"\r\n");
        self.out
    }

    /// The text written so far.
    pub(crate) fn text(&self) -> &[u8] {
        &self.out
    }

    fn fold(&mut self) {
        self.out.extend_from_slice(b"\r\n\t");
        self.column = 1;
    }

    fn push(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
        self.column += text.len();
    }
}

/// Columns of a line, the tab of a continuation counted as one.
const LINE_WIDTH: usize = 76;

/// An RSA-2048 signature field with a usual `h=`, in bytes.
const FIELD_BYTES_EXPECTED: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_between_tags_and_inside_b() {
        let mut writer = FieldWriter::new();
        writer.tag("DKIM-Signature:");
        writer.tag("v=1;");
        writer.tag(&format!("d={};", "x".repeat(60)));
        let mut writer = FieldWriter::begin(writer.text());
        writer.tag("h=From:");
        for _ in 0..20 {
            writer.part("Subject:");
        }
        writer.tag("b=");
        let field = String::from_utf8(writer.finish(&"A".repeat(344))).expect("ASCII");
        assert!(field.starts_with("DKIM-Signature: v=1;\r\n\td="));
        assert!(field.ends_with("A\r\n"));
        assert!(field.lines().all(|line| line.len() <= LINE_WIDTH), "{field}");
        let unfolded = field.replace("\r\n\t", "");
        assert!(unfolded.contains(&"Subject:".repeat(20)));
        assert!(unfolded.contains(&format!("b={}\r\n", "A".repeat(344))));
    }
}
