//! A password that a path or a source names: the policy's own text, or that of a file.
//!
//! A file is read anew for each connection, so that a changed one counts at once, and within a time, since it may stand on a
//! file system that does not answer. Fails with a text that names the option and the file, never with what is in there: a
//! connection without its password is not made.

use config::KeySource;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

/// The password of `option`.
pub(super) async fn read(option: &'static str, source: &KeySource, within: Duration) -> Result<Vec<u8>, String> {
    if !matches!(source, KeySource::File(_)) {
        return read_now(option, source);
    }
    let source = source.clone();
    let reading = tokio::task::spawn_blocking(move || read_now(option, &source));
    match tokio::time::timeout(within, reading).await {
        Ok(read) => read.unwrap_or_else(|e| Err(format!("{option}: {e}"))),
        Err(_) => Err(format!("{option}: not read within {within:?}")),
    }
}

fn read_now(option: &'static str, source: &KeySource) -> Result<Vec<u8>, String> {
    match source {
        KeySource::Data(bytes) => Ok(bytes.clone()),
        KeySource::File(file) => {
            let mut read = Vec::new();
            let reading = File::open(file).and_then(|file| file.take(FILE_OCTETS_MAX + 1).read_to_end(&mut read));
            reading.map_err(|e| format!("{option}: cannot read `{file}`: {e}"))?;
            if read.len() as u64 > FILE_OCTETS_MAX {
                return Err(format!("{option}: `{file}` has more than {FILE_OCTETS_MAX} octets"));
            }
            // Editors end a file with a line end; it is no part of the password.
            match read.trim_ascii_end() {
                [] => Err(format!("{option}: `{file}` is empty")),
                password => Ok(password.to_vec()),
            }
        }
        // Policy fetches what is elsewhere before it hands an option over.
        other => Err(format!("{option}: {other:?} was not fetched")),
    }
}

/// More than any password with its line end.
const FILE_OCTETS_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_text_and_its_faults_name_it() {
        let dir = tempfile::tempdir().expect("scratch");
        let file = dir.path().join("password");
        let of_file = KeySource::File(file.display().to_string());
        let error = read_now("smtp_auth_plain_password", &of_file).expect_err("not there");
        assert!(
            error.starts_with("smtp_auth_plain_password: cannot read `") && error.contains("/password`"),
            "{error}"
        );
        std::fs::write(&file, "tiger\r\n").expect("written");
        assert_eq!(read_now("p", &of_file), Ok(b"tiger".to_vec()));
        std::fs::write(&file, "\n").expect("written");
        assert!(read_now("p", &of_file).expect_err("no password").ends_with("/password` is empty"));
        std::fs::write(&file, "t".repeat(4096)).expect("written");
        assert_eq!(read_now("p", &of_file).map(|read| read.len()), Ok(4096));
        std::fs::write(&file, "t".repeat(4097)).expect("written");
        assert!(read_now("p", &of_file).expect_err("too long").contains("4096"));
        assert_eq!(read_now("p", &KeySource::Data(b"tiger\n".to_vec())), Ok(b"tiger\n".to_vec()), "as policy gives it");
    }
}
