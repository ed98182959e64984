//! `postrider-bench`: the project's own demonstration and benchmark.
//!
//! It starts the real program as separate processes (generator -> relay -> sink), measures the relay from outside
//! through `/proc` and `/metrics`, and compares the ledgers of both ends: a figure is void if one message was lost,
//! doubled or damaged. In: a folder with the built `postrider`. Out: tables, a file of results, an exit code.
//!
//! A room each: `demo`, `run`, `kumomta`, `postfix1997`, `scaling`, `compare` and `spool_load` are verbs; `measure` is a
//! workload with all its runs, `round` one measured run; `relay`, `sink`, `generator` and `postfix` know how to start a
//! program and what to read from it; `load` tells what limited it; `stage` owns the scratch folder, `process` the children;
//! the rest are leaves. What is measured is the built program, and what is
//! verified is seen from outside; `spool_load`, `queue_load`, `shared_objects` and `pieces` (which
//! `instructions` counts) alone link parts of the server, with the server's allocator.

mod admin;
mod audit;
mod backlog;
mod clock_factor;
mod compare;
mod contention;
mod daemon;
mod demo;
mod destinations;
mod disk_stat;
mod disk_watch;
mod fit;
mod forgetful;
mod generator;
mod http;
mod injector;
mod instructions;
mod keys;
mod kumomta;
mod latency;
mod ledger;
mod listeners;
mod load;
mod machine;
mod mailbox;
mod mailing_list;
mod measure;
mod metrics;
mod pieces;
mod postfix;
mod postfix1997;
mod probe;
mod proc_file;
mod process;
mod queue_load;
mod queue_pass;
mod reclaim;
mod relay;
mod results;
mod round;
mod run;
mod scaling;
mod series;
mod shared_objects;
mod side;
mod sink;
mod spool_load;
mod stage;
mod stats;
mod sync_cost;
mod table;
mod wait;
mod witness;
mod workload;

use std::process::ExitCode;

use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Demonstrates and measures Postrider against its own generator and sink.
#[derive(clap::Parser)]
#[command(name = "postrider-bench", version, about, long_about = None)]
enum Verb {
    /// Send mail through a relay that is killed once, and check that nothing is lost
    Demo(demo::Options),
    /// Measure every workload and write a table to bench/results
    Run(run::Options),
    /// Do the experiments KumoMTA's makers publish, with their figures beside ours
    Kumomta(kumomta::Options),
    /// Do the experiments Postfix was presented with in 1997
    Postfix1997(postfix1997::Options),
    /// Measure by cores, connections, queues, domains, sizes, and latency by load
    Scaling(scaling::Options),
    /// Measure what sharing costs: one worker thread, one a core, many more
    Contention(contention::Options),
    /// Measure the spool by itself: durable appends and removals
    Spool(spool_load::Options),
    /// Measure the queues by themselves: a million messages in fifty thousand
    Queue(queue_load::Options),
    /// Measure a large backlog: memory, restarts, limits
    Backlog(backlog::Options),
    /// Measure how long an operator waits for answers with a million messages queued
    Admin(admin::Options),
    /// Measure what very many destinations cost in memory
    Destinations(destinations::Options),
    /// Measure disk use while most mail goes at once and some stays
    Reclaim(reclaim::Options),
    /// Measure the relay with and without syncing
    SyncCost(sync_cost::Options),
    /// Count the instructions of each piece of a message's way and compare with what was accepted
    Instructions(instructions::Options),
    /// Run one of those pieces
    #[command(hide = true)]
    Piece(instructions::PieceOptions),
    /// Measure two builds in turn and print the ratio of their CPU per message
    Compare(compare::Options),
}

fn main() -> ExitCode {
    let outcome = match Verb::parse() {
        Verb::Demo(options) => demo::demo(&options),
        Verb::Run(options) => run::run(&options),
        Verb::Kumomta(options) => kumomta::kumomta(&options),
        Verb::Postfix1997(options) => postfix1997::postfix1997(&options),
        Verb::Scaling(options) => scaling::scaling(&options),
        Verb::Contention(options) => contention::contention(&options),
        Verb::Spool(options) => spool_load::spool(&options),
        Verb::Queue(options) => queue_load::queue(&options),
        Verb::Backlog(options) => backlog::backlog(&options),
        Verb::Admin(options) => admin::admin(&options),
        Verb::Destinations(options) => destinations::destinations(&options),
        Verb::Reclaim(options) => reclaim::reclaim(&options),
        Verb::SyncCost(options) => sync_cost::sync_cost(&options),
        Verb::Instructions(options) => instructions::instructions(&options),
        Verb::Piece(options) => instructions::piece(&options),
        Verb::Compare(options) => compare::compare(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("postrider-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
