//! Where lines of a content begin with a dot: noted when it is received, so that who sends it doubles those dots without
//! looking for them.
//!
//! In: places, in rising order, from [`crate::data::DataDecoder`], or content that came another way. Out: [`Dots`], which goes
//! with the octets in a [`crate::Body`]. Where dots are too many, their places are forgotten: what is kept takes at most a
//! sixty-fourth of the content and 1 KiB, twice that while it comes in.

use std::sync::Arc;

/// Dots that begin lines, in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dots {
    places: Option<Arc<Vec<u32>>>,
    /// So many stand before the octets in question.
    before: u32,
    /// Where those begin.
    start: u32,
}

impl Dots {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().len() - self.before as usize
    }

    /// Where the one behind so many others is, from the first octet on.
    pub fn place(&self, index: usize) -> Option<usize> {
        self.all().get(self.before as usize + index).map(|place| (place - self.start) as usize)
    }

    /// Those of what stands behind so many octets.
    pub(crate) fn behind(&self, octets: usize) -> Dots {
        // Where places end, dots are not known either.
        let start = u32::try_from(octets).unwrap_or(u32::MAX).saturating_add(self.start);
        let before = self.all().partition_point(|place| *place < start) as u32;
        Dots { places: self.places.clone(), before, start }
    }

    fn all(&self) -> &[u32] {
        self.places.as_deref().map_or(&[], Vec::as_slice)
    }
}

/// Dots as they are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noting {
    places: Vec<u32>,
    is_over: bool,
}

impl Noting {
    /// Those of content whose line ends are CRLF alone.
    pub fn of(content: &[u8]) -> Noting {
        let mut noting = Noting::default();
        if content.first() == Some(&b'.') {
            noting.note(0);
        }
        memchr::memmem::find_iter(content, b"\n.").for_each(|line_end| noting.note(line_end as u64 + 1));
        noting
    }

    /// One stands behind so many octets of the content.
    pub fn note(&mut self, octets: u64) {
        let max = PLACES_MIN + octets / OCTETS_A_PLACE;
        match u32::try_from(octets) {
            Ok(place) if !self.is_over && (self.places.len() as u64) < max => self.places.push(place),
            _ => *self = Noting { places: Vec::new(), is_over: true },
        }
    }

    /// True when there were none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && !self.is_over
    }

    /// All of them, unless there were too many.
    pub fn into_dots(mut self) -> Option<Dots> {
        self.places.shrink_to_fit();
        (!self.is_over).then(|| Dots { places: Some(Arc::new(self.places)), before: 0, start: 0 })
    }
}

/// So many are noted of the shortest content.
const PLACES_MIN: u64 = 256;
/// And one more for each of so many octets.
const OCTETS_A_PLACE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(places: impl IntoIterator<Item = u64>) -> Noting {
        let mut noting = Noting::default();
        places.into_iter().for_each(|place| noting.note(place));
        noting
    }

    fn places(dots: &Dots) -> Vec<usize> {
        (0..dots.count()).filter_map(|index| dots.place(index)).collect()
    }

    #[test]
    fn places_count_from_where_a_part_begins() {
        let dots = noted([0, 7, 30]).into_dots().expect("few");
        assert_eq!((places(&dots), dots.place(3)), (vec![0, 7, 30], None));
        assert_eq!(places(&dots.behind(7)), [0, 23]);
        assert_eq!(places(&dots.behind(7).behind(1)), [22]);
        assert_eq!((dots.behind(31).count(), dots.behind(31).place(0)), (0, None));
    }

    #[test]
    fn too_many_are_forgotten_and_stay_so() {
        let line = |number: u64| number * 3;
        // Of lines of a dot alone: 256, and one more for each 256 octets.
        let kept = (0..).find(|count| noted((0..*count).map(line)).into_dots().is_none());
        assert_eq!(kept, Some(260));
        let mut noting = noted((0..260).map(line));
        noting.note(1_000_000);
        assert!(!noting.is_empty());
        assert_eq!(noting.into_dots(), None);
        assert_eq!(noted([u64::from(u32::MAX) + 1]).into_dots(), None);
        assert_eq!(noted((0..10_000).map(|number| number * 256)).into_dots().map(|dots| dots.count()), Some(10_000));
        assert!(Noting::default().is_empty());
    }
}
