//! The cache of signers: what is kept, what one more costs, and what all of it takes.

use super::*;
use std::time::Duration;

const KEY: &[u8] = include_bytes!("../../sender-auth/tests/keys/ed25519-pkcs8.pem");

fn options(domain: &str) -> SignerOptions {
    let table = serde_json::json!({"domain": domain, "selector": "s", "headers": ["From"], "key": "k"});
    config::parse("kumo.dkim.ed25519_signer", table).expect("sound options")
}

#[test]
fn one_too_many_costs_one_its_place() {
    let signers = Signers::default();
    let before = signers.find(&options("a.test"));
    assert!(before.is_none() && signers.times().so_far().is_none());
    let made = signers.make(&options("a.test"), KEY).expect("a signer");
    assert!(made.public_half.is_none());
    let mut cached = Cached::default();
    for name in ["a", "b", "a", "c"] {
        cached.keep(name, made.clone(), 2);
    }
    assert_eq!((cached.made.len(), cached.places.len()), (2, 2));
    assert!(cached.made.iter().enumerate().all(|(place, made)| cached.places[&made.name] == place));
    assert!(cached.places.contains_key("c") && (cached.places.contains_key("a") != cached.places.contains_key("b")));
    assert!(signers.find(&options("a.test")).is_some() && signers.find(&options("b.test")).is_none());
    assert_eq!(signers.counts(), CacheCounts { hits: 1, misses: 2, populated: 1, len: 1 });
    assert_eq!(signers.times().so_far().map(|times| times.creation.count()), Some(1));
}

/// Domains in turn, one more than there is room for: the worst for a cache that gives up what is oldest, which would have none.
#[test]
fn one_domain_more_than_there_is_room_for_costs_next_to_nothing() {
    let made = Signers::default().make(&options("a.test"), KEY).expect("a signer");
    let mut cached = Cached::default();
    let mut missed = 0;
    for number in 0..20 * (ROOM + 1) {
        let name = (number % (ROOM + 1)).to_string();
        if !cached.places.contains_key(name.as_str()) {
            missed += 1;
            cached.keep(&name, made.clone(), ROOM);
        }
    }
    // Each once at first, and then one in some hundred.
    assert!(missed < ROOM + 1 + 20 * ROOM / 50, "{missed} of {}", 20 * ROOM);
}

/// All places are taken, by RSA keys, each read from its own text; then one more. Figures: docs/authentication.md.
#[test]
fn all_places_are_taken_and_one_more_is_no_cliff() {
    // One in a hundred is an Ed25519 key.
    let key_of = |number: usize| if number.is_multiple_of(100) { KEY } else { RSA };
    let inline = |number: usize| -> SignerOptions {
        let key = String::from_utf8(key_of(number).to_vec()).expect("text");
        let table = serde_json::json!({"domain": format!("d{number}.test"), "selector": "s", "headers": ["From", "To"],
            "ttl": "1h", "key": {"key_data": key}});
        config::parse("kumo.dkim.rsa_sha256_signer", table).expect("sound options")
    };
    let signers = Signers::default();
    let get = |number: usize| {
        let options = inline(number);
        signers
            .find(&options)
            .map(|signer| (signer, true))
            .unwrap_or_else(|| (signers.make(&options, key_of(number)).expect("a signer"), false))
    };
    let (before, since) = (resident_octets(), Instant::now());
    (0..SIGNERS_MAX).for_each(|number| assert!(!get(number).1));
    let octets = resident_octets().saturating_sub(before) / SIGNERS_MAX;
    let load = since.elapsed() / u32::try_from(SIGNERS_MAX).expect("few");
    // The least that a signature costs, of so many domains in turn, and how many signers were not there.
    let round = |domains: usize| {
        let (mut least, mut misses) = (Duration::MAX, 0);
        for first in (0..SAMPLE).step_by(CHUNK) {
            let since = Instant::now();
            for number in first..first + CHUNK {
                let (signer, was_there) = get(1 + number % domains);
                misses += usize::from(!was_there);
                sign(&signer.signer);
            }
            least = least.min(since.elapsed() / u32::try_from(CHUNK).expect("few"));
        }
        (least, misses)
    };
    let (one, none_missed) = round(1);
    // The crypto library makes something for each key when it is used first.
    let unused = resident_octets();
    let (first, _) = round(SAMPLE);
    let octets_in_use = octets + resident_octets().saturating_sub(unused) / SAMPLE;
    let (full, also_none) = round(SAMPLE);
    assert_eq!((none_missed, also_none), (0, 0), "all are there");
    get(SIGNERS_MAX);
    let (past, misses) = round(SAMPLE);
    let line = format!(
        "{SIGNERS_MAX} keys: {octets} octets each, {octets_in_use} when used, {load:?} to load; a signature {one:?} by one of them, \
         {first:?} the first of each, {full:?} by many, {past:?} with one more, {misses} missed"
    );
    println!("{line}");
    assert!(octets_in_use < OCTETS_MAX, "{line}");
    assert!(misses <= 2, "{line}");
    assert!(full < one * 3 / 2 && past < one * 3 / 2, "{line}");
    assert_eq!(signers.0.lock().expect("no panic").made.len(), SIGNERS_MAX, "no more than that are kept");
}

fn sign(signer: &Signer) {
    let raw = b"From: a@b.test\r\nTo: c@d.test\r\n\r\nbody\r\n";
    let block = mime::HeaderBlock::parse(raw);
    let body = &raw[block.body_start()..];
    let (hashes, mut scratch) = (sender_auth::BodyHashes::new(), sender_auth::Scratch::new());
    signer.sign(1, block.view(raw), body, &hashes, &mut scratch).expect("signs");
}

/// What the program has in memory, the crypto library's part included.
fn resident_octets() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number");
    pages * 4096
}

const RSA: &[u8] = include_bytes!("../../sender-auth/tests/keys/rsa2048-pkcs8.pem");
/// Places of a small cache.
const ROOM: usize = 1000;
/// Signatures of a round: enough to see that keys are missing, and few enough for a test.
const SAMPLE: usize = 4_000;
/// Signatures that are measured together: other programs disturb some of these.
const CHUNK: usize = 250;
/// Of a key and its signer.
const OCTETS_MAX: usize = 16 * 1024;
