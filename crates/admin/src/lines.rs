//! A body as lines, of any length in all, each bounded.
//!
//! In: octets as they come. Out: numbered lines that are not empty; of one that is too long, that it is, once, and the next
//! line behind it. A last line needs no end when the body has one.

use crate::unpack::damage_in;
use axum::body::{Body, BodyDataStream, Bytes};
use bytes::{Buf, BytesMut};
use engine::BulkInput;
use futures_util::Stream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The lines of a body.
pub(crate) struct Lines {
    body: BodyDataStream,
    cut: Cutter,
    is_over: bool,
}

/// Cuts octets into lines.
struct Cutter {
    buffer: BytesMut,
    /// So many of them hold no line end.
    seen: usize,
    /// Lines so far, empty ones too.
    number: u64,
    octets_max: usize,
    /// Within a line that is too long.
    skips: bool,
}

impl Lines {
    /// Of a body, each of at most so many octets without its end.
    pub fn new(body: Body, octets_max: usize) -> Lines {
        Lines { body: body.into_data_stream(), cut: Cutter::new(octets_max), is_over: false }
    }
}

impl Stream for Lines {
    type Item = BulkInput;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<BulkInput>> {
        loop {
            if let Some(input) = self.cut.next() {
                return Poll::Ready(Some(input));
            }
            if self.is_over {
                return Poll::Ready(self.cut.last());
            }
            match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(octets)) => self.cut.push(&octets),
                None => self.is_over = true,
                Some(Err(error)) => {
                    tracing::debug!("a bulk request was cut: {error}");
                    self.is_over = true;
                    // What is left is no line: it may go on.
                    self.cut.clear();
                    let number = self.cut.number + 1;
                    let damage = damage_in(&error).map(ToString::to_string);
                    return Poll::Ready(Some(damage.map_or(BulkInput::Cut, |why| BulkInput::Damaged { number, why })));
                }
            }
        }
    }
}

impl Cutter {
    fn new(octets_max: usize) -> Cutter {
        Cutter { buffer: BytesMut::new(), seen: 0, number: 0, octets_max, skips: false }
    }

    fn push(&mut self, octets: &[u8]) {
        self.buffer.extend_from_slice(octets);
    }

    fn next(&mut self) -> Option<BulkInput> {
        let octets_max = self.octets_max;
        while let Some(at) = self.line_end() {
            let line = self.buffer.split_to(at).freeze();
            self.buffer.advance(1);
            self.seen = 0;
            self.number += 1;
            if std::mem::take(&mut self.skips) || line.trim_ascii().is_empty() {
                continue;
            }
            return Some(match line.len() > octets_max {
                true => BulkInput::TooLong { number: self.number, octets_max },
                false => self.line(line),
            });
        }
        if self.skips {
            self.clear();
        } else if self.buffer.len() > octets_max {
            self.clear();
            self.skips = true;
            return Some(BulkInput::TooLong { number: self.number + 1, octets_max });
        }
        self.seen = self.buffer.len();
        None
    }

    /// What stands behind the last line end.
    fn last(&mut self) -> Option<BulkInput> {
        let rest = self.buffer.split().freeze();
        self.seen = 0;
        if self.skips || rest.trim_ascii().is_empty() {
            return None;
        }
        self.number += 1;
        Some(self.line(rest))
    }

    fn clear(&mut self) {
        self.buffer.clear();
        self.seen = 0;
    }

    fn line(&self, octets: Bytes) -> BulkInput {
        BulkInput::Line { number: self.number, octets }
    }

    fn line_end(&self) -> Option<usize> {
        memchr::memchr(b'\n', &self.buffer[self.seen..]).map(|at| self.seen + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(octets: &[u8], octets_max: usize, step: usize) -> Vec<String> {
        let (mut cutter, mut found) = (Cutter::new(octets_max), Vec::new());
        let told = |input| match input {
            BulkInput::Line { number, octets } => format!("{number}: {}", String::from_utf8_lossy(&octets)),
            BulkInput::TooLong { number, octets_max } => format!("{number} > {octets_max}"),
            BulkInput::Damaged { number, why } => format!("{number}: {why}"),
            BulkInput::Cut => "cut".to_owned(),
        };
        for part in octets.chunks(step) {
            cutter.push(part);
            found.extend(std::iter::from_fn(|| cutter.next()).map(told));
            assert!(cutter.buffer.len() <= octets_max, "what is kept is bounded");
        }
        found.extend(cutter.last().map(told));
        assert!(cutter.next().is_none() && cutter.last().is_none(), "the end stays the end");
        found
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let octets = b"one\n\n \r\ntoolong\nfour4\nabcdefghijklmnop\nlast";
        let expected = ["1: one", "4 > 5", "5: four4", "6 > 5", "7: last"];
        for step in 1..=octets.len() {
            assert_eq!(cut(octets, 5, step), expected, "{step} octets at a time");
        }
    }

    #[test]
    fn a_line_may_have_just_so_many_octets() {
        assert_eq!(cut(b"12345\n123456\n", 5, 3), ["1: 12345", "2 > 5"]);
        assert_eq!(cut(b"12345", 5, 2), ["1: 12345"]);
        assert_eq!(cut(b"123456", 5, 2), ["1 > 5"]);
        assert!(cut(b"\n\n", 5, 1).is_empty());
    }
}
