//! What handlers take and answer, read from the types of their arguments and results.
//!
//! An argument is an [`Input`], a result an [`Output`], and a handler with both is [`Described`]. Forms of bodies are those of
//! [`crate::forms`].

use crate::forms::{Content, Schemas, Way};
use axum::Extension;
use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;

/// A handler that can say what it takes and answers; `T` is what tells handlers with different arguments apart, as axum has it.
pub trait Described<T> {
    /// Adds that to what is known of an operation.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);
}

/// An argument of a handler. Most are from the server itself: they say nothing.
pub trait Input {
    /// Adds what of a request it takes, and how it refuses.
    fn describe(_operation: &mut Operation, _schemas: &mut Schemas) {}
}

/// The result of a handler.
pub trait Output {
    /// Adds what is answered when all is well.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);
}

/// A method of a path, as OpenAPI describes it.
#[derive(Debug, Default)]
pub struct Operation {
    /// OpenAPI's parameter objects.
    pub(crate) parameters: Vec<Value>,
    /// Media type and form of the body.
    pub(crate) body: Option<(&'static str, Value)>,
    /// What is answered by status; media type and form where there is a body.
    pub(crate) answers: BTreeMap<u16, Option<(&'static str, Value)>>,
    /// Statuses of refusals.
    pub(crate) refusals: Vec<u16>,
    /// It is a websocket.
    pub(crate) upgrades: bool,
}

/// The body of requests whose handler reads it by itself.
pub struct Takes<C>(PhantomData<C>);
impl Operation {
    /// It answers so, when all is well.
    pub fn answers(&mut self, status: u16, media: &'static str, form: Value) {
        self.answers.insert(status, Some((media, form)));
    }

    /// The same of content that knows its form.
    pub(crate) fn gives<C: Content>(&mut self, status: u16, schemas: &mut Schemas) {
        self.answers(status, C::MEDIA, C::form(schemas, Way::Out));
    }

    /// It takes this, and refuses what is something else.
    pub fn takes<C: Content>(&mut self, schemas: &mut Schemas) {
        self.takes_form(C::MEDIA, C::form(schemas, Way::In));
    }

    pub(crate) fn takes_form(&mut self, media: &'static str, form: Value) {
        self.body = Some((media, form));
        self.refusals.extend([400, 413, 415, 422]);
    }

    /// A member of the query, or a header field.
    pub(crate) fn parameter(&mut self, place: &str, name: &str, is_required: bool, mut schema: Value) {
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let mut parameter = json!({"name": name, "in": place, "required": is_required, "schema": schema});
        if let Some(about) = about {
            parameter["description"] = about;
        }
        self.parameters.push(parameter);
    }
}

macro_rules! described {
    ($($argument:ident)*) => {
        impl<F, Fut, O, M, $($argument),*> Described<(M, $($argument,)*)> for F
        where
            F: FnOnce($($argument),*) -> Fut,
            Fut: Future<Output = O>,
            O: Output,
            $($argument: Input,)*
        {
            fn describe(operation: &mut Operation, schemas: &mut Schemas) {
                $($argument::describe(operation, schemas);)*
                O::describe(operation, schemas);
            }
        }
    };
}

described!(A);
described!(A B);
described!(A B C);
described!(A B C D);
described!(A B C D E);
described!(A B C D E G);
described!(A B C D E G H);
described!(A B C D E G H I);

impl<F, Fut, O> Described<((),)> for F
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = O>,
    O: Output,
{
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        O::describe(operation, schemas);
    }
}

impl<S> Input for State<S> {}
impl<T> Input for Extension<T> {}
impl<T> Input for ConnectInfo<T> {}
impl Input for HeaderMap {}
impl Input for Request {}
impl Input for Body {}

impl Input for WebSocketUpgrade {
    fn describe(operation: &mut Operation, _schemas: &mut Schemas) {
        operation.upgrades = true;
        operation.answers.insert(101, None);
        operation.refusals.extend([400, 426]);
    }
}

impl<C: Content> Input for Takes<C> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.takes::<C>(schemas);
    }
}

impl<S: Sync, C> FromRequestParts<S> for Takes<C> {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Takes<C>, Infallible> {
        Ok(Takes(PhantomData))
    }
}

impl<O: Output, E> Output for Result<O, E> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        O::describe(operation, schemas);
    }
}

/// With header fields.
impl<O: Output> Output for (HeaderMap, O) {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        O::describe(operation, schemas);
    }
}

/// What it is about follows from the arguments: an upgrade.
impl Output for Response {
    fn describe(_operation: &mut Operation, _schemas: &mut Schemas) {}
}

impl Output for () {
    fn describe(operation: &mut Operation, _schemas: &mut Schemas) {
        operation.answers.insert(200, None);
    }
}

impl Output for String {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.gives::<String>(200, schemas);
    }
}

impl Output for &'static str {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.gives::<String>(200, schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{inspect, metrics, orders, ready, upkeep, xfer};
    use schemars::JsonSchema;
    use serde::de::value::Error;
    use serde::de::{DeserializeOwned, Error as _, Visitor};
    use serde::{Deserializer, forward_to_deserialize_any};

    /// Fails with the fields that serde looks for.
    struct Fields;

    impl<'de> Deserializer<'de> for Fields {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            Err(Error::custom(fields.join(" ")))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
            seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn same<T: DeserializeOwned + JsonSchema>(found: &mut usize) {
        let Err(read) = T::deserialize(Fields) else { panic!("it is read of nothing") };
        let form = Schemas::default().inline::<T>(Way::In);
        let said: Vec<&str> = form["properties"].as_object().expect("fields").keys().map(String::as_str).collect();
        assert_eq!(said.join(" "), read.to_string(), "{}", T::schema_name());
        assert_eq!(form["additionalProperties"], false, "{}: what is unknown is refused", T::schema_name());
        *found += 1;
    }

    #[test]
    fn what_is_read_is_what_is_described() {
        let mut found = 0;
        same::<orders::About>(&mut found);
        same::<orders::Lasting>(&mut found);
        same::<orders::Moving>(&mut found);
        same::<orders::Transfer>(&mut found);
        same::<orders::CancelRequest>(&mut found);
        same::<orders::ReadyRequest>(&mut found);
        same::<orders::Withdrawal>(&mut found);
        same::<inspect::OfMessage>(&mut found);
        same::<inspect::OfQueue>(&mut found);
        same::<ready::OfReady>(&mut found);
        same::<ready::OfStates>(&mut found);
        same::<ready::OfPath>(&mut found);
        same::<ready::OfConnection>(&mut found);
        same::<crate::events::OfEvents>(&mut found);
        same::<metrics::OfMetrics>(&mut found);
        same::<upkeep::Filter>(&mut found);
        same::<upkeep::Named>(&mut found);
        same::<xfer::Which>(&mut found);
        same::<xfer::WhichOnes>(&mut found);
        same::<injection::Injection>(&mut found);
        same::<injection::Recipient>(&mut found);
        same::<injection::StructuredContent>(&mut found);
        same::<injection::Attachment>(&mut found);
        same::<injection::NamedAddress>(&mut found);
        same::<injection::InjectionTrace>(&mut found);
        assert_eq!(found, 25);
        let fields = Schemas::default().inline::<orders::About>(Way::In)["properties"].clone();
        let names: Vec<&String> = fields.as_object().expect("fields").keys().collect();
        assert_eq!(names, <orders::About as crate::answer::Common>::FIELDS, "by these a body is split");
    }
}
