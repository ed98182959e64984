//! Messages as the server would seal them: prepared octets, a new id each. In: a size. Out: a `Sealed` at the cost of
//! some clones.
//!
//! Bodies are slices of one run of random octets, large enough that no two of a commit share their memory and that none
//! is in a processor's cache by chance; nothing can compress them.

use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, IdGenerator, Meta, Sealed};
use smtp_wire::{Mailbox, ReversePath};

/// What all letters are made of.
pub struct Letters {
    head: Bytes,
    noise: Bytes,
    body_octets: usize,
    envelope: Envelope,
    meta: Meta,
}

/// One writer's letters.
pub struct Writer {
    letters: Arc<Letters>,
    ids: IdGenerator,
    /// Where the next body begins.
    at: usize,
}

impl Letters {
    /// Messages of `octets` octets, head and body.
    ///
    /// # Errors
    /// The machine gives no random octets.
    pub fn new(octets: usize) -> anyhow::Result<Arc<Letters>> {
        let head = Bytes::from_static(HEAD.as_bytes());
        let body_octets = octets.saturating_sub(head.len());
        let mut noise = Vec::new();
        let source = std::fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
        source.take((NOISE_OCTETS + body_octets) as u64).read_to_end(&mut noise)?;
        let mailbox = |text: &str| Mailbox::parse(text).map_err(|error| anyhow!("{text}: {error}"));
        let envelope = Envelope {
            sender: ReversePath(Some(mailbox("sender@bench.test")?)),
            recipients: vec![mailbox("user-1234567890@gmail.com.mx-sink.test")?],
            dsn: None,
            tls: message::TlsDemand::Usual,
        };
        let mut meta = Meta::new();
        for (name, value) in [
            ("reception_protocol", "ESMTP"),
            ("received_from", "127.0.0.1:40000"),
            ("received_via", "127.0.0.1:2025"),
            ("hostname", "relay.test"),
        ] {
            meta.set(name, value);
        }
        Ok(Arc::new(Letters { head, noise: noise.into(), body_octets, envelope, meta }))
    }
}

impl Writer {
    /// The writer of this number; no two share ids.
    pub fn new(letters: &Arc<Letters>, number: u32) -> Writer {
        let mut node = [0; 6];
        node[..4].copy_from_slice(&number.to_be_bytes());
        let at = (number as usize).wrapping_mul(STRIDE_OCTETS) % NOISE_OCTETS;
        Writer { letters: Arc::clone(letters), ids: IdGenerator::new(node, 1), at }
    }

    /// The next message.
    pub fn next(&mut self) -> Sealed {
        let letters = &self.letters;
        let body = letters.noise.slice(self.at..self.at + letters.body_octets);
        self.at = (self.at + letters.body_octets) % NOISE_OCTETS;
        Sealed {
            id: self.ids.next(WallTime::from_unix_secs(NOON)),
            envelope: letters.envelope.clone(),
            meta: letters.meta.clone(),
            head: letters.head.clone(),
            body: body.into(),
            due: WallTime::from_unix_secs(NOON),
        }
    }
}

/// More than any cache holds.
const NOISE_OCTETS: usize = 64 << 20;
/// Distance between the first bodies of two writers.
const STRIDE_OCTETS: usize = 1_000_003;
/// Any moment serves: ids of one writer grow from it.
const NOON: i64 = 1_790_000_000;
const HEAD: &str = "Received: from client.test (127.0.0.1)\r\n  by relay.test (Postrider) with ESMTP\r\n  \
id 0123456789abcdef0123456789abcdef for <user-1234567890@gmail.com.mx-sink.test>;\r\n  \
Sat, 21 Nov 2026 12:00:00 +0000\r\n\
X-Postrider-Id: 19aa00000000-1\r\nX-Postrider-Check: 01234567\r\n\
Message-ID: <19aa00000000-1@traffic-gen.test>\r\nDate: Sat, 21 Nov 2026 12:00:00 +0000\r\n\
From: <sender@bench.test>\r\nTo: <user-1234567890@gmail.com.mx-sink.test>\r\n\
Subject: test message 19aa00000000-1\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_has_the_size_and_an_id_of_its_own() {
        let letters = Letters::new(10_240).expect("random octets");
        let mut ids = std::collections::HashSet::new();
        for number in 0..4 {
            let mut writer = Writer::new(&letters, number);
            for _ in 0..10_000 {
                let sealed = writer.next();
                assert_eq!(sealed.head.len() + sealed.body.len(), 10_240);
                assert!(ids.insert(sealed.id));
            }
        }
    }
}
