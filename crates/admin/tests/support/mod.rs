//! What tests of the HTTP listener share: an engine that does nothing of its own.

use engine::pressure::Pressure;
use engine::{Engine, EngineParts, EngineSettings};
use net::dns::{HickoryResolver, MxCache, MxCacheLimits};
use policy::StaticPolicy;
use std::path::Path;
use std::sync::Arc;
use telemetry::Metrics;

/// An engine over `dir` that runs.
pub fn engine(dir: &Path, pressure: Pressure) -> Engine {
    let (spool, recovery) = store::open(dir, store::Options::default()).expect("a fresh spool");
    let nobody = HickoryResolver::asking(&[([127, 0, 0, 1], 9).into()]).expect("sound");
    let engine = Engine::new(EngineParts {
        policy: Arc::new(StaticPolicy),
        spool,
        mx: Arc::new(MxCache::new(Arc::new(nobody), MxCacheLimits::default())),
        connectors: net::tls::Connectors::new(None).expect("roots"),
        orders: store::OrdersFile::open(dir).expect("no orders"),
        classifier: None,
        read_rules: |_| Err("no rules here".to_owned()),
        startup: policy::Startup::default(),
        metrics: Metrics::new().expect("a registry"),
        pressure,
        settings: EngineSettings {
            hostname: "mx.test".to_owned(),
            spool_dir: dir.to_owned(),
            node_id: uuid::Uuid::from_u128(1),
            resident_bytes_max: 1 << 20,
            seed: 7,
        },
    });
    let engine = engine.expect("no logs");
    engine.start(recovery);
    engine
}
