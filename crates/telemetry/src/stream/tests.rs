//! Tests of a stream: full disks, wherever they are met, lose, double and cut nothing.

use super::*;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file on a disk that is full behind so many octets until the reserve is given away.
struct FullDisk {
    reserve: PathBuf,
    octets_left: usize,
    file: std::fs::File,
}

impl Write for FullDisk {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.reserve.exists() {
            let fits = self.octets_left.min(octets.len());
            self.octets_left -= fits;
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            return self.file.write(&octets[..fits]);
        }
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn writer(dir: &Path) -> Writer {
    let options = LocalLogs { log_dir: dir.to_owned(), ..LocalLogs::default() };
    let form = Form { options, prefix: "", suffix: String::new(), header: Vec::new() };
    Writer::new(Arc::new(Shared { state: Watched::default(), filled: Condvar::new(), form }), None)
}

/// One whose disk is full behind so many octets, and which has no reserve to give away; its segment, and the file that stands
/// for the disk's state: gone, there is room.
fn without_reserve(dir: &Path, octets_left: usize) -> (Writer, PathBuf, PathBuf) {
    let mut writer = writer(dir);
    let path = dir.join(format!("20261121-000000.{octets_left:09}"));
    let full = dir.join("full");
    std::fs::write(&full, b"").expect("writes");
    let file = std::fs::File::create(&path).expect("creates");
    let out = FullDisk { reserve: full.clone(), octets_left, file };
    writer.segment = Some(Segment::over(path.clone(), Box::new(out), 0).expect("zstd"));
    assert!(writer.reserve.release(Instant::now()));
    (writer, path, full)
}

/// What a writer does in a turn, without its thread.
fn write_all(writer: &mut Writer, lines: &[u8]) -> io::Result<()> {
    loop {
        match writer.write(lines) {
            Err(error) if writer.makes_room(&error) => {}
            other => return other,
        }
    }
}

#[test]
fn a_full_disk_cuts_no_stream_and_doubles_no_record_wherever_it_is_met() {
    let lines: Vec<u8> = (0..500).flat_map(|n| format!("{{\"number\":{}}}\n", n * 7919).into_bytes()).collect();
    let mut released = 0;
    for octets_left in (0..3000).step_by(7) {
        let dir = tempfile::tempdir().expect("scratch");
        let mut writer = writer(dir.path());
        let path = dir.path().join("20261121-000000.000000000");
        let file = std::fs::File::create(&path).expect("creates");
        let reserve = dir.path().join(".postrider-reserve");
        assert!(reserve.exists());
        let out = FullDisk { reserve: reserve.clone(), octets_left, file };
        writer.segment = Some(Segment::over(path.clone(), Box::new(out), 0).expect("zstd"));
        writer.index = Some(IndexFile::beside(&path));
        // Also at the ends of frames.
        writer.frame_bytes_max = 1000;
        for part in lines.chunks(700) {
            write_all(&mut writer, part).expect("the reserve makes room");
            writer.end_frame();
        }
        write_all(&mut writer, b"last\n").expect("room");
        writer.finish();
        let index = std::fs::read(path.with_file_name(".20261121-000000.000000000.index")).expect("an index");
        let mut blocks = crate::Blocks::of(&index);
        assert!(blocks.by_ref().count() > 4, "a block for each frame");
        assert_eq!(blocks.end(), std::fs::metadata(&path).expect("there").len());
        let text = zstd::decode_all(&std::fs::read(&path).expect("readable")[..]).expect("a whole stream");
        assert!(text == [&lines[..], b"last\n"].concat(), "full behind {octets_left} octets");
        released += usize::from(!reserve.exists());
    }
    assert!(released > 100 && released < 3000 / 7, "{released} of the disks were full in time");
}

#[test]
fn without_a_reserve_the_segment_waits_for_room() {
    let dir = tempfile::tempdir().expect("scratch");
    let (mut writer, path, full) = without_reserve(dir.path(), 5);
    let error = write_all(&mut writer, b"one\n").expect_err("full");
    assert!(writer.complain(&error) == Ending::No && writer.segment.is_some() && writer.complained);
    assert!(writer.shared.lock().refused.is_some());
    std::fs::remove_file(&full).expect("removes");
    write_all(&mut writer, b"one\n").expect("room again");
    writer.rejoice();
    writer.finish();
    let text = zstd::decode_all(&std::fs::read(&path).expect("readable")[..]).expect("a whole stream");
    assert!(text == b"one\n" && !writer.complained && writer.shared.lock().refused.is_none());
}

#[test]
fn what_came_while_the_disk_was_full_is_written_though_the_stream_ends() {
    let dir = tempfile::tempdir().expect("scratch");
    let (writer, path, full) = without_reserve(dir.path(), 5);
    let shared = writer.shared.clone();
    let stream = Stream { shared: shared.clone(), thread: Mutex::new(Some(std::thread::spawn(move || writer.run()))) };
    let push = |text: &str| {
        let mut line = vec![0; 24];
        line.extend_from_slice(text.as_bytes());
        stream.push(&mut line, &[], false);
    };
    push("one\n");
    // The thread has it, and no room for it.
    while shared.lock().records > 0 {
        std::thread::yield_now();
    }
    push("two\n");
    stream.retire();
    std::fs::remove_file(&full).expect("removes");
    while !stream.is_over() {
        std::thread::yield_now();
    }
    let text = zstd::decode_all(&std::fs::read(&path).expect("readable")[..]).expect("a whole stream");
    assert_eq!(text, b"one\ntwo\n");
}

/// A disk that is full once; meanwhile something happens.
struct FullOnce {
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
    file: std::fs::File,
}

impl Write for FullOnce {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self.meanwhile.take() {
            Some(meanwhile) => {
                meanwhile();
                Err(io::ErrorKind::StorageFull.into())
            }
            None => self.file.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_given_up_at_the_end_and_what_comes_behind_it_are_in_the_journal_each_once() {
    let dir = tempfile::tempdir().expect("scratch");
    let options = LocalLogs { log_dir: dir.path().to_owned(), journal: Some(true), ..LocalLogs::default() };
    let form = Form { options, prefix: "", suffix: String::new(), header: Vec::new() };
    let (ring, notes) = journal_of(&form).expect("room");
    let state = State { journal: Some(ring), ..State::default() };
    let shared = Arc::new(Shared { state: Watched::new(state), filled: Condvar::new(), form });
    let stream = Arc::new(Stream { shared: shared.clone(), thread: Mutex::default() });
    let mut writer = Writer::new(shared.clone(), Some(notes));
    assert!(writer.reserve.release(Instant::now()));
    let push = |stream: &Stream, text: &str| {
        let mut line = Vec::new();
        ring::room_for_head(&mut line);
        line.extend_from_slice(text.as_bytes());
        assert_eq!(stream.push(&mut line, &[], false), Offered::Queued);
    };
    let later = stream.clone();
    let out = FullOnce {
        meanwhile: Some(Box::new(move || push(&later, "two\n"))),
        file: std::fs::File::create(dir.path().join("20261121-000000.000000000")).expect("creates"),
    };
    let path = dir.path().join("20261121-000000.000000000");
    writer.segment = Some(Segment::over(path, Box::new(out), 0).expect("zstd"));
    push(&stream, "one\n");
    shared.end(Ending::Now);
    writer.run();
    drop((shared, stream));
    assert_eq!(journal::recover(dir.path()).expect("reads"), 2);
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(dir.path()).expect("there").flatten().map(|e| e.path()).collect();
    segments.retain(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0));
    segments.retain(|path| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
    let texts = segments.iter().map(|path| zstd::decode_all(&std::fs::read(path).expect("reads")[..]).expect("whole"));
    assert_eq!(texts.collect::<Vec<_>>().concat(), b"one\ntwo\n");
}

#[test]
fn the_end_of_a_segment_that_finds_no_room_waits_for_it() {
    let dir = tempfile::tempdir().expect("scratch");
    let had_to_wait = (1..60).any(|octets_left| {
        let (mut writer, path, full) = without_reserve(dir.path(), octets_left);
        if writer.write(b"one\n").is_err() {
            return false;
        }
        writer.finish();
        let has_waited = writer.segment.is_some() && writer.complained;
        std::fs::remove_file(&full).expect("removes");
        writer.finish();
        let text = zstd::decode_all(&std::fs::read(&path).expect("readable")[..]).expect("a whole stream");
        assert_eq!(text, b"one\n");
        assert!(std::fs::metadata(&path).expect("there").permissions().readonly());
        has_waited
    });
    assert!(had_to_wait, "none of the disks was full in time");
}

#[test]
fn the_end_of_a_frame_that_finds_no_room_waits_for_it() {
    let dir = tempfile::tempdir().expect("scratch");
    let mut ends_waited = 0;
    for octets_left in 1..60 {
        let (mut writer, path, full) = without_reserve(dir.path(), octets_left);
        writer.index = Some(IndexFile::beside(&path));
        writer.frame_bytes_max = 1;
        let mut left: Vec<&[u8]> = vec![b"two\n", b"one\n"];
        while let Some(line) = left.last() {
            match writer.write(line) {
                Ok(()) => {
                    left.pop();
                    writer.end_frame();
                    ends_waited += usize::from(writer.segment.as_ref().is_some_and(Segment::is_ending));
                }
                Err(error) => {
                    assert!(is_full(&error), "as a full disk is, so that it waits: {error}");
                    std::fs::remove_file(&full).expect("removes");
                }
            }
        }
        _ = std::fs::remove_file(&full);
        writer.finish();
        let text = zstd::decode_all(&std::fs::read(&path).expect("readable")[..]).expect("whole frames");
        assert_eq!(text, b"one\ntwo\n", "full behind {octets_left} octets");
    }
    assert!(ends_waited > 0, "some disks were full at the end of a frame");
}
