//! The search itself: each part of the pattern in turn, and back to the last choice where one does not fit.

use crate::class::Class;
use crate::item::{Item, item_at};
use crate::{CAPTURES_MAX, DEPTH_MAX, Error};

/// Where a pattern fits.
#[derive(Clone, Debug)]
pub struct Match {
    /// The first octet of it.
    pub start: usize,
    /// The octet behind it.
    pub end: usize,
    captures: [Slot; CAPTURES_MAX],
    count: usize,
}

/// What a pair of parentheses holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// These octets of the subject.
    Span(usize, usize),
    /// `()`: the place, counted from 0.
    Position(usize),
}

impl Match {
    /// How many captures the pattern has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A capture, counted from 0; of a pattern that has none the first is the whole match.
    ///
    /// # Errors
    /// There is none of that number, or it was not closed.
    pub fn capture(&self, number: usize) -> Result<Capture, Error> {
        if number >= self.count {
            return if number == 0 {
                Ok(Capture::Span(self.start, self.end))
            } else {
                Err(Error::NoCapture(number + 1))
            };
        }
        match self.captures[number] {
            Slot::Closed(start, end) => Ok(Capture::Span(start, end)),
            Slot::Position(at) => Ok(Capture::Position(at)),
            Slot::Open(_) => Err(Error::Unfinished),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Open(usize),
    Closed(usize, usize),
    Position(usize),
}

/// A search at one place of the subject.
pub(crate) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    steps: &'a mut u64,
    captures: [Slot; CAPTURES_MAX],
    count: usize,
    depth: usize,
}

impl<'a> Matcher<'a> {
    pub fn new(subject: &'a [u8], pattern: &'a [u8], steps: &'a mut u64) -> Matcher<'a> {
        Matcher { subject, pattern, steps, captures: [Slot::Position(0); CAPTURES_MAX], count: 0, depth: 0 }
    }

    /// The match that begins at `start`.
    pub fn run(mut self, start: usize) -> Result<Option<Match>, Error> {
        let end = self.rest(start, 0)?;
        Ok(end.map(|end| Match { start, end, captures: self.captures, count: self.count }))
    }

    /// Where the match ends when the pattern from `place` on begins at `at`.
    fn rest(&mut self, at: usize, place: usize) -> Result<Option<usize>, Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooComplex);
        }
        self.depth += 1;
        let end = self.parts(at, place);
        self.depth -= 1;
        end
    }

    /// Goes on from part to part while there is nothing to choose.
    fn parts(&mut self, mut at: usize, mut place: usize) -> Result<Option<usize>, Error> {
        loop {
            self.pay(1)?;
            let Some((item, next)) = item_at(self.pattern, place)? else { return Ok(Some(at)) };
            let fits = match item {
                Item::Open => return self.open(Slot::Open(at), at, next),
                Item::Position => return self.open(Slot::Position(at), at, next),
                Item::Close => return self.close(at, next),
                Item::Most(class, least) => return self.most(class, least, at, next),
                Item::Fewest(class) => return self.fewest(class, at, next),
                Item::Optional(class) => {
                    if self.is_one(class, at)?
                        && let Some(end) = self.rest(at + 1, next)?
                    {
                        return Ok(Some(end));
                    }
                    Some(at)
                }
                Item::One(class) => self.is_one(class, at)?.then_some(at + 1),
                Item::End => (at == self.subject.len()).then_some(at),
                Item::Balance(open, close) => self.balance(open, close, at)?,
                Item::Frontier(class) => self.is_frontier(class, at).then_some(at),
                Item::Again(digit) => self.again(digit, at)?,
            };
            let Some(behind) = fits else { return Ok(None) };
            (at, place) = (behind, next);
        }
    }

    fn pay(&mut self, steps: u64) -> Result<(), Error> {
        *self.steps = self.steps.checked_sub(steps).ok_or(Error::TooLong)?;
        Ok(())
    }

    fn is_one(&mut self, class: Class<'_>, at: usize) -> Result<bool, Error> {
        self.pay(class.cost())?;
        Ok(self.subject.get(at).is_some_and(|octet| class.has(*octet)))
    }

    fn most(&mut self, class: Class<'_>, least: usize, at: usize, next: usize) -> Result<Option<usize>, Error> {
        let mut count = 0;
        while self.is_one(class, at + count)? {
            count += 1;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(end) = self.rest(at + count, next)? {
                return Ok(Some(end));
            }
            let Some(fewer) = count.checked_sub(1) else { return Ok(None) };
            count = fewer;
        }
    }

    fn fewest(&mut self, class: Class<'_>, mut at: usize, next: usize) -> Result<Option<usize>, Error> {
        loop {
            if let Some(end) = self.rest(at, next)? {
                return Ok(Some(end));
            }
            if !self.is_one(class, at)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, slot: Slot, at: usize, next: usize) -> Result<Option<usize>, Error> {
        let number = self.count;
        *self.captures.get_mut(number).ok_or(Error::TooManyCaptures)? = slot;
        self.count += 1;
        let end = self.rest(at, next)?;
        if end.is_none() {
            self.count -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, at: usize, next: usize) -> Result<Option<usize>, Error> {
        let opened = self.captures[..self.count].iter().enumerate().rev();
        let (number, start) = opened
            .filter_map(|(number, slot)| if let Slot::Open(start) = slot { Some((number, *start)) } else { None })
            .next()
            .ok_or(Error::NothingToClose)?;
        self.captures[number] = Slot::Closed(start, at);
        let end = self.rest(at, next)?;
        if end.is_none() {
            self.captures[number] = Slot::Open(start);
        }
        Ok(end)
    }

    fn balance(&mut self, open: u8, close: u8, at: usize) -> Result<Option<usize>, Error> {
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1;
        for (behind, octet) in self.subject[at + 1..].iter().enumerate() {
            self.pay(1)?;
            if *octet == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + behind + 2));
                }
            } else if *octet == open {
                level += 1;
            }
        }
        Ok(None)
    }

    /// Between an octet that is not in the set and one that is; before the first and behind the last is a NUL.
    fn is_frontier(&self, class: Class<'_>, at: usize) -> bool {
        let before = at.checked_sub(1).map_or(0, |before| self.subject[before]);
        !class.has(before) && class.has(self.subject.get(at).copied().unwrap_or(0))
    }

    fn again(&mut self, digit: u8, at: usize) -> Result<Option<usize>, Error> {
        let number = usize::from(digit - b'0');
        let slot = number.checked_sub(1).and_then(|index| self.captures[..self.count].get(index));
        let (start, end) = match slot {
            None | Some(Slot::Open(_)) => return Err(Error::NoCapture(number)),
            // A place has no text that could come again.
            Some(Slot::Position(_)) => return Ok(None),
            Some(Slot::Closed(start, end)) => (*start, *end),
        };
        self.pay((end - start) as u64 / OCTETS_PER_STEP + 1)?;
        Ok(self.subject[at..].starts_with(&self.subject[start..end]).then_some(at + end - start))
    }
}

/// Octets compared in the time of a step.
const OCTETS_PER_STEP: u64 = 16;
