//! Pages: what is written and read, aligned so that `O_DIRECT` takes it without a copy.

use crate::memory::Pages;
use bytemuck::{Pod, Zeroable};

/// 4096 octets on a 4096-octet boundary.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
pub struct Page([u8; PAGE_OCTETS]);

/// A growing run of pages, filled octet by octet, kept and reused from commit to commit.
#[derive(Default)]
pub struct PageBuf {
    pages: Pages,
    len: usize,
}

impl PageBuf {
    /// Octets put in so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Forgets the octets, keeps the memory up to `octets_kept_max`.
    pub fn clear(&mut self, octets_kept_max: usize) {
        self.len = 0;
        if self.pages.slice().len() * PAGE_OCTETS > octets_kept_max {
            self.pages = Pages::default();
        }
    }

    /// Makes room for `octets` in an empty buffer at once: growing copies, and has two buffers while it does.
    pub fn make_room(&mut self, octets: usize) {
        let pages = octets.div_ceil(PAGE_OCTETS);
        if self.len == 0 && pages > self.pages.slice().len() {
            self.pages = Pages::default();
            self.pages = Pages::zeros(pages);
        }
    }

    /// Appends octets.
    pub fn put(&mut self, octets: &[u8]) {
        let at = self.grow(octets.len());
        self.all_mut()[at..at + octets.len()].copy_from_slice(octets);
    }

    /// Appends zeros and says where they begin, to be filled in later.
    pub fn put_zeros(&mut self, count: usize) -> usize {
        let at = self.grow(count);
        self.all_mut()[at..at + count].fill(0);
        at
    }

    /// The octets put in.
    pub fn octets(&self) -> &[u8] {
        &bytemuck::cast_slice(self.pages.slice())[..self.len]
    }

    /// The octets put in, to be patched.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.all_mut()[..len]
    }

    /// Fills the last page with zeros and gives the pages to be written.
    pub fn finish(&mut self) -> &[Page] {
        let used = self.len.div_ceil(PAGE_OCTETS);
        let len = self.len;
        self.all_mut()[len..used * PAGE_OCTETS].fill(0);
        &self.pages.slice()[..used]
    }

    /// Makes the buffer `count` pages long and gives them, to be read into.
    pub fn for_reading(&mut self, count: usize) -> &mut [Page] {
        self.pages.grow_to(count);
        self.len = count * PAGE_OCTETS;
        &mut self.pages.slice_mut()[..count]
    }

    /// Cuts the octets to `len` after a short read.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn all_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.pages.slice_mut())
    }

    /// Makes room for `more` octets and says where they begin.
    fn grow(&mut self, more: usize) -> usize {
        let at = self.len;
        let pages = (at + more).div_ceil(PAGE_OCTETS);
        let had = self.pages.slice().len();
        if pages > had {
            // By large steps, so that a batch of many small records is not copied at each of them.
            self.pages.grow_to(pages.max(had + had.clamp(GROW_PAGES_MIN, GROW_PAGES_MAX)));
        }
        self.len = at + more;
        at
    }
}

impl AsRef<[u8]> for PageBuf {
    fn as_ref(&self) -> &[u8] {
        self.octets()
    }
}

/// Pages as octets.
pub fn octets(pages: &[Page]) -> &[u8] {
    bytemuck::cast_slice(pages)
}

/// Pages as octets, to be written to.
pub fn octets_mut(pages: &mut [Page]) -> &mut [u8] {
    bytemuck::cast_slice_mut(pages)
}

impl Page {
    /// This page's octets.
    pub fn octets(&self) -> &[u8; PAGE_OCTETS] {
        &self.0
    }

    /// `count` pages of zeros.
    pub fn zeros(count: usize) -> Vec<Page> {
        vec![Page::zeroed(); count]
    }
}

/// Octets of a page.
pub const PAGE_OCTETS: usize = 4096;
/// Smallest growth of a buffer, in pages.
const GROW_PAGES_MIN: usize = 16;
/// Largest growth beyond what is needed now, in pages.
const GROW_PAGES_MAX: usize = 256;
