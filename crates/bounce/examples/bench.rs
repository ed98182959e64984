//! Time to classify one reply by the shipped rules, remembered and not: `cargo run --release -p bounce --example bench`.

use bounce::{Classifier, Remembered, Rules};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let files = [
        ("community.toml", include_str!("../../../share/community/bounces.toml")),
        ("iana.toml", include_str!("../../../share/bounce_classifier/iana.toml")),
    ];
    let rules = files.map(|(name, text)| Rules::read(name, text).expect(name)).into();
    let started = Instant::now();
    let classifier = Classifier::new(rules, Remembered { classified: 1024, uncategorized: 1024 }).expect("sound");
    println!("{} rules compiled in {:?}", classifier.rules(), started.elapsed());
    let replies: Vec<&str> =
        include_str!("../tests/replies.tsv").lines().filter_map(|l| l.split('\t').nth(1)).collect();
    for round in 0..3 {
        let started = Instant::now();
        replies.iter().for_each(|reply| _ = black_box(classifier.why(reply)));
        println!("one pass, round {round}: {:?} a reply", started.elapsed() / replies.len() as u32);
    }
    let started = Instant::now();
    (0..100).for_each(|_| replies.iter().for_each(|reply| _ = black_box(classifier.why(reply))));
    println!("one pass, warm: {:?} a reply", started.elapsed() / (100 * replies.len() as u32));
    let long = "550 5.7.1 mailb\u{f6}x message spa ".repeat(2000);
    let started = Instant::now();
    black_box(classifier.why(&long));
    println!("the longest, not ASCII: {:?}", started.elapsed());
    let started = Instant::now();
    (0..1000).for_each(|_| replies.iter().for_each(|reply| _ = black_box(classifier.classify(reply))));
    println!("remembered: {:?} a reply", started.elapsed() / (1000 * replies.len() as u32));
}
