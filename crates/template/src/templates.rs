//! A set of templates, compiled once and rendered often.
//!
//! Sources are borrowed: whoever has them keeps them as long as what was made of them.

use crate::depth::{check_handlebars, check_jinja};
use crate::{Dialect, normalized};
use handlebars::Handlebars;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, State, filters};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::io;
use std::sync::LazyLock;
use thiserror::Error;

/// Named templates of one dialect.
pub struct Templates<'a> {
    engines: Engines<'a>,
}

/// What is wrong with a template, or with what it makes of some values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("template `{name}`: {why}")]
pub struct TemplateError {
    /// Which one.
    pub name: String,
    /// What the engine says of it.
    pub why: String,
}

enum Engines<'a> {
    Jinja(Box<Environment<'a>>),
    Static(HashMap<&'a str, &'a str>),
    /// What is text, and what is HTML: one engine escapes either all or nothing.
    Handlebars(Box<[Handlebars<'a>; 2]>),
}

impl<'a> Templates<'a> {
    /// None yet; of the operator's own.
    pub fn new(dialect: Dialect) -> Templates<'a> {
        Templates::with(dialect, &JINJA)
    }

    /// None yet; such as come with a request. Jinja has no `namespace` then, since an object that is in itself has no end, fewer
    /// steps, and no more than [`PIECES_MAX`] pieces of `slice` and `batch`.
    pub fn of_request(dialect: Dialect) -> Templates<'a> {
        Templates::with(dialect, &JINJA_OF_REQUESTS)
    }

    fn with(dialect: Dialect, jinja: &Environment<'static>) -> Templates<'a> {
        let engines = match dialect {
            Dialect::Jinja => Engines::Jinja(Box::new(jinja.clone())),
            Dialect::Static => Engines::Static(HashMap::new()),
            Dialect::Handlebars => {
                let mut text = Handlebars::new();
                text.register_escape_fn(handlebars::no_escape);
                Engines::Handlebars(Box::new([text, Handlebars::new()]))
            }
        };
        Templates { engines }
    }

    /// Compiles a source; its name tells whether it is HTML.
    ///
    /// # Errors
    /// It is no template of this dialect.
    pub fn add(&mut self, name: &'a str, source: &'a str) -> Result<(), TemplateError> {
        let wrong = |why: String| TemplateError { name: name.to_owned(), why };
        match &mut self.engines {
            Engines::Jinja(environment) => {
                check_jinja(source).map_err(wrong)?;
                environment.add_template(name, source).map_err(|e| wrong(chain(&e)))
            }
            Engines::Static(sources) => {
                sources.insert(name, source);
                Ok(())
            }
            Engines::Handlebars(engines) => {
                if has_partials(source) {
                    let why =
                        "it has a partial or a decorator: expected a template without `{{> ...}}` and `{{* ...}}`";
                    return Err(wrong(why.to_owned()));
                }
                check_handlebars(source).map_err(wrong)?;
                engines[usize::from(is_html(name))].register_template_string(name, source).map_err(|e| wrong(chain(&e)))
            }
        }
    }

    /// What a template makes of these values.
    ///
    /// # Errors
    /// There is none of that name, it cannot do with these values what it does, or takes or makes too much.
    pub fn render(&self, name: &str, values: &Json) -> Result<String, TemplateError> {
        self.rendered(name, values).map_err(|why| TemplateError { name: name.to_owned(), why })
    }

    fn rendered(&self, name: &str, values: &Json) -> Result<String, String> {
        match &self.engines {
            Engines::Jinja(environment) => {
                let template = environment.get_template(name).map_err(|e| chain(&e))?;
                let mut text = Bounded(Vec::new());
                template.render_captured_to(Value::from_serialize(values), &mut text).map_err(|e| chain(&e))?;
                String::from_utf8(text.0).map_err(|e| e.to_string())
            }
            Engines::Static(sources) => {
                sources.get(name).map(|source| (*source).to_owned()).ok_or_else(|| "there is none".to_owned())
            }
            Engines::Handlebars(engines) => {
                let mut text = Bounded(Vec::new());
                let engine = &engines[usize::from(is_html(name))];
                engine.render_to_write(name, values, &mut text).map_err(|e| chain(&e))?;
                String::from_utf8(text.0).map_err(|e| e.to_string())
            }
        }
    }
}

/// An engine without templates. What it is made of is shared by its clones: to fill tables of filters anew takes as long as to
/// make a message, and most requests have no template at all.
static JINJA: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    minijinja_contrib::add_to_environment(&mut environment);
    // KumoMTA behaviour.
    environment.add_filter("normalize_smtp_response", |text: String| normalized(&text));
    environment.set_fuel(Some(FUEL));
    environment
});

/// The same for templates of requests.
static JINJA_OF_REQUESTS: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = JINJA.clone();
    environment.remove_global("namespace");
    environment.add_filter("slice", slice);
    environment.add_filter("batch", batch);
    environment.set_fuel(Some(FUEL_OF_REQUESTS));
    environment
});

fn slice(state: &State, value: Value, count: usize, fill_with: Option<Value>) -> Result<Value, Error> {
    filters::slice(state, value, pieces(count)?, fill_with)
}

fn batch(state: &State, value: Value, count: usize, fill_with: Option<Value>) -> Result<Value, Error> {
    filters::batch(state, value, pieces(count)?, fill_with)
}

fn pieces(count: usize) -> Result<usize, Error> {
    let wrong = || format!("{count} pieces: expected at most {PIECES_MAX}");
    (count <= PIECES_MAX).then_some(count).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, wrong()))
}

/// HTML is escaped only where the name says that it is HTML.
fn is_html(name: &str) -> bool {
    name.ends_with(".html")
}

/// True where braces are followed by `>` or `*`, with whatever may stand between. The engine finds a partial among all of its
/// templates, and one that comes back to itself has no end.
fn has_partials(source: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || matches!(c, '{' | '~' | '#' | '&' | '^');
    source.split("{{").skip(1).any(|tag| tag.trim_start_matches(is_between).starts_with(['>', '*']))
}

/// What a template wrote, up to a bound.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.0.len() + octets.len() > OUTPUT_OCTETS_MAX {
            return Err(io::Error::other(too_much()));
        }
        self.0.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_much() -> String {
    format!("more than {OUTPUT_OCTETS_MAX} octets come out of it")
}

/// What the engine says, and what lies behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Most that may come out of a template.
const OUTPUT_OCTETS_MAX: usize = 64 << 20;
/// Steps a Jinja template may take.
const FUEL: u64 = 1_000_000;
/// The same of a request's: each may put a value into another, and who writes or drops them goes down by a call for each.
const FUEL_OF_REQUESTS: u64 = 150_000;
/// Pieces of `slice` and `batch`.
const PIECES_MAX: usize = 100_000;
/// Stack of threads that carry out templates: values as deep as steps and sources allow, with some room.
pub const STACK_OCTETS: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(dialect: Dialect, name: &str, source: &str) -> Result<String, TemplateError> {
        let mut templates = Templates::new(dialect);
        templates.add(name, source)?;
        templates.render(name, &json!({"who": "<Ann>", "list": [1, 2]}))
    }

    #[test]
    fn each_dialect_escapes_html_and_nothing_else() {
        for (dialect, source) in
            [(Dialect::Jinja, "Hi {{ who }}{{ gone }}"), (Dialect::Handlebars, "Hi {{who}}{{gone}}")]
        {
            assert_eq!(made(dialect, "a.txt", source).expect("sound"), "Hi <Ann>", "{dialect}");
            assert_eq!(made(dialect, "a.html", source).expect("sound"), "Hi &lt;Ann&gt;", "{dialect}");
            assert!(!dialect.is_plain(source) && dialect.is_plain("Hi { who }"));
        }
        for mark in ["{{", "{%", "{#"] {
            let texts = [mark.to_owned(), format!("{{{mark}"), format!("{{ é{mark}"), format!("a}}\n{mark} x")];
            assert!(texts.iter().all(|text| !Dialect::Jinja.is_plain(text)), "{mark}");
        }
        for text in ["", "{", "{ {", "}{", "{}%}#", "a { b {\"c\": 1}"] {
            assert!(Dialect::Jinja.is_plain(text), "{text}");
        }
        assert_eq!(made(Dialect::Static, "a.html", "Hi {{ who }}").expect("sound"), "Hi {{ who }}");
        assert!(Dialect::Static.is_plain("{{ who }}") && !Dialect::Jinja.is_plain("{# no #}"));
    }

    fn of_request(source: String) -> Result<String, TemplateError> {
        on_server(Dialect::Jinja, source)
    }

    /// On a thread such as the server's.
    fn on_server(dialect: Dialect, source: String) -> Result<String, TemplateError> {
        let thread = std::thread::Builder::new().stack_size(STACK_OCTETS);
        let made = thread.spawn(move || {
            let mut templates = Templates::of_request(dialect);
            templates.add("a", &source)?;
            templates.render("a", &json!({}))
        });
        made.expect("a thread").join().expect("it does not panic")
    }

    #[test]
    fn a_request_has_no_value_that_is_in_itself_and_no_endless_pieces() {
        let error = of_request("{% set ns=namespace() %}{% set ns.x=ns %}{{ ns }}".into()).expect_err("no end");
        assert!(error.why.contains("namespace"), "{error}");
        for filter in ["slice(1000000000)", "batch(1000000000, 1)"] {
            let error = of_request(format!("{{{{ range(10)|{filter}|list|length }}}}")).expect_err(filter);
            assert!(error.why.contains("expected at most 100000"), "{error}");
        }
        assert_eq!(of_request("{{ range(10)|batch(4)|list|length }}".into()).expect("usual"), "3");
        assert_eq!(
            made(Dialect::Jinja, "a", "{% set n=namespace(a=1) %}{% set n.a=2 %}{{ n.a }}").expect("usual"),
            "2"
        );
    }

    /// The deepest values that there can be: by macros that call themselves, and by templates that include themselves.
    #[test]
    fn the_deepest_values_fit_on_the_stack() {
        let brackets = ("[".repeat(60), "]".repeat(60));
        for last in ["x", "x|tojson", "x == x", "'ok'"] {
            let macros = format!(
                "{{% macro f(x, n) %}}{{% if n %}}{{{{ f({}x{}, n - 1) }}}}{{% else %}}{{{{ {last} }}}}{{% endif %}}{{% endmacro %}}{{{{ f(1, 80) }}}}",
                brackets.0, brackets.1
            );
            let made = of_request(macros);
            assert!(made.is_ok(), "{last}: {:?}", made.map(|text| text.len()));
            // A step for each bracket: nothing goes deeper for its steps.
            let set = format!("{{% set x={}x{} %}}", "[".repeat(70), "]".repeat(70));
            let sets = format!(
                "{{% set x=[x] %}}{}{{% set n=(n or 0) + 1 %}}{{% if n < 45 %}}{{% include 'a' %}}{{% else %}}{{{{ {last} }}}}{{% endif %}}",
                set.repeat(45)
            );
            let made = of_request(sets);
            assert!(made.is_ok(), "{last}: {:?}", made.map(|text| text.len()));
        }
        // As deep as Handlebars goes.
        for step in ["{{else if x}}", "{{#if x}}"] {
            let ends = if step.contains('#') { "{{/if}}".repeat(4900) } else { "{{/if}}".to_owned() };
            let head = if step.contains('#') { "" } else { "{{#if x}}" };
            let made = on_server(Dialect::Handlebars, format!("{head}{}y{ends}", step.repeat(4900)));
            assert_eq!(made.map(|text| text.len()), Ok(0), "{step}");
        }
        for source in ["{{ ", "{% set y = "] {
            assert!(
                of_request(format!("{source}{}", "not ".repeat(50_000)))
                    .expect_err("deep")
                    .why
                    .contains("expected fewer")
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said_of_the_source_or_of_what_it_does() {
        let error = made(Dialect::Jinja, "subject", "{{ who").expect_err("not closed");
        assert!(error.to_string().starts_with("template `subject`: syntax error"), "{error}");
        assert!(made(Dialect::Handlebars, "a", "{{#if who}}").is_err());
        for partial in [
            "{{#*inline \"a\"}}x{{/inline}}",
            "{{> b}}",
            "{{#  *inline \"a\"}}x{{/inline}}",
            "{{~#> b}}{{/b}}",
            "{{\t* b}}",
        ] {
            let error = made(Dialect::Handlebars, "a", partial).expect_err(partial);
            assert!(error.why.starts_with("it has a partial"), "{error}");
        }
        assert_eq!(made(Dialect::Handlebars, "a", "a > b {{who}} * c").expect("no partial"), "a > b <Ann> * c");
        assert!(made(Dialect::Jinja, "a", "{{ who|nothing }}").is_err());
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        let error = made(Dialect::Jinja, "a", endless).expect_err("without end");
        assert!(error.why.contains("fuel"), "{error}");
        assert!("jinja".parse::<Dialect>().expect_err("case counts").contains("expected Jinja"));
        assert!(Templates::new(Dialect::Jinja).render("a", &json!({})).is_err(), "there is none");
        let reply = "{{ '550 no <a@b.test>'|normalize_smtp_response }}";
        assert_eq!(made(Dialect::Jinja, "a", reply).expect("a filter"), "550 no <{email}>");
    }
}
