//! The table of endpoints: a row is a path, what it belongs to, and for each method the handler and a line about it.
//!
//! A row is the whole truth. The router is made of it, and so is the OpenAPI document ([`crate::document`]): what a method takes
//! and answers is read from the types of its handler's arguments and result ([`crate::describe`]), so that neither can say what the
//! other does not do. What types cannot say, which refusals there are besides, stands in the row.

use crate::describe::{Described, Operation};
use crate::forms::Schemas;
use axum::handler::Handler;
use axum::routing::MethodFilter;
use axum::routing::{MethodRouter, on};

/// A path, and what answers there.
pub struct Endpoint<S> {
    /// The path, without parameters in it.
    pub(crate) path: &'static str,
    /// The heading under which it is described.
    pub(crate) group: &'static str,
    /// What answers.
    pub(crate) methods: MethodRouter<S>,
    /// The same, to be described.
    pub(crate) rows: Vec<Row>,
}

/// A method of a path.
pub(crate) struct Row {
    /// As HTTP writes it.
    pub method: &'static str,
    /// What it is for, in a line.
    pub about: &'static str,
    /// Statuses of refusals that do not follow from what it takes.
    pub refusals: &'static [u16],
    /// Says what its handler takes and answers.
    pub describe: fn(&mut Operation, &mut Schemas),
}

impl<S: Clone + Send + Sync + 'static> Endpoint<S> {
    /// A path at which nothing answers yet; `group` is the heading under which it is described.
    pub fn at(path: &'static str, group: &'static str) -> Endpoint<S> {
        Endpoint { path, group, methods: MethodRouter::new(), rows: Vec::new() }
    }

    /// What GET does; `refusals` are the statuses that do not follow from what the handler takes.
    #[must_use]
    pub fn get<H, T>(self, handler: H, about: &'static str, refusals: &'static [u16]) -> Endpoint<S>
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.answers(MethodFilter::GET, "GET", handler, about, refusals)
    }

    /// What POST does; as [`Endpoint::get`].
    #[must_use]
    pub fn post<H, T>(self, handler: H, about: &'static str, refusals: &'static [u16]) -> Endpoint<S>
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.answers(MethodFilter::POST, "POST", handler, about, refusals)
    }

    /// What DELETE does; as [`Endpoint::get`].
    #[must_use]
    pub fn delete<H, T>(self, handler: H, about: &'static str, refusals: &'static [u16]) -> Endpoint<S>
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.answers(MethodFilter::DELETE, "DELETE", handler, about, refusals)
    }

    fn answers<H, T>(
        mut self,
        filter: MethodFilter,
        method: &'static str,
        handler: H,
        about: &'static str,
        refusals: &'static [u16],
    ) -> Endpoint<S>
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        self.methods = self.methods.merge(on(filter, handler));
        self.rows.push(Row { method, about, refusals, describe: H::describe });
        self
    }
}
