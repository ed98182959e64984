//! The control run: on a disk that says "synced" and has not, power cuts must lose mail; else the tests in
//! `local_crash.rs` are blind. Alone in its file because it silences the panics it counts.

mod lies;
mod local_rig;

use local_rig::Rig;

#[test]
fn a_disk_that_lies_about_syncs_is_noticed() {
    let noticed = lies::noticed(run);
    assert!(noticed > 25, "{noticed} of 50");
}

fn run(seed: u64) {
    let mut rig = Rig::new(seed);
    rig.files.lie();
    for _ in 0..80 {
        rig.step().expect("no faults");
    }
    rig.crash_and_check(seed);
}
