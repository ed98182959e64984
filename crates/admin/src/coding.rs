//! Compressed content (RFC 9110, section 8.4.1) octet by octet: `gzip` (RFC 1952), and `deflate`, which is the zlib format (RFC 1950).
//!
//! In: octets as they come, cut anywhere. Out: what they stand for, in pieces of at most [`PIECE_OCTETS`]: what is held does not grow
//! with what is promised, and whoever wants no more stops asking. Sums and lengths are checked. What ends too early, goes on behind its
//! end or comes to nearly nothing is [`Damage`]. How much may come out in all is not known here: who reads counts.

use bytes::{Buf, Bytes};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use thiserror::Error;

/// How content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// `gzip`; several members are one text.
    Gzip,
    /// `deflate`.
    Deflate,
}

/// Why octets are not what they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Damage {
    /// No more came.
    #[error("it ends too early")]
    Cut,
    /// No gzip, or one with a method or flags that nobody knows.
    #[error("it does not begin as gzip begins")]
    Head,
    /// No deflate.
    #[error("it cannot be decompressed")]
    Data,
    /// Something else was compressed.
    #[error("its checksum is another")]
    Sum,
    /// There is more.
    #[error("something stands behind its end")]
    More,
    /// It is made to be long.
    #[error("compressed it is far longer than what is in it")]
    Bloated,
}

/// Decompresses one content.
pub(crate) struct Decoder {
    coding: Coding,
    inflate: Decompress,
    sum: Crc,
    part: Part,
    piece: Box<[u8]>,
    octets_in: u64,
    octets_out: u64,
}

/// What comes next.
enum Part {
    /// A member of gzip begins.
    Head(Head),
    /// What is compressed.
    Data,
    /// The sum of a member, and its length.
    Tail(Vec<u8>),
    /// The end, or another member.
    Between,
    /// The end.
    Over,
}

/// The head of a member of gzip.
#[derive(Default)]
struct Head {
    flags: u8,
    place: Place,
}

/// Where in it the next octet stands.
#[derive(Clone, Copy)]
enum Place {
    Fixed(usize),
    ExtraLength(Option<u8>),
    Extra(u16),
    Text { part: usize },
    Sum { half: bool },
    Behind,
}

impl Decoder {
    pub fn new(coding: Coding) -> Decoder {
        Decoder {
            coding,
            inflate: Decompress::new(coding == Coding::Deflate),
            sum: Crc::new(),
            part: if coding == Coding::Gzip { Part::Head(Head::default()) } else { Part::Data },
            piece: vec![0; PIECE_OCTETS].into(),
            octets_in: 0,
            octets_out: 0,
        }
    }

    /// The next piece of what these octets stand for, which are taken off; `None` when more are wanted.
    ///
    /// # Errors
    /// They are damaged; nothing can be made of what follows.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Damage> {
        loop {
            let before = input.len();
            let piece = match self.part {
                Part::Data => self.inflate(input)?,
                _ => {
                    let Some(octet) = input.first().copied() else { return Ok(None) };
                    self.frame(octet, input)?;
                    None
                }
            };
            self.octets_in += (before - input.len()) as u64;
            self.octets_out += piece.as_ref().map_or(0, Bytes::len) as u64;
            if self.octets_in > 2 * self.octets_out + BLOAT_OCTETS_MAX {
                return Err(Damage::Bloated);
            }
            if piece.is_some() || (input.is_empty() && matches!(self.part, Part::Data)) {
                return Ok(piece);
            }
        }
    }

    /// No more octets come.
    ///
    /// # Errors
    /// There should be more.
    pub fn finish(&self) -> Result<(), Damage> {
        match self.part {
            Part::Between | Part::Over => Ok(()),
            Part::Head(_) | Part::Data | Part::Tail(_) => Err(Damage::Cut),
        }
    }

    fn inflate(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Damage> {
        let (total_in, total_out) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(input, &mut self.piece, FlushDecompress::None);
        let status = status.map_err(|_| Damage::Data)?;
        // Neither is more than the slices that were given.
        let taken = (self.inflate.total_in() - total_in) as usize;
        let made = (self.inflate.total_out() - total_out) as usize;
        input.advance(taken);
        let made = &self.piece[..made];
        if status == Status::StreamEnd {
            self.part =
                if self.coding == Coding::Gzip { Part::Tail(Vec::with_capacity(TAIL_OCTETS)) } else { Part::Over };
        } else if taken == 0 && made.is_empty() && !input.is_empty() {
            return Err(Damage::Data);
        }
        if self.coding == Coding::Gzip {
            self.sum.update(made);
        }
        Ok((!made.is_empty()).then(|| Bytes::copy_from_slice(made)))
    }

    /// An octet that stands around what is compressed.
    fn frame(&mut self, octet: u8, input: &mut Bytes) -> Result<(), Damage> {
        match &mut self.part {
            Part::Head(head) => {
                input.advance(1);
                head.take(octet)?;
                if matches!(head.place, Place::Behind) {
                    self.part = Part::Data;
                }
            }
            Part::Tail(tail) => {
                input.advance(1);
                tail.push(octet);
                if tail.len() == TAIL_OCTETS {
                    let expected = [self.sum.sum().to_le_bytes(), self.sum.amount().to_le_bytes()].concat();
                    if *tail != expected {
                        return Err(Damage::Sum);
                    }
                    self.part = Part::Between;
                }
            }
            Part::Between => {
                self.inflate.reset(false);
                self.sum.reset();
                self.part = Part::Head(Head::default());
            }
            Part::Over => return Err(Damage::More),
            Part::Data => {}
        }
        Ok(())
    }
}

impl Head {
    /// The next octet of it.
    fn take(&mut self, octet: u8) -> Result<(), Damage> {
        self.place = match self.place {
            Place::Fixed(at) => {
                let is_known = match at {
                    0..MAGIC_OCTETS => octet == MAGIC[at],
                    FLAGS_AT => octet & FLAGS_UNKNOWN == 0,
                    _ => true,
                };
                if !is_known {
                    return Err(Damage::Head);
                }
                if at == FLAGS_AT {
                    self.flags = octet;
                }
                if at + 1 < FIXED_OCTETS { Place::Fixed(at + 1) } else { self.next(0) }
            }
            Place::ExtraLength(None) => Place::ExtraLength(Some(octet)),
            Place::ExtraLength(Some(low)) => match u16::from_le_bytes([low, octet]) {
                0 => self.next(1),
                length => Place::Extra(length),
            },
            Place::Extra(1) => self.next(1),
            Place::Extra(left) => Place::Extra(left.saturating_sub(1)),
            Place::Text { part } if octet == 0 => self.next(part + 1),
            Place::Text { part } => Place::Text { part },
            Place::Sum { half: false } => Place::Sum { half: true },
            Place::Sum { half: true } | Place::Behind => Place::Behind,
        };
        Ok(())
    }

    /// The first from this one on of the parts that need not be there.
    fn next(&self, from: usize) -> Place {
        let found = PARTS.iter().skip(from).find(|(flag, _)| self.flags & flag != 0);
        found.map_or(Place::Behind, |(_, place)| *place)
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::Fixed(0)
    }
}

/// Octets of a piece, at most.
pub(crate) const PIECE_OCTETS: usize = 32 << 10;
/// Octets that may come in, besides two for each that comes out: names and empty blocks have none, and cost time.
const BLOAT_OCTETS_MAX: u64 = 256 << 10;
/// How gzip begins: two octets of its own, and the one method there is.
const MAGIC: [u8; MAGIC_OCTETS] = [0x1f, 0x8b, 8];
const MAGIC_OCTETS: usize = 3;
const FLAGS_AT: usize = 3;
/// Flags that mean nothing yet.
const FLAGS_UNKNOWN: u8 = 0b1110_0000;
const FIXED_OCTETS: usize = 10;
/// CRC-32 and length.
const TAIL_OCTETS: usize = 8;
/// Parts of a head that need not be there, in order, by their flags: more of it, a name, a comment, a sum.
const PARTS: [(u8, Place); 4] = [
    (4, Place::ExtraLength(None)),
    (8, Place::Text { part: 1 }),
    (16, Place::Text { part: 2 }),
    (2, Place::Sum { half: false }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use flate2::{Compression, GzBuilder};
    use std::io::Write;

    fn text() -> Vec<u8> {
        (0..20_000_u32).flat_map(|n| format!("line {} of it\n", n * n % 97).into_bytes()).collect()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("into memory");
        encoder.finish().expect("into memory")
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("into memory");
        encoder.finish().expect("into memory")
    }

    /// What octets that come so many at a time stand for.
    fn decoded(coding: Coding, octets: &[u8], step: usize) -> Result<Vec<u8>, Damage> {
        let (mut decoder, mut out) = (Decoder::new(coding), Vec::new());
        for part in octets.chunks(step) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(piece) = decoder.decode(&mut input)? {
                assert!((1..=PIECE_OCTETS).contains(&piece.len()));
                out.extend_from_slice(&piece);
            }
            assert!(input.is_empty(), "it is all taken");
        }
        decoder.finish().map(|()| out)
    }

    #[test]
    fn it_is_the_same_however_it_comes() {
        let text = text();
        for (coding, octets) in [(Coding::Gzip, gzip(&text)), (Coding::Deflate, zlib(&text))] {
            for step in [1, 2, 7, 64, 4096, octets.len()] {
                assert!(decoded(coding, &octets, step) == Ok(text.clone()), "{coding:?}, {step} octets at a time");
            }
        }
        for (coding, octets) in [(Coding::Gzip, gzip(b"")), (Coding::Deflate, zlib(b""))] {
            assert_eq!(decoded(coding, &octets, 3), Ok(Vec::new()));
        }
    }

    #[test]
    fn what_stands_in_a_head_is_read_over() {
        let full = GzBuilder::new().extra("some more").filename("its name").comment("a comment").mtime(7);
        let mut encoder = full.write(Vec::new(), Compression::best());
        encoder.write_all(b"hello").expect("into memory");
        let mut octets = encoder.finish().expect("into memory");
        assert_eq!(decoded(Coding::Gzip, &octets, 1), Ok(b"hello".to_vec()));
        // With a sum of the head, which gzip never writes: it stands behind the comment.
        let behind = octets.windows(10).position(|found| found == b"a comment\0").expect("the comment") + 10;
        octets.splice(behind..behind, [1, 2]);
        octets[FLAGS_AT] |= 2;
        assert_eq!(decoded(Coding::Gzip, &octets, 4), Ok(b"hello".to_vec()));
        let none = GzBuilder::new().extra("").write(Vec::new(), Compression::none());
        assert_eq!(decoded(Coding::Gzip, &none.finish().expect("into memory"), 5), Ok(Vec::new()));
    }

    #[test]
    fn members_are_one_text() {
        let two = [gzip(b"one, "), gzip(b""), gzip(b"two")].concat();
        for step in 1..=two.len() {
            assert_eq!(decoded(Coding::Gzip, &two, step), Ok(b"one, two".to_vec()));
        }
    }

    #[test]
    fn what_is_flushed_comes_out_at_once() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut decoder = Decoder::new(Coding::Gzip);
        for line in ["one line\n", "another\n", "the third\n"] {
            encoder.write_all(line.as_bytes()).expect("into memory");
            encoder.flush().expect("into memory");
            let mut input = Bytes::from(std::mem::take(encoder.get_mut()));
            let mut found = Vec::new();
            while let Some(piece) = decoder.decode(&mut input).expect("sound") {
                found.extend_from_slice(&piece);
            }
            assert_eq!(String::from_utf8_lossy(&found), line);
        }
    }

    #[test]
    fn a_piece_that_was_full_is_followed_by_what_is_left() {
        for length in [PIECE_OCTETS - 1, PIECE_OCTETS, PIECE_OCTETS + 1, PIECE_OCTETS * 3 + 1] {
            let octets = gzip(&vec![b'x'; length]);
            assert_eq!(decoded(Coding::Gzip, &octets, octets.len()).expect("sound").len(), length);
        }
    }

    #[test]
    fn damage_is_found() {
        let text = text();
        for (coding, octets) in [(Coding::Gzip, gzip(&text)), (Coding::Deflate, zlib(&text))] {
            for end in [0, 1, 5, 12, octets.len() / 2, octets.len() - 1] {
                let found = decoded(coding, &octets[..end], 4096);
                assert!(found == Err(Damage::Cut), "{coding:?} cut behind {end}: {:?}", found.map(|out| out.len()));
            }
            let more = [&octets[..], b"more"].concat();
            let expected = if coding == Coding::Gzip { Damage::Head } else { Damage::More };
            assert!(decoded(coding, &more, 4096) == Err(expected), "{coding:?} with something behind");
            let mut other = octets.clone();
            *other.last_mut().expect("octets") ^= 1;
            let expected = if coding == Coding::Gzip { Damage::Sum } else { Damage::Data };
            assert!(decoded(coding, &other, 4096) == Err(expected), "{coding:?} with another sum");
        }
        assert_eq!(decoded(Coding::Gzip, b"{\"envelope_sender\": 7}", 100), Err(Damage::Head));
        assert_eq!(decoded(Coding::Gzip, &[0x1f, 0x8b, 8, 0x20], 100), Err(Damage::Head));
        assert_eq!(decoded(Coding::Deflate, b"{\"envelope_sender\": 7}", 100), Err(Damage::Data));
    }

    #[test]
    fn what_is_long_for_nothing_is_refused() {
        let mut name = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0];
        name.resize(BLOAT_OCTETS_MAX as usize, b'x');
        assert_eq!(decoded(Coding::Gzip, &name, 4096), Err(Damage::Cut), "at the bound");
        name.push(b'x');
        assert_eq!(decoded(Coding::Gzip, &name, 4096), Err(Damage::Bloated));
        let mut blocks = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0];
        for _ in 0..BLOAT_OCTETS_MAX / 5 + 1 {
            // A stored block without an octet, and it is not the last.
            blocks.extend([0, 0, 0, 0xff, 0xff]);
        }
        assert_eq!(decoded(Coding::Gzip, &blocks, 4096), Err(Damage::Bloated));
    }

    #[test]
    fn a_bomb_comes_in_pieces() {
        let bomb = gzip(&vec![0; 64 << 20]);
        let (mut decoder, mut input) = (Decoder::new(Coding::Gzip), Bytes::from(bomb.clone()));
        let first = decoder.decode(&mut input).expect("sound").expect("a piece");
        assert!(first.len() <= PIECE_OCTETS && input.len() > bomb.len() * 9 / 10, "the rest waits to be asked for");
    }
}
