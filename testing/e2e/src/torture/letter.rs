//! A letter: its number says everything about it.
//!
//! In: seed, number and a [`Mix`]. Out: recipients, and content that seed, number and size alone give again, so that
//! the receiver compares octets instead of checksums. Content has what is easily spoilt on the way: lines that begin
//! with dots, a line of one dot, empty lines, lines of every length up to 78.

use std::ops::Range;

/// One message as it is offered to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Unique in its book.
    pub number: u64,
    /// How each recipient's mail fares, in the order of RCPT.
    pub fates: Vec<Fate>,
    /// Header block, empty line and body, CRLF line ends.
    pub content: Vec<u8>,
}

/// What the receiver does with a recipient's mail; it is the recipient's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Takes it.
    Now,
    /// Refuses the first RCPT with 451.
    Later,
    /// Refuses the first final dot with 451.
    Dot,
    /// Takes the first final dot and hangs up without a reply: the copy that follows is not the server's fault.
    Drop,
    /// Refuses RCPT with 451 until the receiver is told to release.
    Stuck,
}

/// What letters a load is made of.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Octets of content; small ones are more frequent.
    pub octets: Range<usize>,
    /// Most recipients of a letter.
    pub recipients_max: usize,
    /// How many letters of a hundred have recipients that are refused or hung up on at first.
    pub trouble_percent: u8,
    /// How many letters of a hundred are for one stuck recipient.
    pub stuck_percent: u8,
    /// How many letters of a hundred are cut off in the middle of their content.
    pub cut_percent: u8,
}

impl Mix {
    /// Everything in moderation.
    pub fn varied() -> Mix {
        Mix { octets: 400..40_000, recipients_max: 4, trouble_percent: 10, stuck_percent: 1, cut_percent: 2 }
    }

    /// One recipient, taken at once, of about the given size.
    pub fn plain(octets: usize) -> Mix {
        Mix { octets: octets..octets + 1, recipients_max: 1, trouble_percent: 0, stuck_percent: 0, cut_percent: 0 }
    }

    /// One recipient who is stuck.
    pub fn stuck(octets: usize) -> Mix {
        Mix { stuck_percent: 100, ..Mix::plain(octets) }
    }
}

impl Letter {
    /// The letter of this number.
    pub fn make(seed: u64, number: u64, mix: &Mix) -> Letter {
        let mut random = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(SPREAD));
        let percent = |random: &mut fastrand::Rng, of: u8| random.u8(0..100) < of;
        // Even in the logarithm: as many of 1 to 2 KB as of 16 to 32 KB.
        let (low, high) = ((mix.octets.start as f64).ln(), (mix.octets.end as f64).ln());
        let octets = (low + (high - low) * random.f64()).exp() as usize;
        let fates = if percent(&mut random, mix.stuck_percent) {
            vec![Fate::Stuck]
        } else {
            let troubled = percent(&mut random, mix.trouble_percent);
            let count = random.usize(1..=mix.recipients_max);
            let fate = |random: &mut fastrand::Rng| match troubled {
                true => Fate::ALL[random.usize(..4)],
                false => Fate::Now,
            };
            (0..count).map(|_| fate(&mut random)).collect()
        };
        Letter { number, fates, content: content(seed, number, octets) }
    }

    /// The recipients' addresses in the order of RCPT.
    pub fn recipients(&self) -> impl Iterator<Item = String> {
        addresses(self.number, &self.fates)
    }
}

impl Fate {
    const ALL: [Fate; 5] = [Fate::Now, Fate::Later, Fate::Dot, Fate::Drop, Fate::Stuck];

    fn name(self) -> &'static str {
        match self {
            Fate::Now => "now",
            Fate::Later => "later",
            Fate::Dot => "dot",
            Fate::Drop => "drop",
            Fate::Stuck => "stuck",
        }
    }
}

/// The addresses of a letter's recipients.
pub(crate) fn addresses(number: u64, fates: &[Fate]) -> impl Iterator<Item = String> {
    fates.iter().enumerate().map(move |(place, fate)| format!("r{place}.{number}@{}.test", fate.name()))
}

/// Letter, place among its recipients and fate of an address made by [`Letter::recipients`].
pub(crate) fn parse_address(address: &str) -> Option<(u64, usize, Fate)> {
    let (local, domain) = address.split_once('@')?;
    let (place, number) = local.strip_prefix('r')?.split_once('.')?;
    let name = domain.strip_suffix(".test")?;
    let fate = Fate::ALL.into_iter().find(|fate| fate.name() == name)?;
    Some((number.parse().ok()?, place.parse().ok()?, fate))
}

/// The number of the letter somewhere in which this content is.
pub(crate) fn parse_number(content: &[u8]) -> Option<u64> {
    let at = content.windows(FIELD.len()).position(|window| window == FIELD)?;
    let digits = content[at + FIELD.len()..].split(|octet| *octet == b'\r').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Lines until there are at least `octets`; asked for as many as came out, the same content comes out again.
pub(crate) fn content(seed: u64, number: u64, octets: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(SPREAD));
    let mut content = format!(
        "From: <torture@source.test>\r\nTo: <many@target.test>\r\nSubject: letter {number}\r\nX-Torture: {number}\r\n\r\n"
    )
    .into_bytes();
    while content.len() < octets {
        match random.u8(..) {
            0..8 => content.push(b'.'),
            8..12 => content.extend_from_slice(b"..twice"),
            _ => {
                let length = random.usize(0..=78);
                content.extend((0..length).map(|_| random.u8(b'!'..=b'~')));
            }
        }
        content.extend_from_slice(b"\r\n");
    }
    content
}

/// Which letter this is.
const FIELD: &[u8] = b"X-Torture: ";
/// Sets neighbouring numbers apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_the_same_letter_again() {
        let mix = Mix::varied();
        for number in 0..200 {
            let letter = Letter::make(7, number, &mix);
            assert_eq!(letter, Letter::make(7, number, &mix));
            assert_ne!(letter.content, Letter::make(8, number, &mix).content);
            assert_eq!(parse_number(&letter.content), Some(number));
            assert!(letter.content.len() >= 400 && letter.content.len() < 40_100 && letter.content.ends_with(b"\r\n"));
            for (place, address) in letter.recipients().enumerate() {
                assert_eq!(parse_address(&address), Some((number, place, letter.fates[place])), "{address}");
            }
        }
        assert_eq!(Letter::make(1, 1, &Mix::stuck(500)).fates, [Fate::Stuck]);
        assert_eq!(parse_address("r1.2@elsewhere.test"), None);
    }
}
