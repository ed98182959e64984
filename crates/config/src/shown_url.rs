//! URLs as people may see them: in errors, in logs, in answers to operators.
//!
//! Owns [`shown_url`]. In: text that is a URL, or was meant to be one. Out: the same without who logs in there, and without what stands
//! behind the path, where services take their tokens. Nothing can fail; when in doubt, more is hidden.

/// A URL without its secrets.
pub fn shown_url(text: &str) -> String {
    let text = without_login(text);
    match text.find(['?', '#']) {
        Some(at) => format!("{}{HIDDEN}", &text[..=at]),
        None => text,
    }
}

/// An address without who logs in there.
pub(crate) fn without_login(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        // One whose scheme was forgotten.
        let login = text.rsplit_once('@').filter(|(login, _)| {
            login.contains(':') && !login.starts_with("mailto:") && !login.contains(char::is_whitespace)
        });
        return login.map_or_else(|| text.to_owned(), |(_, place)| format!("{HIDDEN}@{place}"));
    };
    rest.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, place)| format!("{scheme}://{HIDDEN}@{place}"))
}

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_and_what_is_behind_the_path_are_hidden() {
        for (url, shown) in [
            ("https://a.test:4318/v1/metrics", "https://a.test:4318/v1/metrics"),
            ("https://joe:s3cret@a.test/v1", "https://***@a.test/v1"),
            ("https://s3cret@a.test/v1", "https://***@a.test/v1"),
            ("joe:s3cret@a.test/v1", "***@a.test/v1"),
            ("https://a.test/v1?token=s3cret", "https://a.test/v1?***"),
            ("https://a.test?token=s3cret", "https://a.test?***"),
            ("https://a.test/v1#s3cret", "https://a.test/v1#***"),
            ("a.test/v1?token=s3cret", "a.test/v1?***"),
            ("https://joe:s3?cret@a.test/v1?token=s3cret", "https://***@a.test/v1?***"),
            ("https://joe:s3/cret@a.test/v1", "https://***@a.test/v1"),
            ("https://a.test/v1?token=s3cret&to=b@c.test", "https://***@c.test"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }
}
