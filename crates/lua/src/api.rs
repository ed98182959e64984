//! What one name of the policy API is: signature, meaning, and the proof that it does what it says.
//!
//! Owns [`Module`], [`Function`], [`Type`] and [`Member`]. A module's table in a Lua state, its page of the reference manual
//! and its rows of the compatibility checklist are all made from the same struct, so they cannot disagree. Deliberately
//! absent: options of constructors, which are `config`'s structs and come into the manual from there.

use config::ConfigError;
use mlua::{FromLuaMulti, IntoLuaMulti, Lua, MultiValue, Table};
use std::future::Future;
use std::pin::Pin;

/// A table of functions that scripts see.
pub struct Module {
    /// As scripts write it: `kumo`, `kumo.string`, `redis`.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Its functions, in the order of the manual, by what they are about.
    pub functions: &'static [&'static [Function]],
    /// What its functions return, where that has methods or fields.
    pub types: &'static [Type],
}

/// A function of a module.
pub struct Function {
    /// Its name in the module's table.
    pub name: &'static str,
    /// Arguments and results.
    pub signature: &'static str,
    /// What it does, its defaults and its errors.
    pub doc: &'static str,
    /// What shows that it does.
    pub proof: Proof,
    /// Makes it; the argument is its full name.
    pub(crate) make: fn(&Lua, &'static str) -> mlua::Result<mlua::Function>,
    /// Its full name, as errors give it.
    pub full_name: &'static str,
}

/// An object with methods or fields.
pub struct Type {
    /// As the manual calls it: `Regex`.
    pub name: &'static str,
    /// What stands before the colon in the names of its members: `regex`.
    pub prefix: &'static str,
    /// What it is and how one comes by it.
    pub doc: &'static str,
    /// Methods and fields.
    pub members: &'static [Member],
}

/// A method or a field of an object.
#[derive(Clone, Copy)]
pub struct Member {
    /// As scripts write it, with what stands before: `regex:captures`, `address.user`.
    pub name: &'static str,
    /// Arguments and results, or the type of the field.
    pub signature: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// What shows that it does.
    pub proof: Proof,
}

/// What shows that a name does what its documentation says.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// A script of asserts that the tests run and the manual shows. `kumo`, `msg` and `conn_meta` are there, and `folder`
    /// is the path of an empty one.
    Example(&'static str),
    /// A test elsewhere: its file from the root of the tree, `::`, the test.
    Test(&'static str),
}

impl Module {
    /// The table, with every function.
    pub(crate) fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        for function in self.functions() {
            table.raw_set(function.name, function.create(lua)?)?;
        }
        Ok(table)
    }

    /// Its functions.
    pub fn functions(&self) -> impl Iterator<Item = &'static Function> {
        self.functions.iter().copied().flatten()
    }
}

impl Function {
    /// The function in a state.
    pub(crate) fn create(&self, lua: &Lua) -> mlua::Result<mlua::Function> {
        (self.make)(lua, self.full_name)
    }
}

/// A function as all of them are made: without types, so that the compiler makes the way into Lua once and not for each.
pub(crate) type Body = Box<dyn Fn(&Lua, MultiValue) -> mlua::Result<MultiValue> + Send>;
/// The same of one that may wait.
pub(crate) type WaitingBody = Box<dyn Fn(Lua, MultiValue) -> Waited + Send>;
/// What it waits for.
pub(crate) type Waited = Pin<Box<dyn Future<Output = mlua::Result<MultiValue>> + Send>>;

/// Makes a function.
pub(crate) fn made(lua: &Lua, body: Body) -> mlua::Result<mlua::Function> {
    lua.create_function(move |lua, given: MultiValue| body(lua, given))
}

/// Makes a function that may wait.
pub(crate) fn made_waiting(lua: &Lua, body: WaitingBody) -> mlua::Result<mlua::Function> {
    lua.create_async_function(move |lua, given: MultiValue| body(lua, given))
}

/// Calls a function with what a script gave it; errors name it.
pub(crate) fn call<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    name: &'static str,
    given: MultiValue,
    body: impl Fn(&Lua, A) -> mlua::Result<R>,
) -> mlua::Result<MultiValue> {
    let arguments = A::from_lua_args(given, 1, Some(name), lua)?;
    body(lua, arguments).map_err(|error| within(name, error))?.into_lua_multi(lua)
}

/// Calls a function that may wait.
pub(crate) fn call_waiting<A, R, F>(
    lua: Lua,
    name: &'static str,
    given: MultiValue,
    body: impl Fn(Lua, A) -> F + Send + 'static,
) -> Waited
where
    A: FromLuaMulti + Send,
    R: IntoLuaMulti,
    F: Future<Output = mlua::Result<R>> + Send,
{
    Box::pin(async move {
        let arguments = A::from_lua_args(given, 1, Some(name), &lua)?;
        body(lua.clone(), arguments).await.map_err(|error| within(name, error))?.into_lua_multi(&lua)
    })
}

/// An error of our own gets the name of the function or method in front, unless it says it already; what a script raised
/// inside stays what it is.
pub(crate) fn within(name: &str, error: mlua::Error) -> mlua::Error {
    match error {
        mlua::Error::RuntimeError(ref text) if !text.starts_with(name) => {
            mlua::Error::RuntimeError(format!("{name}: {text}"))
        }
        mlua::Error::FromLuaConversionError { .. } => mlua::Error::RuntimeError(format!("{name}: {error}")),
        mlua::Error::ExternalError(ref cause) if cause.is::<ConfigError>() && !cause.to_string().contains(name) => {
            mlua::Error::RuntimeError(format!("{name}: {cause}"))
        }
        other => other,
    }
}

/// Writes a function of a module: `function!("kumo.string", "trim", "(text) -> string", "doc", proof, trim)`.
macro_rules! function {
    ($module:literal, $name:literal, $signature:literal, $doc:expr, $proof:expr, $body:expr) => {
        $crate::api::Function {
            name: $name,
            signature: $signature,
            doc: $doc,
            proof: $proof,
            make: |lua, name| {
                $crate::api::made(lua, Box::new(move |lua, given| $crate::api::call(lua, name, given, $body)))
            },
            full_name: concat!($module, ".", $name),
        }
    };
    (waits $module:literal, $name:literal, $signature:literal, $doc:expr, $proof:expr, $body:expr) => {
        $crate::api::Function {
            name: $name,
            signature: $signature,
            doc: $doc,
            proof: $proof,
            make: |lua, name| {
                let body = move |lua, given| $crate::api::call_waiting(lua, name, given, $body);
                $crate::api::made_waiting(lua, Box::new(body))
            },
            full_name: concat!($module, ".", $name),
        }
    };
}
pub(crate) use function;
