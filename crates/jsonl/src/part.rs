//! A part of one segment: frames that an index points to, or what is behind them.
//!
//! Owns [`Part`]. In: a file, and where in it frames stand. Out: one line after the other, and where it begins in the text of the
//! part. It waits for the disk. A frame that is still written, or that was cut, gives the lines that are whole.

use crate::JsonlError;
use crate::stream::{Broken, Next, Stream};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Lines of some frames.
pub struct Part {
    path: PathBuf,
    stream: Stream,
    /// Octets of text before the line, and behind it.
    line: Range<u64>,
}

impl Part {
    /// Opens `part` of the file at `path`: it begins where a frame does, and ends where one does or behind the end of the file.
    ///
    /// Errors: [`JsonlError::Read`].
    pub fn open(path: &Path, part: Range<u64>) -> Result<Part, JsonlError> {
        let failed = |cause| JsonlError::Read { file: path.to_owned(), cause };
        Ok(Part { path: path.to_owned(), stream: Stream::open_part(path, part).map_err(failed)?, line: 0..0 })
    }

    /// The next line without its newline, and how many octets of text are before it; none at the end.
    ///
    /// Errors: [`JsonlError::Read`], [`JsonlError::Damaged`].
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>, JsonlError> {
        loop {
            match self.stream.next_line() {
                Ok(Next::Line) => {
                    self.line = self.line.end..self.line.end + self.stream.line().len() as u64 + 1;
                    return Ok(Some((self.line.start, self.stream.line())));
                }
                // No record is as long; where it stands does not matter.
                Ok(Next::TooLong) => self.line = self.line.end..self.line.end + 1,
                Ok(Next::End) => return Ok(None),
                Err(Broken::File(cause)) => return Err(JsonlError::Read { file: self.path.clone(), cause }),
                Err(Broken::Frame(cause)) => {
                    let (file, line) = (self.path.clone(), self.stream.lines());
                    return Err(JsonlError::Damaged { file, line, cause });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path, part: Range<u64>) -> Vec<(u64, String)> {
        let mut part = Part::open(path, part).expect("opens");
        let mut lines = Vec::new();
        while let Some((at, line)) = part.next_line().expect("sound") {
            lines.push((at, String::from_utf8(line.to_vec()).expect("text")));
        }
        lines
    }

    #[test]
    fn frames_are_read_without_their_neighbours() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("segment");
        let frames =
            ["one\ntwo\n", "three\n", "four\ncut"].map(|text| zstd::encode_all(text.as_bytes(), 1).expect("zstd"));
        let [first, second, third] = frames.each_ref().map(|frame| frame.len() as u64);
        std::fs::write(&path, frames.concat()).expect("writes");
        let said = |lines: &[(u64, &str)]| lines.iter().map(|(at, line)| (*at, (*line).to_owned())).collect::<Vec<_>>();
        assert_eq!(lines(&path, 0..first), said(&[(0, "one"), (4, "two")]));
        assert_eq!(lines(&path, first..first + second), said(&[(0, "three")]));
        assert_eq!(lines(&path, first..u64::MAX), said(&[(0, "three"), (6, "four")]), "the last line is not whole");
        assert_eq!(lines(&path, first + second + third..u64::MAX), said(&[]));
        std::fs::write(&path, &frames.concat()[..(first + second + third - 3) as usize]).expect("writes");
        assert!(lines(&path, first + second..u64::MAX).len() <= 1, "a frame that was cut ends there");
        std::fs::write(&path, b"no zstd at all").expect("writes");
        let mut part = Part::open(&path, 0..u64::MAX).expect("opens");
        assert!(matches!(part.next_line(), Err(JsonlError::Damaged { .. })));
    }
}
