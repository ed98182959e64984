//! One segment as lines: read, decompressed and cut, as far as it has been written.
//!
//! Owns [`Stream`]. In: a file that may still grow, or a part of it that begins with a frame. Out: one line at a time; [`Next::End`] for now, after which it may be
//! asked again. Holds one line ([`LINE_OCTETS_MAX`] unless told otherwise), two buffers and zstd's window (128 MiB at most, by zstd's own
//! default). Fails on what the system or zstd refuses. It does not know whether more will come.

use config::LINE_OCTETS_MAX;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// An open segment.
pub(crate) struct Stream {
    file: File,
    /// Octets of the file that are to be read yet.
    left: u64,
    decoder: Decoder<'static>,
    input: Box<[u8]>,
    /// What of `input` zstd has not taken.
    unread: Range<usize>,
    output: Box<[u8]>,
    /// What of `output` is in no line yet.
    uncut: Range<usize>,
    /// zstd holds more output than there was room for.
    is_clogged: bool,
    /// The last frame is not whole.
    in_frame: bool,
    line: Vec<u8>,
    is_whole: bool,
    is_too_long: bool,
    lines: u64,
    line_octets_max: usize,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole line, without its newline: [`Stream::line`].
    Line,
    /// A line that was too long, and was not kept.
    TooLong,
    /// Nothing, for now.
    End,
}

/// Why nothing comes any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The system refused.
    File(io::Error),
    /// zstd refused.
    Frame(io::Error),
}

impl Stream {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> io::Result<Stream> {
        Stream::with_line_max(path, LINE_OCTETS_MAX)
    }

    /// Opens a part of it: whole frames, or frames up to the end of the file.
    pub fn open_part(path: &Path, part: Range<u64>) -> io::Result<Stream> {
        let mut stream = Stream::open(path)?;
        stream.file.seek(SeekFrom::Start(part.start))?;
        stream.left = part.end.saturating_sub(part.start);
        Ok(stream)
    }

    /// Opens one whose lines are longer or shorter at most than others', in octets with their newline.
    pub fn with_line_max(path: &Path, line_octets_max: usize) -> io::Result<Stream> {
        Ok(Stream {
            file: File::open(path)?,
            left: u64::MAX,
            decoder: Decoder::new()?,
            input: vec![0; BUFFER_OCTETS].into(),
            unread: 0..0,
            output: vec![0; BUFFER_OCTETS].into(),
            uncut: 0..0,
            is_clogged: false,
            in_frame: false,
            line: Vec::new(),
            is_whole: false,
            is_too_long: false,
            lines: 0,
            line_octets_max,
        })
    }

    /// The file itself, to look at.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The line [`Next::Line`] spoke of.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// How many lines came, long ones and the last one that [`Stream::last_line`] gave too.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// True in the middle of a zstd frame.
    pub fn in_frame(&self) -> bool {
        self.in_frame
    }

    /// Goes on to the next line.
    pub fn next_line(&mut self) -> Result<Next, Broken> {
        if std::mem::take(&mut self.is_whole) {
            self.line.clear();
            self.line.shrink_to(BUFFER_OCTETS);
        }
        loop {
            let octets = &self.output[self.uncut.clone()];
            let end = memchr::memchr(b'\n', octets);
            let part = end.unwrap_or(octets.len());
            if self.line.len() + part >= self.line_octets_max {
                self.is_too_long = true;
                self.line = Vec::new();
            } else if !self.is_too_long {
                self.line.extend_from_slice(&octets[..part]);
            }
            self.uncut.start += part;
            if end.is_some() {
                self.uncut.start += 1;
                return Ok(self.whole());
            }
            if !self.decompress()? {
                return Ok(Next::End);
            }
        }
    }

    /// At the end of a whole file: the line that lacks its newline, if there is one.
    pub fn last_line(&mut self) -> Next {
        match (self.is_whole, self.is_too_long || !self.line.is_empty()) {
            (false, true) => self.whole(),
            _ => Next::End,
        }
    }

    fn whole(&mut self) -> Next {
        self.lines += 1;
        self.is_whole = true;
        if std::mem::take(&mut self.is_too_long) { Next::TooLong } else { Next::Line }
    }

    /// Fills `output`; false when the file has no more.
    fn decompress(&mut self) -> Result<bool, Broken> {
        loop {
            if self.unread.is_empty() && !self.is_clogged {
                let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.input.len());
                let count = self.file.read(&mut self.input[..wanted]).map_err(Broken::File)?;
                if count == 0 {
                    return Ok(false);
                }
                self.left -= count as u64;
                self.unread = 0..count;
            }
            let mut from = InBuffer::around(&self.input[self.unread.clone()]);
            let mut to = OutBuffer::around(&mut self.output[..]);
            // Zero when the frame is whole and all of it given out; the next octet begins another.
            let wanted = self.decoder.run(&mut from, &mut to).map_err(Broken::Frame)?;
            let (taken, made) = (from.pos(), to.pos());
            self.unread.start += taken;
            self.in_frame = wanted != 0;
            self.is_clogged = self.in_frame && made == self.output.len();
            self.uncut = 0..made;
            if made > 0 {
                return Ok(true);
            }
        }
    }
}

/// Octets read, and octets decompressed, at a time.
const BUFFER_OCTETS: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines_of(stream: &mut Stream) -> Vec<String> {
        let mut lines = Vec::new();
        while stream.next_line().expect("sound") == Next::Line {
            lines.push(String::from_utf8(stream.line().to_vec()).expect("text"));
        }
        lines
    }

    #[test]
    fn a_file_is_read_as_it_grows_whatever_it_is_cut_at() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("segment");
        let text: String = (0..200).map(|n| format!("line {}\n", n * 7919)).collect();
        // Two frames, as a segment that was appended to has.
        let (first, second) = text.split_at(700);
        let packed = [zstd::encode_all(first.as_bytes(), 3), zstd::encode_all(second.as_bytes(), 3)];
        let packed: Vec<u8> = packed.into_iter().flat_map(|frame| frame.expect("zstd")).collect();
        for step in [1, 2, 7, 64] {
            let mut file = File::create(&path).expect("creates");
            let mut stream = Stream::open(&path).expect("opens");
            let mut lines = lines_of(&mut stream);
            assert!(lines.is_empty() && !stream.in_frame());
            for part in packed.chunks(step) {
                file.write_all(part).expect("writes");
                lines.extend(lines_of(&mut stream));
            }
            assert!(lines.iter().eq(text.lines()), "step {step}");
            assert!(!stream.in_frame() && stream.lines() == 200 && stream.last_line() == Next::End);
        }
    }

    #[test]
    fn much_comes_out_of_few_octets() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("segment");
        let text = format!("{}\n", "x".repeat(5 * BUFFER_OCTETS)).repeat(3);
        std::fs::write(&path, zstd::encode_all(text.as_bytes(), 3).expect("zstd")).expect("writes");
        let mut stream = Stream::open(&path).expect("opens");
        assert!(lines_of(&mut stream).iter().eq(text.lines()));
        // Less room than a block of zstd needs: it keeps the rest when it has no more input.
        let mut stream = Stream::open(&path).expect("opens");
        stream.output = vec![0; 1000].into();
        assert!(lines_of(&mut stream).iter().eq(text.lines()));
    }

    #[test]
    fn a_line_counts_as_too_long_at_bound_plus_one() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("segment");
        std::fs::write(&path, zstd::encode_all(&b"1234567\n12345678\nab\n12345678"[..], 3).expect("zstd"))
            .expect("writes");
        let mut stream = Stream::with_line_max(&path, 8).expect("opens");
        let mut next = || stream.next_line().map(|next| (next, stream.line().to_vec())).expect("sound");
        assert_eq!(next(), (Next::Line, b"1234567".to_vec()));
        assert_eq!(next().0, Next::TooLong);
        assert_eq!(next(), (Next::Line, b"ab".to_vec()));
        assert_eq!(next().0, Next::End);
        assert_eq!((stream.last_line(), stream.lines()), (Next::TooLong, 4));
    }

    #[test]
    fn what_is_not_zstd_is_refused() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("segment");
        std::fs::write(&path, b"plain text\n").expect("writes");
        assert!(matches!(Stream::open(&path).expect("opens").next_line(), Err(Broken::Frame(_))));
    }
}
