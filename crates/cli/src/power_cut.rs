//! stub
pub fn run() {}
