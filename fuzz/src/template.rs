//! Templates of jobs: any text is output or an error, in bounds, and the same again.

use std::collections::BTreeSet;

use songline_lang::template::consul::nomad::Variable;
use songline_lang::template::consul::{Functions, Moment, Question, World};
use songline_lang::template::{Bounds, MissingKey, Options, Template, Value};

/// A world that answers every question about a variable, and no other.
struct Answers;

impl World for Answers {
    fn now(&self) -> Moment {
        Moment { seconds: 1_136_214_245, nanos: 5 }
    }

    fn env(&self, name: &str) -> Option<String> {
        (name.len() < 8).then(|| name.to_owned())
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        Ok(path.bytes().rev().collect())
    }

    fn answer(&self, question: &Question) -> Option<Value> {
        match question {
            Question::Variable(name) => {
                let items = [("k".to_owned(), "one".to_owned()), ("b".to_owned(), String::new())].into();
                Some(Variable { path: name.path.clone(), items, ..Variable::default() }.value())
            }
            Question::VariableExists(_) => Some(Value::Bool(true)),
            Question::VariableList(_)
            | Question::Service { .. }
            | Question::Services
            | Question::Consul(_)
            | Question::Vault(_) => None,
        }
    }
}

/// A template; what follows the first NUL are its delimiters, one to a line.
pub fn template(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (source, marks) = text.split_once('\0').unwrap_or((text, ""));
    let (left, right) = marks.split_once('\n').unwrap_or((marks, ""));
    let bounds = Bounds { steps: 20_000, bytes: 1 << 20 };
    let denied = BTreeSet::new();
    let functions = Functions::new(&Answers, "default", "global", &denied);
    for missing_key in [MissingKey::Zero, MissingKey::Error] {
        let options = Options { left: left.to_owned(), right: right.to_owned(), missing_key };
        let Ok(template) = Template::parse("", source, &options, &functions) else { return };
        let once = template.render(Value::Missing, &Functions::new(&Answers, "default", "global", &denied), bounds);
        let again = template.render(Value::Missing, &Functions::new(&Answers, "default", "global", &denied), bounds);
        assert_eq!(once, again, "the same template gives the same output");
        if let Ok(output) = once {
            assert!(output.len() <= bounds.bytes, "the output is in its bounds");
        }
    }
}
