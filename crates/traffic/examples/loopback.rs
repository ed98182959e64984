//! Measures what the two tools cost: runs generator against sink as two processes over loopback and prints the CPU
//! time of each per message.
//!
//! `cargo run --release -p traffic --example loopback -- [MESSAGES [CONCURRENCY]]`; every combination of message size
//! and ledger is run once. The kernel's work for a packet is charged to its sender, as far as it is charged at all.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1).and_then(|word| word.to_str()) {
        Some("traffic-gen") => traffic::traffic_gen::run(arguments.drain(1..)),
        Some("smtp-sink") => traffic::smtp_sink::run(arguments.drain(1..)),
        _ => measure_all(&arguments),
    }
}

fn measure_all(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let number = |at: usize, default: &str| -> anyhow::Result<String> {
        let word = arguments.get(at).and_then(|word| word.to_str()).unwrap_or(default);
        word.parse::<u64>().with_context(|| format!("{word}: expected a number"))?;
        Ok(word.to_owned())
    };
    let messages = number(1, "200000")?;
    let concurrency = number(2, "100")?;
    println!("size     ledgers  traffic-gen  smtp-sink   msgs/s   p50 us   p99 us");
    for size in ["10kb", "100kb"] {
        for with_ledgers in [false, true] {
            measure(size, with_ledgers, &messages, &concurrency)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(size: &str, with_ledgers: bool, messages: &str, concurrency: &str) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("traffic-loopback-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = |name: &str| folder.join(name).into_os_string();
    let ledger = |name: &str| with_ledgers.then(|| [OsString::from("--ledger"), path(name)]).into_iter().flatten();

    let mut sink = this_program("smtp-sink")
        .args(["--listen", "127.0.0.1:0"])
        .args(ledger("received"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut log = BufReader::new(sink.stderr.take().context("no stderr")?);
    let address = listening_address(&mut log)?;
    let before = children_cpu_us()?;
    let generator = this_program("traffic-gen")
        .args(["--target", &address, "--body-size", size, "--message-count", messages])
        .args(["--concurrency", concurrency, "--quiet", "--json"])
        .arg(path("result"))
        .args(ledger("sent"))
        .stdout(Stdio::null())
        .status()?;
    anyhow::ensure!(generator.success(), "traffic-gen failed");
    let after_generator = children_cpu_us()?;
    kill(Pid::from_raw(i32::try_from(sink.id())?), Signal::SIGTERM)?;
    sink.wait()?;
    let after_sink = children_cpu_us()?;

    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("result"))?)?;
    let sent = result["sent"].as_f64().context("no count of messages sent")?;
    if with_ledgers {
        let received = std::fs::read_to_string(folder.join("received"))?;
        let intact = received.lines().filter(|line| line.contains("\tok\t")).count();
        anyhow::ensure!(intact as f64 == sent, "{intact} intact of {sent} sent");
    }
    std::fs::remove_dir_all(&folder)?;
    println!(
        "{size:<8} {:<8} {:>8.1} us {:>7.1} us {:>8.0} {:>8} {:>8}",
        if with_ledgers { "yes" } else { "no" },
        (after_generator - before) / sent,
        (after_sink - after_generator) / sent,
        result["rate"].as_f64().unwrap_or_default(),
        result["latency_us"]["p50"],
        result["latency_us"]["p99"],
    );
    Ok(())
}

fn this_program(tool: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.arg(tool);
    command
}

/// Reads the log up to the end of initialization; returns the address of its listener.
fn listening_address(log: &mut impl BufRead) -> anyhow::Result<String> {
    let mut lines = String::new();
    while !lines.contains("initialization complete") {
        anyhow::ensure!(log.read_line(&mut lines)? > 0, "smtp-sink did not start: {lines}");
    }
    let line = lines.lines().find(|line| line.contains("listener on")).unwrap_or_default();
    Ok(line.rsplit(' ').next().unwrap_or_default().to_owned())
}

/// User and system time of the children that have ended, in microseconds.
fn children_cpu_us() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let (user, system) = (usage.user_time(), usage.system_time());
    let seconds = user.tv_sec() + system.tv_sec();
    let microseconds = user.tv_usec() + system.tv_usec();
    Ok(seconds as f64 * 1e6 + microseconds as f64)
}
