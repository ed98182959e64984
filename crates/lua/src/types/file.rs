//! `AsyncFile`: an open file, used beside the running handler.

use crate::files::beside;
use mlua::{Lua, LuaString, UserData, UserDataMethods};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The userdata; `None` once it was closed.
pub(crate) struct LuaFile(Option<Arc<Mutex<File>>>);

impl LuaFile {
    /// `kumo.fs.open`.
    pub async fn open(lua: Lua, (path, mode): (String, Option<String>)) -> mlua::Result<LuaFile> {
        let options = options(mode.as_deref().unwrap_or("r"))?;
        let named = path.clone();
        let file = beside(&lua, move || options.open(named)).await;
        let file = file.map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))?;
        Ok(LuaFile(Some(Arc::new(Mutex::new(file)))))
    }

    fn file(&self) -> mlua::Result<Arc<Mutex<File>>> {
        self.0.clone().ok_or_else(|| mlua::Error::runtime("the file was closed"))
    }
}

/// C's modes, the `b` of which means nothing here.
fn options(mode: &str) -> mlua::Result<OpenOptions> {
    let mut options = OpenOptions::new();
    match mode.replace('b', "").as_str() {
        "r" => options.read(true),
        "w" => options.write(true).create(true).truncate(true),
        "a" => options.append(true).create(true),
        "r+" => options.read(true).write(true),
        "w+" => options.read(true).write(true).create(true).truncate(true),
        "a+" => options.read(true).append(true).create(true),
        _ => {
            return Err(mlua::Error::runtime(format!(
                "mode {mode:?}: expected r, w, a, r+, w+ or a+, with or without b"
            )));
        }
    };
    Ok(options)
}

async fn with<T: Send + 'static>(
    lua: &Lua,
    file: Arc<Mutex<File>>,
    work: impl FnOnce(&mut File) -> io::Result<T> + Send + 'static,
) -> mlua::Result<T> {
    let done = beside(lua, move || work(&mut file.lock().unwrap_or_else(PoisonError::into_inner))).await;
    done.map_err(|e| mlua::Error::runtime(format!("asyncfile: {e}")))
}

impl UserData for LuaFile {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("read", |lua, this, octets: Option<u64>| async move {
            let read = move |file: &mut File| {
                let mut data = Vec::new();
                file.take(octets.unwrap_or(u64::MAX)).read_to_end(&mut data).map(|_| data)
            };
            let data = with(&lua, this.file()?, read).await?;
            lua.create_string(data)
        });
        methods.add_async_method("write", |lua, this, data: LuaString| async move {
            let data = data.as_bytes().to_vec();
            with(&lua, this.file()?, move |file| file.write_all(&data)).await
        });
        methods.add_async_method("flush", |lua, this, ()| async move { with(&lua, this.file()?, File::flush).await });
        methods.add_async_method("seek", |lua, this, (whence, offset): (Option<String>, Option<i64>)| async move {
            let offset = offset.unwrap_or(0);
            let before = |_| mlua::Error::runtime(format!("offset {offset}: expected 0 or more from the beginning"));
            let to = match whence.as_deref() {
                None | Some("cur") => SeekFrom::Current(offset),
                Some("set") => SeekFrom::Start(u64::try_from(offset).map_err(before)?),
                Some("end") => SeekFrom::End(offset),
                Some(other) => return Err(mlua::Error::runtime(format!("whence {other:?}: expected cur, set or end"))),
            };
            with(&lua, this.file()?, move |file| file.seek(to)).await
        });
        methods.add_method_mut("close", |_, this, ()| {
            this.file()?;
            this.0 = None;
            Ok(())
        });
    }
}
