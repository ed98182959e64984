//! The bytes a session wants written: short commands gathered in one buffer, message content as
//! the shared slices it came in, cut where a dot is to be doubled.
//!
//! [`Output`] is a [`Buf`]: a vectored write from it carries
//! `[commands.., head, body.., final dot + next envelope]`, as far as it has slices. The driver removes what it has written
//! by advancing, and nothing else, because the session tells from what is left whether a reply
//! can be the answer to a command. Bounded by the session: never more than one content and the
//! commands of one transaction.

use bytes::{Buf, Bytes, BytesMut};
use smtp_wire::dots::Dots;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes to write, in order.
#[derive(Debug, Default)]
pub struct Output {
    parts: VecDeque<Part>,
    /// Comes after the parts.
    tail: BytesMut,
    /// Octets to write of `parts` and `tail`, doubled dots twice.
    waiting: usize,
    /// Octets ever queued.
    queued: u64,
}

/// Shared octets, some dots of which are written twice: the runs between them, each with the dot it ends at, from which the
/// next one begins.
#[derive(Debug)]
struct Part {
    bytes: Bytes,
    dots: Dots,
    /// Octets that are behind us.
    at: usize,
    /// Dots that were written once at least.
    doubled: usize,
}

impl Part {
    /// All that is left.
    fn runs(&self) -> impl Iterator<Item = &[u8]> {
        (self.doubled..=self.dots.count()).scan(self.at, |at, doubled| {
            let run = self.run(*at, doubled);
            // With its dot the next one begins.
            *at += run.len() - 1;
            Some(run)
        })
    }

    /// What is left of the run that begins `at`, behind so many dots.
    fn run(&self, at: usize, doubled: usize) -> &[u8] {
        let end = self.dots.place(doubled).map_or(self.bytes.len(), |place| place + 1);
        &self.bytes[at..end]
    }

    /// Passes over so many octets of the wire. If it ends with or before them: how many there are behind it.
    fn advance(&mut self, mut octets: usize) -> Option<usize> {
        loop {
            let left = self.run(self.at, self.doubled).len();
            if octets < left {
                self.at += octets;
                return None;
            }
            octets -= left;
            match self.dots.place(self.doubled) {
                None => return Some(octets),
                Some(place) => (self.at, self.doubled) = (place, self.doubled + 1),
            }
        }
    }
}

impl Output {
    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// All that is to be written, in order; none is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let tail = (!self.tail.is_empty()).then_some(&self.tail[..]);
        self.parts.iter().flat_map(Part::runs).chain(tail)
    }

    /// Octets queued since the session began: the place in the stream where the next one goes.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Octets that left since the session began.
    pub(crate) fn written(&self) -> u64 {
        self.queued - self.waiting as u64
    }

    /// Appends a copy of something short.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.count(bytes.len());
    }

    /// Appends a slice without copying it, with these dots in it twice.
    pub(crate) fn put_shared(&mut self, bytes: &Bytes, dots: &Dots) {
        if bytes.is_empty() {
            return;
        }
        if !self.tail.is_empty() {
            let before = self.tail.split().freeze();
            self.push(before, Dots::default());
        }
        self.push(bytes.clone(), dots.clone());
        self.count(bytes.len() + dots.count());
    }

    /// Throws away what was not written.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.tail.clear();
        self.queued -= self.waiting as u64;
        self.waiting = 0;
    }

    fn push(&mut self, bytes: Bytes, dots: Dots) {
        self.parts.push_back(Part { bytes, dots, at: 0, doubled: 0 });
    }

    fn count(&mut self, bytes: usize) {
        self.waiting += bytes;
        self.queued += bytes as u64;
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.waiting
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&self.tail[..], |part| part.run(part.at, part.doubled))
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (place, chunk) in dst.iter_mut().zip(self.chunks()) {
            *place = IoSlice::new(chunk);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut bytes: usize) {
        assert!(bytes <= self.waiting, "cannot have written {bytes} octets of {}", self.waiting);
        self.waiting -= bytes;
        while let Some(part) = self.parts.front_mut() {
            let Some(behind) = part.advance(bytes) else { return };
            bytes = behind;
            self.parts.pop_front();
        }
        self.tail.advance(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smtp_wire::body::Lines;
    use smtp_wire::data::DataDecoder;

    /// Content with its dots, as it is received.
    fn received(wire: &[u8]) -> (Bytes, Dots) {
        let (mut decoder, mut content) = (DataDecoder::new(usize::MAX), Vec::new());
        assert_eq!(decoder.feed(wire, &mut content), (wire.len(), true));
        let Lines::Dotted(Some(dots)) = decoder.into_lines() else { panic!("dotted") };
        (content.into(), dots)
    }

    fn filled() -> Output {
        let mut output = Output::default();
        output.put(b"DATA");
        output.put(b"\r\n");
        output.put_shared(&Bytes::from_static(b"head"), &Dots::default());
        output.put_shared(&Bytes::new(), &Dots::default());
        output.put_shared(&Bytes::from_static(b"body"), &Dots::default());
        output.put(b".\r\n");
        output.put(b"RSET\r\n");
        output
    }

    #[test]
    fn one_vectored_write_carries_all() {
        let output = filled();
        let mut slices = [IoSlice::new(b""); 8];
        let count = output.chunks_vectored(&mut slices);
        let seen: Vec<&[u8]> = slices[..count].iter().map(|s| &**s).collect();
        assert_eq!(seen, [&b"DATA\r\n"[..], b"head", b"body", b".\r\nRSET\r\n"]);
        assert_eq!(output.chunks_vectored(&mut slices[..2]), 2);
    }

    #[test]
    fn partial_writes_at_every_size_keep_the_order() {
        for step in 1..=23 {
            let mut output = filled();
            let mut seen = Vec::new();
            while output.has_remaining() {
                let chunk = output.chunk();
                let take = step.min(chunk.len());
                seen.extend_from_slice(&chunk[..take]);
                output.advance(take);
                assert_eq!(output.written(), seen.len() as u64);
            }
            assert_eq!(seen, b"DATA\r\nheadbody.\r\nRSET\r\n");
            assert!(output.is_empty());
        }
    }

    #[test]
    fn dots_are_doubled_however_little_is_written() {
        let wire = b"..\r\n...a\r\nb.\r\n..\r\n.\r\n";
        let (content, dots) = received(wire);
        for step in 1..=2 * wire.len() {
            let mut output = Output::default();
            for _ in 0..2 {
                output.put_shared(&content, &dots);
                output.put(b".\r\n");
            }
            assert_eq!((output.remaining(), output.queued()), (2 * wire.len(), 2 * wire.len() as u64));
            assert_eq!(output.chunks().flatten().copied().collect::<Vec<u8>>(), wire.repeat(2));
            let mut seen = Vec::new();
            while output.has_remaining() {
                let mut slices = [IoSlice::new(b""); 3];
                let count = output.chunks_vectored(&mut slices);
                assert_eq!((count > 0, output.chunk()), (true, &*slices[0]));
                let next: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(step).collect();
                seen.extend_from_slice(&next);
                output.advance(next.len());
            }
            assert_eq!(String::from_utf8_lossy(&seen), String::from_utf8_lossy(&wire.repeat(2)), "{step} at once");
        }
    }

    #[test]
    fn what_is_cleared_was_never_written() {
        let mut output = filled();
        output.advance(8);
        output.clear();
        assert_eq!((output.written(), output.queued(), output.is_empty()), (8, 8, true));
    }
}
