//! `Timer`: how long a part of a script takes.

use crate::context::{Host, Surroundings};
use mlua::{Lua, MetaMethod, UserData, UserDataMethods};
use std::sync::Arc;
use std::time::Instant;

/// The userdata: running until it is done, once.
pub(crate) struct LuaTimer {
    label: String,
    since: Option<Instant>,
    program: Arc<Surroundings>,
}

impl LuaTimer {
    /// `kumo.time.start_timer`.
    pub fn start(lua: &Lua, label: String) -> mlua::Result<LuaTimer> {
        let program = lua.app_data_ref::<Host>().map(|host| host.program.clone());
        let program = program.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))?;
        Ok(LuaTimer { label, since: Some(Instant::now()), program })
    }

    /// Counts where the program serves; before, nobody reads its metrics.
    fn done(&mut self) -> Option<f64> {
        let took = self.since.take()?.elapsed();
        if let Some(program) = self.program.program.get() {
            program.script_took(&self.label, took);
        }
        Some(took.as_secs_f64())
    }
}

impl UserData for LuaTimer {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("done", |_, this, ()| Ok(this.done()));
        methods.add_meta_method_mut(MetaMethod::Close, |_, this, _: mlua::Value| {
            this.done();
            Ok(())
        });
    }
}
