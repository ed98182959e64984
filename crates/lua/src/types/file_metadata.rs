//! What the system knows of a file, as scripts see it.

use crate::types::time::LuaTime;
use jiff::Timestamp;
use mlua::{UserData, UserDataFields};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The userdata: fields only.
pub(crate) struct FileMetadata(pub Metadata);

/// A fact that is a number.
type Number = fn(&Metadata) -> u64;

fn time(seconds: i64, nanoseconds: i64) -> mlua::Result<LuaTime> {
    let nanoseconds = i32::try_from(nanoseconds).unwrap_or_default();
    Timestamp::new(seconds, nanoseconds).map(LuaTime).map_err(mlua::Error::external)
}

impl UserData for FileMetadata {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("is_file", |_, this| Ok(this.0.is_file()));
        fields.add_field_method_get("is_dir", |_, this| Ok(this.0.is_dir()));
        fields.add_field_method_get("is_symlink", |_, this| Ok(this.0.is_symlink()));
        fields.add_field_method_get("readonly", |_, this| Ok(this.0.permissions().readonly()));
        let numbers: [(&str, Number); 11] = [
            ("len", Metadata::len),
            ("size", Metadata::size),
            ("dev", Metadata::dev),
            ("ino", Metadata::ino),
            ("nlink", Metadata::nlink),
            ("rdev", Metadata::rdev),
            ("blksize", Metadata::blksize),
            ("blocks", Metadata::blocks),
            ("mode", |m| u64::from(m.mode())),
            ("uid", |m| u64::from(m.uid())),
            ("gid", |m| u64::from(m.gid())),
        ];
        for (name, number) in numbers {
            fields.add_field_method_get(name, move |_, this| Ok(number(&this.0)));
        }
        fields.add_field_method_get("atime", |_, this| time(this.0.atime(), this.0.atime_nsec()));
        fields.add_field_method_get("mtime", |_, this| time(this.0.mtime(), this.0.mtime_nsec()));
        fields.add_field_method_get("ctime", |_, this| time(this.0.ctime(), this.0.ctime_nsec()));
    }
}
