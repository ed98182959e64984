//! Ten thousand made-up messages, signed by us, before two verifiers that are not ours, libopendkim and mailauth; and what these
//! two sign, before us. What was altered nobody takes.

mod common;
#[path = "common/letters.rs"]
mod letters;
#[path = "common/signing.rs"]
mod signing;

use common::{Table, now, peer, with_mail};
use fastrand::Rng;
use letters::altered;
use sender_auth::Canonicalization::{Relaxed, Simple};
use sender_auth::{BodyHashes, Scratch, Signer};
use sender_check::dkim;
use signing::{ED25519, RSA, signer};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn two_others_take_our_signatures() {
    let Some(peers) = Peers::new() else { return };
    let mut rng = Rng::with_seed(10_000);
    for (kind, key, count) in [("rsa", RSA, RSA_LETTERS), ("ed25519", ED25519, ED25519_LETTERS)] {
        let names = ["From", "To", "Subject", "Date", "X-Long", "X-Eight", "X-Eight"];
        let forms = [(Relaxed, Relaxed), (Simple, Simple), (Relaxed, Simple), (Simple, Relaxed)];
        let signers: Vec<(Signer, String)> = forms.iter().map(|forms| signer(key, &names, *forms)).collect();
        let table = peers.publish(&signers[0].1);
        let sound: Vec<_> = (0..count).map(|n| signed(&signers[n % forms.len()].0, &letter(&mut rng))).collect();
        peers.judge(kind, &table, &sound, &mut rng);
    }
}

#[test]
fn we_take_signatures_of_two_others() {
    let Some(peers) = Peers::new() else { return };
    let mut rng = Rng::with_seed(6_376);
    for (who, kind, key) in [("opendkim", "rsa", RSA), ("mailauth", "rsa", RSA), ("mailauth", "ed25519", ED25519)] {
        let table = peers.publish(&signer(key, &["From"], (Relaxed, Relaxed)).1);
        let letters =
            std::iter::repeat_with(|| letter(&mut rng)).filter(|letter| who != "opendkim" || is_short(letter));
        let letters: Vec<Vec<u8>> = letters.take(THEIR_LETTERS).collect();
        let name = format!("{who}-{kind}-made");
        let made = peers.signed(who, kind, key, &name, &letters);
        peers.judge(&name, &table, &made, &mut rng);
    }
}

fn signed(signer: &Signer, letter: &[u8]) -> Vec<u8> {
    let block = mime::HeaderBlock::parse(letter);
    let (headers, body) = (block.view(letter), &letter[block.body_start()..]);
    let field = signer.sign(1_700_000_000, headers, body, &BodyHashes::new(), &mut Scratch::new()).expect("signs");
    [&field, letter].concat()
}

/// Both programs, and a folder for what goes between.
struct Peers {
    python: PathBuf,
    library: PathBuf,
    packages: PathBuf,
    folder: tempfile::TempDir,
}

impl Peers {
    fn new() -> Option<Peers> {
        let python = peer("bin/python", "fetch.sh")?;
        let library = peer("opendkim/libopendkim.so", "opendkim.sh")?;
        let package = peer("mailauth/node_modules/mailauth/package.json", "mailauth.sh")?;
        let packages = package.ancestors().nth(2).expect("a folder").to_owned();
        Some(Peers { python, library, packages, folder: tempfile::tempdir().expect("a folder") })
    }

    /// One key, for them in a file and for us in a table.
    fn publish(&self, record: &str) -> Table {
        let name = "s1._domainkey.sign.example";
        self.write("keys", format!("{name} {record}\n").as_bytes());
        Table::new().with_txt(name, record)
    }

    /// All of us take all of `sound`, and none of them altered.
    fn judge(&self, kind: &str, table: &Table, sound: &[Vec<u8>], rng: &mut Rng) {
        let unsound: Vec<Vec<u8>> = sound.iter().map(|letter| altered(rng, letter)).collect();
        for (name, letters, wanted) in [("sound", sound, sound.len()), ("altered", &unsound, 0)] {
            let ours = letters.iter().filter(|letter| we_take(table, letter)).count();
            assert_eq!(ours, wanted, "{kind}, {name}: what we take of {}", letters.len());
            let short: Vec<&Vec<u8>> = letters.iter().filter(|letter| is_short(letter)).collect();
            assert!(short.len() * 100 > letters.len() * 99, "{} of {} are short", short.len(), letters.len());
            for (who, letters) in [("opendkim", short), ("mailauth", letters.iter().collect())] {
                let said = self.verified(who, &self.put(&format!("{kind}-{name}-{who}"), &letters));
                assert_eq!(said.lines().count(), letters.len(), "{kind}, {name}: what {who} says");
                let other = said.lines().position(|line| (line == "pass") != (wanted > 0));
                let example = other.map(|at| (said.lines().nth(at), String::from_utf8_lossy(letters[at])));
                assert_eq!(example, None, "{kind}, {name}: the first that {who} judges otherwise");
            }
        }
    }

    fn verified(&self, who: &str, file: &Path) -> String {
        let keys = self.folder.path().join("keys");
        let mut command = self.program(who, "verify");
        run(command.arg(keys).arg(file))
    }

    /// What one of them makes of the letters.
    fn signed(&self, who: &str, kind: &str, key: &[u8], name: &str, letters: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let file = self.put(name, &letters.iter().collect::<Vec<_>>());
        let key = self.write(&format!("{kind}.pem"), key);
        let mut command = self.program(who, "sign");
        if who == "mailauth" {
            command.arg(kind);
        }
        run(command.args(["s1", "sign.example"]).arg(key).arg(&file));
        let made = std::fs::read(format!("{}.made", file.display())).expect("made");
        let mut rest = made.as_slice();
        let mut letters = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk() {
            let (letter, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
            letters.push(letter.to_vec());
            rest = behind;
        }
        letters
    }

    fn program(&self, who: &str, verb: &str) -> Command {
        let script = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
        let mut command;
        if who == "opendkim" {
            command = Command::new(&self.python);
            // What it needs may have been fetched with it.
            let real = self.library.canonicalize().expect("a library");
            command.env("LD_LIBRARY_PATH", real.parent().expect("a folder"));
            command.arg(script("opendkim.py")).arg(verb).arg(&self.library);
        } else {
            command = Command::new("node");
            command.env("NODE_PATH", &self.packages).arg(script("mailauth.js")).arg(verb);
        }
        command
    }

    /// The letters in one file, each behind its length.
    fn put(&self, name: &str, letters: &[&Vec<u8>]) -> PathBuf {
        let one = |letter: &&Vec<u8>| {
            [&u32::try_from(letter.len()).expect("short").to_be_bytes()[..], letter.as_slice()].concat()
        };
        self.write(name, &letters.iter().flat_map(one).collect::<Vec<u8>>())
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }
}

/// A made-up message, but with no octet in its header that mailauth takes for white space: 0xA0, which is none in DKIM.
fn letter(rng: &mut Rng) -> Vec<u8> {
    let mut letter = letters::letter(rng);
    let header = letter.windows(4).position(|four| four == b"\r\n\r\n").expect("a header");
    letter[..header].iter_mut().filter(|octet| **octet == 0xa0).for_each(|octet| *octet = 0xa1);
    letter
}

/// No field has more than libopendkim looks at.
fn is_short(letter: &[u8]) -> bool {
    let block = mime::HeaderBlock::parse(letter);
    block.view(letter).iter().all(|field| field.whole.len() < OPENDKIM_FIELD_BYTES_MAX)
}

fn we_take(table: &Table, letter: &[u8]) -> bool {
    let results = with_mail(letter, |mail| now(dkim::verify(table, mail, 1_700_000_000)));
    results.len() == 1 && results[0].result == "pass"
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// libopendkim 2.11 signs and verifies fields of more than 64 KiB wrongly: of a hundred letters less than one has such.
const OPENDKIM_FIELD_BYTES_MAX: usize = 65_000;

/// Messages of ours: ten thousand together.
const RSA_LETTERS: usize = 4_000;
const ED25519_LETTERS: usize = 6_000;

/// Messages that each of them signs with each kind of key.
const THEIR_LETTERS: usize = 500;
