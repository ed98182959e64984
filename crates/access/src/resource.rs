//! The resources that an HTTP request is about.

use core::net::SocketAddr;

/// The names of what a request to `path` of the listener at `listener` is about, the narrowest first (KumoMTA behaviour): the path
/// and its parents at that listener, the listener, the path and its parents at any listener, any listener. Of a path, 256 octets
/// and ten parts are looked at.
pub fn http_resources(listener: SocketAddr, path: &str) -> Vec<String> {
    let paths = paths(path);
    let mut resources = Vec::with_capacity(2 * paths.len() + 2);
    for place in [&*listener.to_string(), "*"] {
        resources.extend(paths.iter().map(|path| format!("{ROOT}/{place}/{path}")));
        resources.push(if place == "*" { ROOT.to_owned() } else { format!("{ROOT}/{place}") });
    }
    resources
}

/// A path without what is empty in it, then each of its parents.
fn paths(path: &str) -> Vec<String> {
    let end = (0..=path.len().min(PATH_OCTETS_MAX)).rev().find(|at| path.is_char_boundary(*at)).unwrap_or(0);
    let parts: Vec<&str> = path[..end].split('/').filter(|part| !part.is_empty()).take(PARTS_MAX).collect();
    (1..=parts.len()).rev().map(|count| parts[..count].join("/")).collect()
}

const ROOT: &str = "http_listener";
const PATH_OCTETS_MAX: usize = 256;
const PARTS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Vec<String> {
        http_resources("127.0.0.1:8080".parse().expect("address"), path)
    }

    #[test]
    fn the_narrowest_comes_first() {
        let expected = [
            "http_listener/127.0.0.1:8080/a/b",
            "http_listener/127.0.0.1:8080/a",
            "http_listener/127.0.0.1:8080",
            "http_listener/*/a/b",
            "http_listener/*/a",
            "http_listener",
        ];
        assert_eq!(of("/a/b"), expected);
        assert_eq!(of("//a//b/"), expected);
        assert_eq!(of("/"), ["http_listener/127.0.0.1:8080", "http_listener"]);
    }

    #[test]
    fn long_paths_are_cut() {
        assert_eq!(of("/1/2/3/4/5/6/7/8/9/10/11")[0], "http_listener/127.0.0.1:8080/1/2/3/4/5/6/7/8/9/10");
        let long = format!("/{}\u{e4}{}", "a".repeat(254), "b".repeat(300));
        assert_eq!(of(&long)[0], format!("http_listener/127.0.0.1:8080/{}", "a".repeat(254)), "no half a character");
    }
}
