//! What strangers publish and put on messages to prove who they are: tag lists, key records, SPF, DMARC and TLSRPT records, ARC sets;
//! and what the rules of providers make of such messages.
//!
//! Input: an octet that chooses, then a record or a message. Checked: nothing panics; of a record, what is read is bounded by
//! what came in; of a message, which is its own DNS (every TXT question is answered with its body), results can be written into
//! a header field and stay within the bounds of `sender_check::limits`.

#![no_main]

use compliance::{Demands, Rule, SOURCES_MAX, Subject};
use libfuzzer_sys::fuzz_target;
use mime::HeaderBlock;
use mimepart::{AuthenticationResults, FieldKind, FieldValue};
use reports::{DmarcWants, REPORT_URIS_MAX, ReportUri, TlsWants};
use route::{BoxFuture, DnsError, IpAnswer, IpStrategy, MxAnswer, Resolver, TxtAnswer};
use sender_check::dkim::{self, PublicKey};
use sender_check::dmarc::{self, DmarcInput, DmarcRecord, Organisations};
use sender_check::limits::{
    ARC_SETS_MAX, DMARC_QUESTIONS_MAX, LOOKUP_TERMS_MAX, SIGNATURES_MAX, WALK_QUESTIONS_MAX, WALKS_MAX,
};
use sender_check::spf::{SpfQuery, SpfRecord, check_host};
use sender_check::tags::Tags;
use sender_check::{Mail, arc};
use std::future::ready;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

fuzz_target!(|data: &[u8]| {
    let [choice, input @ ..] = data else { return };
    match choice % 4 {
        0 => tag_list(input),
        1 => records(input),
        2 => spf(input),
        _ => message(input),
    }
});

fn tag_list(input: &[u8]) {
    let Ok(tags) = Tags::parse(input) else { return };
    for name in ["a", "b", "bh", "d", "h", "i", "p", "v"] {
        let Some(value) = tags.get(name) else { continue };
        let place = tags.place(name).expect("a tag has a place");
        let raw = std::str::from_utf8(&input[place]).expect("a list is text");
        assert!(raw.contains(value));
    }
}

fn records(input: &[u8]) {
    let _ = PublicKey::parse(input);
    let _ = SpfRecord::parse(input);
    if let Some(record) = DmarcRecord::parse(input) {
        assert!(record.percent <= 100);
        let tags = &record.reports;
        let text = |tag: &Option<String>| tag.clone().unwrap_or_default();
        let (rua, ruf, fo) = (text(&tags.rua), text(&tags.ruf), text(&tags.fo));
        let wants = DmarcWants::new(Some(&rua), Some(&ruf), Some(&fo), tags.rf.as_deref());
        check_addresses(&wants.aggregate);
        check_addresses(&wants.failure);
    }
    check_addresses(&TlsWants::find(&[input]).unwrap_or_default().reports_to);
}

/// They can stand in a header field, and in a command.
fn check_addresses(uris: &[ReportUri]) {
    assert!(uris.len() <= REPORT_URIS_MAX);
    assert!(uris.iter().all(|uri| uri.target.bytes().all(|octet| octet.is_ascii_graphic() && !b"<>\"".contains(&octet))));
}

/// Every domain has this record, and every host the client's address.
fn spf(input: &[u8]) {
    let answers = Answers { text: input.to_vec(), questions: AtomicUsize::new(0) };
    let query = SpfQuery {
        ip: [192, 0, 2, 1].into(),
        domain: "a.example",
        sender: Some("local-part@b.example"),
        helo: "helo.example",
        receiver: "receiver.example",
        now_unix_secs: 1_700_000_000,
    };
    let found = now(check_host(&answers, &query));
    // Records, the terms' own questions, ten hosts for each of them, the client's names, an explanation.
    assert!(answers.questions.load(Ordering::Relaxed) <= 2 + LOOKUP_TERMS_MAX * 12 + 12);
    check_writable(vec![found.result]);
}

fn message(input: &[u8]) {
    let block = HeaderBlock::parse(input);
    let body = &input[block.body_start()..];
    let mail = Mail::new(block.view(input), body);
    let answers = Answers { text: body.to_vec(), questions: AtomicUsize::new(0) };
    let mut results = now(dkim::verify(&answers, &mail, 1_700_000_000));
    assert!(!results.is_empty() && results.len() <= SIGNATURES_MAX);
    let chain = now(arc::verify(&answers, &mail));
    assert!(chain.sets <= ARC_SETS_MAX);
    if let Ok(key) = PublicKey::parse(body) {
        let _ = arc::check_own(&mail, &key);
    }
    let input = DmarcInput { dkim: &results, spf: &results[0], sample_percent: 50 };
    let dmarc = now(dmarc::check(&answers, mail.headers(), input));
    let before = answers.questions.load(Ordering::Relaxed);
    let walked = now(dmarc::check_by(Organisations::TreeWalk, &answers, mail.headers(), input));
    let asked = answers.questions.load(Ordering::Relaxed) - before;
    assert!(asked <= WALK_QUESTIONS_MAX * (1 + WALKS_MAX) + DMARC_QUESTIONS_MAX);
    results.extend([chain.result, dmarc.result, walked.result]);
    check_writable(results);
    rules(&answers, &mail, body);
}

/// What is found is said on a line, each rule at most once for each source.
fn rules(answers: &Answers, mail: &Mail<'_>, body: &[u8]) {
    let headers = mail.headers();
    let subject = Subject { headers, body, sender: "a@b.example", now_unix_secs: 1_700_000_000 };
    let demands = Demands { sources: vec![[192, 0, 2, 1].into()], ..Demands::default() };
    let report = now(compliance::check(answers, &subject, &demands));
    assert!(report.findings.len() + report.undecided.len() <= Rule::ALL.len() + SOURCES_MAX);
    for finding in report.findings {
        assert!(finding.what.len() <= 2_000 && !finding.what.contains(char::is_control), "{finding:?}");
    }
}

fn check_writable(results: Vec<sender_check::AuthenticationResult>) {
    let value = AuthenticationResults { serv_id: "mx.example".to_owned(), version: None, results };
    let value = FieldValue::AuthenticationResults(value);
    assert!(FieldKind::AuthenticationResults.write("Authentication-Results", &value).is_ok(), "{value:?}");
}

/// DNS that says the same to everybody.
struct Answers {
    text: Vec<u8>,
    questions: AtomicUsize,
}

impl Answers {
    fn say<'a, T: Send + 'a>(&self, answer: Result<T, DnsError>) -> BoxFuture<'a, Result<T, DnsError>> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        Box::pin(ready(answer))
    }
}

impl Resolver for Answers {
    fn mx<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        self.say(Err(DnsError::NoData))
    }

    fn ip<'a>(&'a self, _host: &'a str, _strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        self.say(Ok(IpAnswer { addresses: vec![[192, 0, 2, 9].into()], ..IpAnswer::default() }))
    }

    fn txt<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        self.say(Ok(TxtAnswer { texts: vec![self.text.clone()], ttl_secs: 1 }))
    }

    fn ptr<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        self.say(Ok(vec!["host.example.".to_owned(); 20]))
    }
}

/// The output of a future that has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("answers are there at once"),
    }
}
