//! Metrics for a collector of OpenTelemetry, by OTLP over HTTP with JSON.
//!
//! Owns [`Requests`], which makes requests of the text of `/metrics` one by one and is pure, and [`Exporter`], which sends each before the
//! next is made and knows how long to wait before the next attempt. In: text, moments, options of `kumo.configure_otlp_metrics`. Out: requests; whether they were taken, and
//! what is worth saying about it. Fails with [`ExportError`] when the options cannot be used; what a collector refuses is a value.
//!
//! Deliberately absent: when metrics are read, and of what (engine); other encodings and gRPC; logs and traces.

mod exporter;
mod otlp;

pub use exporter::{Attempt, ExportError, Exporter, News, check};
pub use otlp::{About, POINTS_MAX, Requests};
