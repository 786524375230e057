//! Stories of templates: a text, and its output or its error.
//!
//! `tests/go.txt`, `tests/consul.txt` and `tests/sprig.txt` have lines in pairs: a template as a JSON text, and the
//! output (`= "..."`) or the error (`! "..."`) of Go's own package, of consul-template and of Sprig 3.2.1. They only
//! grow.

mod stories;

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::consul::{Functions, Moment, Question, World};
use super::{Bounds, MissingKey, NoLibrary, Options, Template, Value};

/// A task with two environment variables, whose questions nobody answers.
#[derive(Default)]
struct Nobody {
    answers: Mutex<Vec<(Question, Value)>>,
}

impl World for Nobody {
    fn now(&self) -> Moment {
        Moment { seconds: 1_136_214_245, nanos: 123_000_000 }
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            "A" => Some("aye".to_owned()),
            "E" => Some(String::new()),
            _ => None,
        }
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        if path.starts_with('/') {
            return Err(format!("'{path}' is outside of sandbox"));
        }
        Err(format!("lstat {path}: no such file or directory"))
    }

    fn answer(&self, question: &Question) -> Option<Value> {
        let answers = self.answers.lock().unwrap();
        answers.iter().find(|(known, _)| known == question).map(|(_, answer)| answer.clone())
    }
}

fn escaped(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Output of a template as an action of a job, with its unanswered questions.
fn consul(text: &str, world: &Nobody, missing_key: MissingKey) -> String {
    let denied = BTreeSet::from(["plugin".to_owned(), "writeToFile".to_owned()]);
    let functions = Functions::new(world, "default", "global", &denied);
    let options = Options { missing_key, ..Options::default() };
    let rendered = Template::parse("", text, &options, &functions)
        .and_then(|template| template.render(Value::Missing, &functions, Bounds::default()));
    match rendered {
        Err(error) => format!("! {}", escaped(&error.to_string())),
        Ok(output) => {
            let mut missing: Vec<String> = functions.noted().missing.iter().map(ToString::to_string).collect();
            missing.sort();
            let missing = if missing.is_empty() { String::new() } else { format!(" {}", missing.join(" ")) };
            format!("= {}{missing}", escaped(&String::from_utf8_lossy(&output)))
        }
    }
}

/// Output of a template of the language alone, with JSON as its data.
fn plain(text: &str) -> String {
    let dot = serde_json::from_str(include_str!("tests/data.json")).unwrap();
    let rendered = Template::parse("t", text, &Options::default(), &NoLibrary)
        .and_then(|template| template.render(Value::of_json(&dot), &NoLibrary, Bounds::default()));
    match rendered {
        Ok(output) => format!("= {}", escaped(&String::from_utf8_lossy(&output))),
        Err(error) => format!("! {}", escaped(&error.to_string())),
    }
}

/// Compares every pair of a file with what `render` says.
fn pairs(file: &str, render: impl Fn(&str) -> String) {
    let lines: Vec<&str> = file.lines().collect();
    let mut wrong = Vec::new();
    for pair in lines.chunks(2) {
        let text: String = serde_json::from_str(pair[0]).unwrap();
        let got = render(&text);
        if got != pair[1] {
            wrong.push(format!("{}\n  wanted {}\n  got    {got}", pair[0], pair[1]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), lines.len() / 2, wrong.join("\n"));
}

#[test]
fn language_does_what_go_does() {
    pairs(include_str!("tests/go.txt"), plain);
}

#[test]
fn functions_do_what_consul_template_does() {
    pairs(include_str!("tests/consul.txt"), |text| consul(text, &Nobody::default(), MissingKey::Zero));
}

#[test]
fn functions_of_sprig_do_what_sprig_does() {
    pairs(include_str!("tests/sprig.txt"), |text| consul(text, &Nobody::default(), MissingKey::Zero));
}
