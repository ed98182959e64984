//! One file of the log as an inspection goes through it: its header, how far it was read, its figures.

use super::walk::{Bounds, Gone, Step, Walk};
use super::{FAULTS_MAX, Fault, FaultKind, FileReport, Replay, is_aside, number};
use crate::SpoolError;
use crate::disk::{FileInfo, ReadPages};
use crate::format::{BatchHeader, SegmentHeader};
use crate::page::{PAGE_OCTETS, Page, octets};
use crate::record::{Record, Records};
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// How far a file was read.
pub(super) struct Track {
    pub report: FileReport,
    pub header: Option<SegmentHeader>,
    pub nonce: Option<u64>,
    /// Page of the next batch.
    pub at: u32,
    /// Nothing more will come.
    pub finished: bool,
    /// All but the unreadable pages.
    faults: Vec<Fault>,
    /// Faults beyond [`FAULTS_MAX`].
    pub faults_not_listed: u64,
    unreadable: BTreeMap<u32, String>,
}

impl Track {
    /// Reads the first pages; `None` when the file is gone.
    pub fn new(disk: &dyn ReadPages, file: &FileInfo) -> Result<Option<Track>, SpoolError> {
        let mut unreadable = BTreeMap::new();
        let mut pages = Page::zeros(2);
        for (page, into) in pages.chunks_mut(1).enumerate() {
            match disk.read_at(file.name, page as u32, into) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
                // Says nothing about the disk, only about who asks.
                Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                    return Err(SpoolError::io(crate::Step::Read, file.name, &e));
                }
                Err(e) => _ = unreadable.insert(page as u32, e.to_string()),
            }
        }
        let segment = number(file.name);
        let header = match SegmentHeader::decode(octets(&pages[..1]), file.name) {
            // What is set aside is no part of the log: it may be of any version.
            Err(_) if is_aside(file.name) => None,
            other => other?.filter(|h| h.segment == segment),
        };
        let first = BatchHeader::decode(octets(&pages[1..])).filter(|h| h.segment == segment);
        let nonce = header.map(|h| h.nonce).or(first.map(|h| h.nonce));
        let report = FileReport::new(file);
        let mut track = Track {
            report,
            header,
            nonce,
            at: 1,
            finished: false,
            faults: Vec::new(),
            faults_not_listed: 0,
            unreadable,
        };
        if header.is_none() {
            track.report.damaged_headers = 1;
            track.fault(0, PAGE_OCTETS as u64, FaultKind::Header);
        }
        Ok(Some(track))
    }

    /// Reads on to the end; the records go to `replay`. `Gone` leaves the figures half done.
    pub fn read(&mut self, disk: &dyn ReadPages, end: Option<u32>, replay: &mut Replay) -> Result<(), Gone> {
        let name = self.report.name;
        let segment = number(name);
        let file_pages = u32::try_from(self.report.octets.div_ceil(PAGE_OCTETS as u64)).unwrap_or(u32::MAX);
        let bounds = Bounds { segment, nonce: self.nonce, end, file_pages };
        self.report.acknowledged_octets = end.map(|end| u64::from(end) * PAGE_OCTETS as u64);
        let mut walk = Walk::new(disk, name, bounds, self.at, replay.last_sequence);
        if self.nonce.is_none() {
            // Recovery believes nothing in it: which of its batches are of this use is not known.
            self.report.damaged_batches = 1;
            self.fault(0, self.report.octets, FaultKind::Batch);
            self.finished = true;
        }
        while !self.finished {
            match walk.next()? {
                Step::Batch { page, header, octets, whole } => {
                    self.report.batches += u64::from(whole);
                    if !whole {
                        self.damaged_batch(page, octets.len());
                    }
                    self.records(page, &header, octets, replay);
                }
                Step::Hole { page, octets } => self.damaged_batch(page, octets.len()),
                Step::End { page, torn_pages } => {
                    self.at = page;
                    self.report.torn_tail_octets = u64::from(torn_pages) * PAGE_OCTETS as u64;
                    break;
                }
            }
        }
        replay.last_sequence = walk.last_sequence();
        self.finished |= end.is_some() || is_aside(name);
        walk.read_rest()?;
        self.unreadable.extend(walk.unreadable().iter().map(|(page, text)| (*page, text.clone())));
        Ok(())
    }

    /// Whether the file still has the name and the use that was read.
    pub fn is_unchanged(&self, disk: &dyn ReadPages) -> bool {
        let mut page = Page::zeros(1);
        match disk.read_at(self.report.name, 0, &mut page) {
            Err(e) => e.kind() != ErrorKind::NotFound,
            Ok(_) => self.header.is_none_or(|header| {
                let now = SegmentHeader::decode(octets(&page), self.report.name);
                now.is_ok_and(|now| now == Some(header))
            }),
        }
    }

    /// Notes something that does not read.
    pub fn fault(&mut self, offset: u64, octets: u64, what: FaultKind) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { file: self.report.name, offset, octets, what });
        } else {
            self.faults_not_listed += 1;
        }
    }

    /// The figures, and everything that does not read.
    pub fn finish(mut self) -> (FileReport, Vec<Fault>, u64) {
        self.report.unreadable_pages = self.unreadable.len() as u64;
        for (page, text) in std::mem::take(&mut self.unreadable) {
            self.fault(u64::from(page) * PAGE_OCTETS as u64, PAGE_OCTETS as u64, FaultKind::Unreadable(text));
        }
        (self.report, self.faults, self.faults_not_listed)
    }

    fn damaged_batch(&mut self, page: u32, octets: usize) {
        self.report.damaged_batches += 1;
        self.fault(u64::from(page) * PAGE_OCTETS as u64, octets as u64, FaultKind::Batch);
    }

    /// Applies the sound records of a batch.
    fn records(&mut self, page: u32, header: &BatchHeader, octets: &[u8], replay: &mut Replay) {
        replay.floor = replay.floor.max(header.floor);
        let mut records = Records::new(octets, header);
        while let Some(record) = records.next() {
            match record {
                Ok(Record::Transaction(transaction)) => {
                    self.report.messages += transaction.layout.entries.len() as u64;
                    replay.transaction(number(self.report.name), page, &transaction);
                }
                Ok(Record::Marks(marks)) => {
                    self.report.marks += marks.len() as u64;
                    marks.iter().for_each(|(mark, _)| replay.mark(mark));
                }
                Err(_) => {
                    self.report.damaged_records += 1;
                    self.fault(u64::from(page) * PAGE_OCTETS as u64, 0, FaultKind::Record);
                }
            }
        }
    }
}

impl FileReport {
    fn new(file: &FileInfo) -> FileReport {
        FileReport {
            name: file.name,
            octets: file.octets,
            acknowledged_octets: None,
            released: false,
            batches: 0,
            messages: 0,
            marks: 0,
            live_messages: 0,
            live_octets: 0,
            torn_tail_octets: 0,
            damaged_headers: 0,
            damaged_batches: 0,
            damaged_records: 0,
            damaged_states: 0,
            unreadable_pages: 0,
        }
    }
}
