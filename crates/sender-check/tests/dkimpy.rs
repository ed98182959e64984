//! We and dkimpy, an implementation that is not ours, hold each other's signatures and seals against made-up messages: what one
//! makes the other takes, and what was altered neither does.

mod common;
#[path = "common/letters.rs"]
mod letters;
#[path = "common/signing.rs"]
mod signing;

use common::{Table, now, peer, with_mail};
use fastrand::Rng;
use letters::{altered, letter};
use sender_auth::Canonicalization::{Relaxed, Simple};
use sender_auth::{Scratch, Signer};
use sender_check::arc::{self, ChainStatus, SealInput, Sealing};
use sender_check::{AuthenticationResult, dkim};
use signing::{RSA, signer};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn dkimpy_takes_our_signatures() {
    let Some(peer) = Peer::new() else { return };
    let mut rng = Rng::with_seed(6376);
    let forms = [(Relaxed, Relaxed), (Simple, Simple), (Relaxed, Simple), (Simple, Relaxed)];
    let names = ["From", "To", "Subject", "Date", "X-Long", "X-Eight", "X-Eight"];
    let signers: Vec<(Signer, String)> =
        [RSA, signing::ED25519].iter().flat_map(|key| forms.map(|forms| signer(key, &names, forms))).collect();
    for (kind, signers) in ["rsa", "ed25519"].into_iter().zip(signers.chunks(forms.len())) {
        let table = peer.publish("s1._domainkey.sign.example", &signers[0].1);
        let sound = (0..LETTERS / 2).map(|n| signed(&signers[n % forms.len()].0, &letter(&mut rng))).collect();
        peer.holds(&table, kind, "verify", sound, &mut rng, ours_holds);
    }
}

#[test]
fn we_take_signatures_of_dkimpy() {
    let Some(peer) = Peer::new() else { return };
    let mut rng = Rng::with_seed(8463);
    let (_, rsa) = signer(RSA, &["From"], (Relaxed, Relaxed));
    // dkimpy takes Ed25519 keys as the base64 of their seed.
    let ed25519 = peer.write("ed25519.key", ED25519_SEED.as_bytes());
    for (kind, key, record) in
        [("rsa", peer.write("rsa.pem", RSA_PKCS1), rsa), ("ed25519", ed25519, ED25519_RECORD.to_owned())]
    {
        let table = peer.publish("s1._domainkey.sign.example", &record);
        let letters: Vec<Vec<u8>> = (0..LETTERS / 2).map(|_| letter(&mut rng)).collect();
        let made = peer.made(&["sign", kind, "s1", "sign.example"], &key, &[], kind, &letters);
        peer.holds(&table, kind, "verify", made, &mut rng, ours_holds);
    }
}

#[test]
fn chains_of_both_hold() {
    let Some(peer) = Peer::new() else { return };
    let mut rng = Rng::with_seed(8617);
    let key = peer.write("rsa.pem", RSA_PKCS1);
    let (ours, record) = signer(RSA, &["From", "To", "Subject", "X-Long"], (Relaxed, Relaxed));
    let table = peer.publish("s1._domainkey.sign.example", &record);
    for links in [["we", "we", "we"], ["py", "py", "py"], ["we", "py", "we"], ["py", "we", "py"]] {
        let mut letters: Vec<Vec<u8>> = (0..CHAINS).map(|_| letter(&mut rng)).collect();
        for (place, who) in links.into_iter().enumerate() {
            letters = match who {
                "we" => letters.iter().map(|letter| sealed(&table, &ours, letter)).collect(),
                _ => peer.sealed(&key, place, &letters),
            };
        }
        let name = links.concat();
        peer.holds(&table, &name, "chains", letters, &mut rng, our_chain_holds);
    }
}

fn signed(signer: &Signer, letter: &[u8]) -> Vec<u8> {
    let block = mime::HeaderBlock::parse(letter);
    let (headers, body) = (block.view(letter), &letter[block.body_start()..]);
    let field = signer.sign(1_700_000_000, headers, body, &sender_auth::BodyHashes::new(), &mut Scratch::new());
    [field.expect("signs"), letter.to_vec()].concat()
}

fn sealed(table: &Table, signer: &Signer, letter: &[u8]) -> Vec<u8> {
    let result =
        AuthenticationResult { method: "spf".into(), result: "pass".into(), ..AuthenticationResult::default() };
    let input = SealInput { signer, server_id: "mx.ours.example", results: &[result], now_unix_secs: 1_700_000_000 };
    let sealing = with_mail(letter, |mail| now(arc::seal(table, mail, input)));
    let Ok(Sealing::Sealed { fields: [results, signature, seal] }) = sealing else { panic!("{sealing:?}") };
    [seal, signature, results, letter.to_vec()].concat()
}

fn ours_holds(table: &Table, letter: &[u8]) -> bool {
    let results = with_mail(letter, |mail| now(dkim::verify(table, mail, 1_700_000_000)));
    results.len() == 1 && results[0].result == "pass"
}

fn our_chain_holds(table: &Table, letter: &[u8]) -> bool {
    with_mail(letter, |mail| now(arc::verify(table, mail))).disposition == ChainStatus::Pass
}

/// dkimpy, and a folder for what goes between.
struct Peer {
    python: PathBuf,
    folder: tempfile::TempDir,
    packages: PathBuf,
}

impl Peer {
    fn new() -> Option<Peer> {
        let python = peer("bin/python", "fetch.sh")?;
        let authres = peer("sender-check/python/authres/__init__.py", "sender_check.sh")?;
        let packages = authres.ancestors().nth(2).expect("a folder").to_owned();
        Some(Peer { python, packages, folder: tempfile::tempdir().expect("a folder") })
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// One key, for dkimpy in a file and for us in a table.
    fn publish(&self, name: &str, record: &str) -> Table {
        self.write("keys", format!("{name} {record}\n").as_bytes());
        Table::new().with_txt(name, record)
    }

    /// Both take all of `sound`, and none of them altered.
    fn holds(
        &self,
        table: &Table,
        kind: &str,
        verb: &str,
        sound: Vec<Vec<u8>>,
        rng: &mut Rng,
        ours: fn(&Table, &[u8]) -> bool,
    ) {
        let count = sound.len();
        let unsound: Vec<Vec<u8>> = sound.iter().map(|letter| altered(rng, letter)).collect();
        for (name, letters, wanted) in [("sound", &sound, count), ("altered", &unsound, 0)] {
            let passed = letters.iter().filter(|letter| ours(table, letter)).count();
            assert_eq!(passed, wanted, "{kind}, {name}: what we take of {count}");
            let paths = self.put(&format!("{kind}-{name}"), letters);
            let said = self.run(&[verb], &self.folder.path().join("keys"), &[], &paths);
            let passed = said.lines().filter(|line| line.starts_with("pass ")).count();
            assert_eq!((passed, said.lines().count()), (wanted, count), "{kind}, {name}: what dkimpy takes\n{said}");
        }
    }

    /// What dkimpy makes of the letters.
    fn made(&self, args: &[&str], key: &Path, more: &[&str], name: &str, letters: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let paths = self.put(name, letters);
        self.run(args, key, more, &paths);
        paths.iter().map(|path| std::fs::read(path.with_extension("eml.made")).expect("made")).collect()
    }

    /// dkimpy seals what Authentication-Results of its own name say; ARC's own result must be among them from the second on.
    fn sealed(&self, key: &Path, earlier: usize, letters: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let server = format!("mx{earlier}.py.example");
        let chain = if earlier == 0 { "none" } else { "pass" };
        let results = format!("Authentication-Results: {server}; spf=pass smtp.mailfrom=a@ex.example; arc={chain}\r\n");
        let letters: Vec<Vec<u8>> = letters.iter().map(|letter| [results.as_bytes(), letter].concat()).collect();
        self.made(&["seal", "s1", "sign.example"], key, &[&server], &format!("seal{earlier}"), &letters)
    }

    fn put(&self, name: &str, letters: &[Vec<u8>]) -> Vec<PathBuf> {
        letters.iter().enumerate().map(|(n, letter)| self.write(&format!("{name}-{n}.eml"), letter)).collect()
    }

    fn run(&self, args: &[&str], file: &Path, more: &[&str], paths: &[PathBuf]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dkimpy.py");
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", &self.packages).arg(script).args(args).arg(file).args(more).args(paths);
        let output = command.output().expect("python runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

/// The form dkimpy reads.
const RSA_PKCS1: &[u8] = include_bytes!("../../sender-auth/tests/keys/rsa2048-pkcs1.pem");

/// RFC 8463 appendix A.2.
const ED25519_SEED: &str = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
const ED25519_RECORD: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

/// Messages each way, half of them signed with RSA, half with Ed25519.
const LETTERS: usize = 500;

/// Messages for each order of sealers.
const CHAINS: usize = 25;
