//! The bytes a session wants written: short commands gathered in one buffer, message content as
//! the shared slices it came in.
//!
//! [`Output`] is a [`Buf`]: one vectored write from it carries
//! `[commands.., head, body, final dot + next envelope]`. The driver removes what it has written
//! by advancing, and nothing else, because the session tells from what is left whether a reply
//! can be the answer to a command. Bounded by the session: never more than one content and the
//! commands of one transaction.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes to write, in order.
#[derive(Debug, Default)]
pub struct Output {
    slices: VecDeque<Bytes>,
    /// Comes after the slices.
    tail: BytesMut,
    /// Octets in `slices` and `tail`.
    waiting: usize,
    /// Octets ever queued.
    queued: u64,
}

impl Output {
    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
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

    /// Appends a slice without copying it.
    pub(crate) fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.is_empty() {
            return;
        }
        if !self.tail.is_empty() {
            self.slices.push_back(self.tail.split().freeze());
        }
        self.slices.push_back(bytes.clone());
        self.count(bytes.len());
    }

    /// Throws away what was not written.
    pub(crate) fn clear(&mut self) {
        self.slices.clear();
        self.tail.clear();
        self.queued -= self.waiting as u64;
        self.waiting = 0;
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
        self.slices.front().map_or(&self.tail[..], |slice| &slice[..])
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let tail = (!self.tail.is_empty()).then_some(&self.tail[..]);
        let chunks = self.slices.iter().map(|slice| &slice[..]).chain(tail);
        let mut filled = 0;
        for (place, chunk) in dst.iter_mut().zip(chunks) {
            *place = IoSlice::new(chunk);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut bytes: usize) {
        assert!(bytes <= self.waiting, "cannot have written {bytes} octets of {}", self.waiting);
        self.waiting -= bytes;
        while let Some(slice) = self.slices.front_mut() {
            if bytes < slice.len() {
                slice.advance(bytes);
                return;
            }
            bytes -= slice.len();
            self.slices.pop_front();
        }
        self.tail.advance(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Output {
        let mut output = Output::default();
        output.put(b"DATA");
        output.put(b"\r\n");
        output.put_shared(&Bytes::from_static(b"head"));
        output.put_shared(&Bytes::new());
        output.put_shared(&Bytes::from_static(b"body"));
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
    fn what_is_cleared_was_never_written() {
        let mut output = filled();
        output.advance(8);
        output.clear();
        assert_eq!((output.written(), output.queued(), output.is_empty()), (8, 8, true));
    }
}
