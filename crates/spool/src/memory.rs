//! The memory under a page buffer.
//!
//! A batch of the log is copied once into memory the writer thread alone touches; beside bodies
//! of 100 KB that copy is half of what the thread costs, and a part of it is the address
//! translation of 2000 small pages. A large buffer therefore asks the kernel for huge pages
//! (7 % of the spool's CPU at 64 writers of 100 KB, `postrider-bench spool`). Small ones stay in
//! ordinary memory: a huge page costs 2 MiB even when little is put into it.

use crate::page::{PAGE_OCTETS, Page};
use bytemuck::Zeroable;
use memmap2::{Advice, MmapMut};

/// A run of pages, zeroed when made.
pub enum Pages {
    /// From the allocator.
    Plain(Vec<Page>),
    /// A mapping of its own, in huge pages where the kernel grants them.
    Huge(MmapMut),
}

impl Pages {
    /// At least `count` pages of zeros.
    pub fn zeros(count: usize) -> Pages {
        if count < HUGE_PAGES_MIN {
            return Pages::Plain(Page::zeros(count));
        }
        huge(count).unwrap_or_else(|| Pages::Plain(Page::zeros(count)))
    }

    /// Makes it at least `count` pages long; what is in it stays.
    pub fn grow_to(&mut self, count: usize) {
        match self {
            Pages::Plain(pages) if count < HUGE_PAGES_MIN => pages.resize(count.max(pages.len()), Page::zeroed()),
            _ if count <= self.slice().len() => {}
            _ => {
                let mut longer = Pages::zeros(count);
                longer.slice_mut()[..self.slice().len()].copy_from_slice(self.slice());
                *self = longer;
            }
        }
    }

    /// The pages.
    pub fn slice(&self) -> &[Page] {
        match self {
            Pages::Plain(pages) => pages,
            Pages::Huge(map) => bytemuck::cast_slice(map),
        }
    }

    /// The pages, to be written to.
    pub fn slice_mut(&mut self) -> &mut [Page] {
        match self {
            Pages::Plain(pages) => pages,
            Pages::Huge(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

impl Default for Pages {
    fn default() -> Pages {
        Pages::Plain(Vec::new())
    }
}

/// A mapping of whole huge pages; none when the system has no room for another mapping.
fn huge(count: usize) -> Option<Pages> {
    let octets = (count * PAGE_OCTETS).next_multiple_of(HUGE_PAGE_OCTETS);
    let map = MmapMut::map_anon(octets).ok()?;
    // Advice only: a kernel without huge pages refuses it, and small pages do the same slower.
    let _refused = map.advise(Advice::HugePage);
    Some(Pages::Huge(map))
}

/// Octets of a huge page on x86-64 and on aarch64 with small pages of 4 KiB.
const HUGE_PAGE_OCTETS: usize = 2 << 20;
/// Pages from which a buffer is worth huge pages.
const HUGE_PAGES_MIN: usize = HUGE_PAGE_OCTETS / PAGE_OCTETS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_survives_the_step_to_huge_pages_and_beyond() {
        let mut pages = Pages::zeros(2);
        crate::page::octets_mut(pages.slice_mut())[5000] = 7;
        assert!(matches!(pages, Pages::Plain(_)));
        for count in [HUGE_PAGES_MIN - 1, HUGE_PAGES_MIN, 3 * HUGE_PAGES_MIN + 1] {
            pages.grow_to(count);
            let octets = crate::page::octets(pages.slice());
            assert!(octets.len() >= count * PAGE_OCTETS);
            assert_eq!(octets[5000], 7, "{count} pages");
            assert!(octets[5001..].iter().all(|octet| *octet == 0), "{count} pages");
        }
        assert!(matches!(pages, Pages::Huge(_)));
    }
}
