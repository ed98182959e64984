//! Tests of `dane`: every usage, selector and matching type against certificates made here.

use super::*;
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

/// A leaf for `mx.test`, and who issued it: an intermediate below a root.
struct Chain {
    root: CertificateDer<'static>,
    middle: CertificateDer<'static>,
    leaf: CertificateDer<'static>,
}

fn chain(leaf_name: &str, is_expired: bool) -> Chain {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params
    };
    let root = CertifiedIssuer::self_signed(authority("root"), KeyPair::generate().unwrap()).unwrap();
    let middle = CertifiedIssuer::signed_by(authority("middle"), KeyPair::generate().unwrap(), &root).unwrap();
    let mut params = CertificateParams::new(vec![leaf_name.to_owned()]).unwrap();
    if is_expired {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    }
    let leaf = params.signed_by(&KeyPair::generate().unwrap(), &middle).unwrap();
    Chain { root: root.der().clone(), middle: middle.der().clone(), leaf: leaf.der().clone() }
}

fn selected(selector: u8, certificate: &CertificateDer<'_>) -> Vec<u8> {
    match selector {
        WHOLE => certificate.to_vec(),
        _ => X509Certificate::from_der(certificate).unwrap().1.tbs_certificate.subject_pki.raw.to_vec(),
    }
}

fn record(usage: u8, selector: u8, matching: u8, certificate: &CertificateDer<'_>) -> TlsaRecord {
    let content = selected(selector, certificate);
    let data = match matching {
        SHA_256 => digest(&SHA256, &content).as_ref().to_vec(),
        SHA_512 => digest(&SHA512, &content).as_ref().to_vec(),
        _ => content,
    };
    TlsaRecord { usage, selector, matching, data }
}

fn verify(records: &[TlsaRecord], given: &Chain, with_root: bool) -> Result<(), DaneError> {
    let names = vec!["other.test".to_owned(), "mx.test".to_owned()];
    let intermediates = match with_root {
        true => vec![given.middle.clone(), given.root.clone()],
        false => vec![given.middle.clone()],
    };
    TlsaSet::new(records, names).expect("usable").verify(&given.leaf, &intermediates, UnixTime::now())
}

fn kinds() -> impl Iterator<Item = (u8, u8)> {
    [WHOLE, KEY].into_iter().flat_map(|selector| [EXACT, SHA_256, SHA_512].map(|matching| (selector, matching)))
}

#[test]
fn the_servers_own_certificate_is_enough_whatever_its_name_and_dates() {
    let (good, wrong) = (chain("elsewhere.test", true), chain("elsewhere.test", true));
    for (selector, matching) in kinds() {
        let own = record(DANE_EE, selector, matching, &good.leaf);
        assert_eq!(verify(std::slice::from_ref(&own), &good, false), Ok(()), "3 {selector} {matching}");
        let records = 1;
        assert_eq!(verify(&[own], &wrong, false), Err(DaneError::NoMatch { records }), "3 {selector} {matching}");
    }
    // Of somebody else in the chain it says nothing.
    assert!(verify(&[record(DANE_EE, WHOLE, SHA_256, &good.middle)], &good, true).is_err());
}

#[test]
fn an_anchor_needs_a_chain_dates_and_a_name() {
    let (good, wrong) = (chain("mx.test", false), chain("mx.test", false));
    let (expired, foreign) = (chain("mx.test", true), chain("elsewhere.test", false));
    for (selector, matching) in kinds() {
        let what = format!("2 {selector} {matching}");
        for anchor in [|c: &Chain| c.root.clone(), |c: &Chain| c.middle.clone()] {
            let of = |c: &Chain| [record(DANE_TA, selector, matching, &anchor(c))];
            assert_eq!(verify(&of(&good), &good, true), Ok(()), "{what}");
            assert!(verify(&of(&good), &wrong, true).is_err(), "{what}: another authority");
            assert!(matches!(verify(&of(&expired), &expired, true), Err(DaneError::Chain(_))), "{what}: expired");
            assert!(matches!(verify(&of(&foreign), &foreign, true), Err(DaneError::Name(_))), "{what}: name");
        }
        // The root need not be sent when the record holds it.
        let outcome = verify(&[record(DANE_TA, selector, matching, &good.root)], &good, false);
        assert_eq!(outcome.is_ok(), matching == EXACT, "{what}: {outcome:?}");
    }
    // Any record will do.
    let two = [record(DANE_EE, KEY, SHA_256, &wrong.leaf), record(DANE_TA, WHOLE, SHA_256, &good.root)];
    assert_eq!(verify(&two, &good, true), Ok(()));
}

#[test]
fn what_cannot_be_used_is_left_out() {
    let leaf = chain("mx.test", false).leaf;
    let sound = record(DANE_EE, KEY, SHA_256, &leaf);
    let but = |change: fn(&mut TlsaRecord)| {
        let mut record = sound.clone();
        change(&mut record);
        record
    };
    for unusable in [
        but(|r| r.usage = 0),
        but(|r| r.usage = 1),
        but(|r| r.usage = 4),
        but(|r| r.selector = 2),
        but(|r| r.matching = 3),
        but(|r| r.data.truncate(31)),
        but(|r| r.data.clear()),
        but(|r| r.matching = SHA_512),
        but(|r| r.matching = EXACT),
        but(|r| (r.selector, r.matching) = (WHOLE, EXACT)),
    ] {
        assert_eq!(TlsaSet::new(std::slice::from_ref(&unusable), Vec::new()), None, "{unusable:?}");
        let with_a_sound_one = TlsaSet::new(&[unusable, sound.clone()], Vec::new()).unwrap();
        assert_eq!(with_a_sound_one.records, std::slice::from_ref(&sound));
    }
}

#[test]
fn the_weaker_of_two_digests_does_not_count() {
    let (good, other) = (chain("mx.test", false), chain("mx.test", false));
    let weak = record(DANE_EE, KEY, SHA_256, &good.leaf);
    let strong = record(DANE_EE, KEY, SHA_512, &other.leaf);
    assert!(verify(&[weak.clone(), strong.clone()], &good, false).is_err());
    let of_another_kind = TlsaRecord { selector: WHOLE, ..strong };
    assert_eq!(verify(&[weak, of_another_kind], &good, false), Ok(()));
}

proptest! {
    #[test]
    fn no_record_and_no_certificate_does_harm(
        usage in 0u8..5, selector in 0u8..3, matching in 0u8..4,
        data in proptest::collection::vec(any::<u8>(), 0..100),
        certificate in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let records = [TlsaRecord { usage, selector, matching, data }];
        if let Some(set) = TlsaSet::new(&records, vec!["mx.test".to_owned()]) {
            let certificate = CertificateDer::from(certificate);
            let outcome = set.verify(&certificate, std::slice::from_ref(&certificate), UnixTime::now());
            prop_assert!(outcome.is_err());
        }
    }
}
