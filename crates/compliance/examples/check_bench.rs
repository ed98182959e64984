//! Measures a check with answers of DNS at hand. Run with `--release`; prints microseconds a call, the best of several rounds (the
//! machine has others on it).

#[path = "../../sender-check/tests/common/mod.rs"]
mod common;

use common::{Table, now};
use compliance::{Demands, Subject, check};
use mime::HeaderBlock;
use std::hint::black_box;
use std::time::Instant;

const HEADER: &str = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=ex.example; s=s;\r\n \
    h=From:To:Subject:Date:Message-ID:List-Unsubscribe:List-Unsubscribe-Post; bh=AAAA; b=AAAA\r\n\
    From: A <a@ex.example>\r\nTo: b@there.example\r\nSubject: x\r\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\n\
    Message-ID: <1@ex.example>\r\nList-Unsubscribe: <https://ex.example/u?1>\r\n\
    List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\n";
const KEY: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

fn main() {
    let table = Table::new()
        .with_txt("s._domainkey.ex.example", KEY)
        .with_txt("_dmarc.ex.example", "v=DMARC1; p=none")
        .with_txt("ex.example", "v=spf1 ip4:192.0.2.0/31 -all")
        .with_ptr("1.2.0.192.in-addr.arpa", "mx.ex.example.")
        .with_ip("mx.ex.example", "192.0.2.1");
    let with_source = Demands { sources: vec![[192, 0, 2, 1].into()], ..Demands::default() };
    for kb in [1, 10, 100, 1000] {
        let raw =
            format!("{HEADER}{}", "The quick brown fox jumps over the lazy dog and runs away.\r\n".repeat(kb * 17));
        for (name, demands) in [("no source", &Demands::default()), ("one source", &with_source)] {
            let run = || {
                let block = HeaderBlock::parse(black_box(raw.as_bytes()));
                let headers = block.view(raw.as_bytes());
                let body = &raw.as_bytes()[block.body_start()..];
                let subject = Subject { headers, body, sender: "b@ex.example", now_unix_secs: 1_700_000_000 };
                assert!(now(check(&table, &subject, demands)).findings.is_empty());
            };
            println!("{kb} KB, {name}: {:.2} us", measure(run));
        }
    }
}

fn measure(mut run: impl FnMut()) -> f64 {
    const ROUNDS: u32 = 15;
    const CALLS: u32 = 1000;
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| run());
        start.elapsed().as_secs_f64() / f64::from(CALLS)
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min) * 1e6
}
