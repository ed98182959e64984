//! Measures the header index: ns per message of 10 KB with 9 headers, and of sealing it with one
//! prepended field. Run with `--release`; prints two lines.

use mime::{HeaderBlock, HeaderIndex, ValueForm};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let head = "Received: from client.test (client.test [192.0.2.1])\r\n by relay.test with ESMTP id 0123456789abcdef;\r\n Thu, 20 Nov 2025 10:00:00 +0000\r\n\
        From: Sender <sender@bench.test>\r\nTo: Recipient <r@sink.test>\r\nSubject: a message of ten kilobytes\r\nDate: Thu, 20 Nov 2025 10:00:00 +0000\r\n\
        Message-ID: <0123456789@bench.test>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nX-Campaign: none\r\n\r\n";
    let mut raw = head.as_bytes().to_vec();
    while raw.len() < 10 * 1024 {
        raw.extend_from_slice(b"The quick brown fox jumps over the lazy dog and runs far away from here.\r\n");
    }
    measure("index", || {
        black_box(HeaderIndex::parse(black_box(&raw)));
    });
    let mut out = Vec::with_capacity(4096);
    measure("index, prepend, write head", || {
        let mut block = HeaderBlock::parse(black_box(&raw));
        block.prepend("X-Trace", b"abcdef", ValueForm::Raw).expect("a valid header");
        out.clear();
        block.write_head_to(&raw, &mut out);
        black_box(&out);
    });
}

fn measure(what: &str, mut run: impl FnMut()) {
    const ROUNDS: u32 = 200_000;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        run();
    }
    println!("{what}: {} ns", start.elapsed().as_nanos() / u128::from(ROUNDS));
}
