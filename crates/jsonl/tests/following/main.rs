//! Segments written and followed, through files: one binary, so that nothing the tests share goes unused.

mod consumers;
mod lines;
mod support;
mod tailing;
