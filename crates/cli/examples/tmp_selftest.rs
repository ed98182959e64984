fn main() -> anyhow::Result<std::process::ExitCode> {
    let d = cli::Defaults { spool_dir: ".".into(), queue_of: |_, _| String::new() };
    cli::selftest(std::env::args_os().collect(), d)
}
