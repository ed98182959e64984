//! The body hash against a plain reference.

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use sender_auth::{BodyHashes, Canonicalization, limited_body_hash};

const BOTH: [Canonicalization; 2] = [Canonicalization::Relaxed, Canonicalization::Simple];

fn agree(body: &[u8]) {
    let hashes = BodyHashes::new();
    for form in BOTH {
        let expect = common::body_hash(form == Canonicalization::Relaxed, body);
        assert_eq!(hashes.get(form, body).to_vec(), expect, "{form:?} {:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn examples_and_empty_bodies_of_rfc_6376() {
    let relaxed = |body: &[u8]| common::canonical_body(true, body);
    let simple = |body: &[u8]| common::canonical_body(false, body);
    let example = b" C \r\nD \t E\r\n\r\n\r\n";
    assert_eq!(relaxed(example), b" C\r\nD E\r\n");
    assert_eq!(simple(example), b" C \r\nD \t E\r\n");
    assert_eq!((relaxed(b""), simple(b"")), (b"".to_vec(), b"\r\n".to_vec()));
    assert_eq!((relaxed(b"\r\n\r\n"), simple(b"\r\n\r\n")), (b"".to_vec(), b"\r\n".to_vec()));
    // section 3.4.3 and 3.4.4 print the hashes of the empty body
    let hash = |form| STANDARD.encode(BodyHashes::new().get(form, b""));
    assert_eq!(hash(Canonicalization::Simple), "frcCV1k9oG9oKj3dpUqdJg1PxRT2RSN/XKdLCPjaYaY=");
    assert_eq!(hash(Canonicalization::Relaxed), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

#[test]
fn every_part_of_awkward_bodies() {
    let bodies: &[&[u8]] = &[
        b"",
        b"\r\n",
        b"\r\n\r\n\r\n",
        b" ",
        b" \r\n",
        b" \t\r\n \r\n",
        b"a",
        b"a\r\n",
        b"a \r\n",
        b"a\t b  c\r\n\r\n \r\nd\r\n",
        b"\r",
        b"\n",
        b"a\r",
        b"a\r\r\n",
        b"a \r",
        b"a \rb\r\n",
        b"a\nb \n\r\n",
        b"\n\r\n\r\n",
        b"clean line\r\nclean line\r\n\r\nclean\r\n\r\n\r\n",
        b"clean line\r\n\r\ndirty  line\r\nclean\r\n",
        b".\r\n..\r\n \xff\xfe\r\n",
    ];
    for body in bodies {
        // Whatever it begins or ends with.
        for cut in 0..=body.len() {
            agree(&body[..cut]);
            agree(&body[cut..]);
        }
    }
}

#[test]
fn long_bodies_pass_every_buffer_bound() {
    for len in [511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 8193] {
        for tail in [b"".as_slice(), b"\r\n", b" \r\n", b"\t", b"\r\n\r\n"] {
            let body = [vec![b'x'; len], tail.to_vec()].concat();
            agree(&body);
            let words = [b"x ".repeat(len / 2), b" ".to_vec(), tail.to_vec()].concat();
            agree(&words);
            // one bad pair at the bound
            let mut pair = vec![b'x'; len + 2];
            pair[len - 1..len + 1].copy_from_slice(b"  ");
            agree(&pair);
        }
    }
}

fn body_soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\r\n".to_vec()),
        4 => Just(b" ".to_vec()),
        2 => Just(b"\t".to_vec()),
        4 => Just(b"word".to_vec()),
        3 => Just(b"a whole clean line\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"..".to_vec()),
        1 => (500..2100usize).prop_map(|len| vec![b'y'; len]),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn random_bodies(body in body_soup()) {
        agree(&body);
    }
}

/// Bodies of several buffers, of pieces that go through them and past them, cut anywhere: `l=` of others' signatures.
#[test]
fn the_beginning_of_a_body() {
    let clean = "x".repeat(700) + "\r\n";
    for body in [clean.repeat(9), "a  b\t \r\n".repeat(1_200), (clean + "c\td \r\n").repeat(8)] {
        for form in BOTH {
            let canonical = common::canonical_body(form == Canonicalization::Relaxed, body.as_bytes());
            let whole = canonical.len();
            for octets_max in (0..whole).step_by(97).chain([whole - 1, whole, whole + 1, usize::MAX]) {
                let begin = &canonical[..octets_max.min(whole)];
                let expect = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, begin);
                let (hash, octets) = limited_body_hash(form, body.as_bytes(), octets_max);
                assert_eq!((hash.as_slice(), octets), (expect.as_ref(), whole), "{form:?} {octets_max}");
            }
        }
    }
}
