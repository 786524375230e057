//! Compares an answer with the recording: the same keys, the same lists, the same values, except tokens. Not here:
//! receiving the answer.

use serde_json::{Map, Number, Value};

use crate::case::{Part, Path};
use crate::text::{dump, shorten};
use crate::token::{Bindings, holds_token};

/// Largest part of a value in a reported difference, in characters.
const SHOWN_CHARS: usize = 300;
/// Option by which the agents of the tests have no other drivers than the recorded ones, which were not given it.
const ADDED_OPTION: &str = "driver.denylist";

/// Parts of an answer that a step does not compare.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leniency<'s> {
    pub ignore: &'s [Path],
    pub unordered: &'s [Path],
}

impl Leniency<'_> {
    fn ignores(&self, trail: &[Part]) -> bool {
        let is_added = matches!(trail.last(), Some(Part::Key(key)) if key == ADDED_OPTION);
        is_added || self.ignore.iter().any(|path| path.matches(trail))
    }
}

/// Token values learned so far, and all differences found.
#[derive(Debug, Default)]
pub struct Judge {
    pub bindings: Bindings,
    pub differences: Vec<String>,
}

impl Judge {
    pub fn note(&mut self, difference: String) {
        self.differences.push(difference);
    }

    pub fn differ(&mut self, trail: &[Part], want: &Value, got: &Value) {
        let mut place = "$".to_string();
        for part in trail {
            match part {
                Part::Key(key) => place.push_str(&format!(".{key}")),
                Part::Index(index) => place.push_str(&format!("[{index}]")),
                Part::Any => place.push_str("[*]"),
            }
        }
        let (want, got) = (shorten(&dump(want), SHOWN_CHARS), shorten(&dump(got), SHOWN_CHARS));
        self.note(format!("{place}: expected {want}, got {got}"));
    }

    pub fn compare(&mut self, want: &Value, got: &Value, trail: &mut Vec<Part>, lenient: Leniency<'_>) {
        if lenient.ignores(trail) {
            return;
        }
        match (want, got) {
            (Value::String(text), _) => {
                if !self.bindings.same(text, got) {
                    self.differ(trail, want, got);
                }
            }
            (Value::Object(want), Value::Object(got)) => self.objects(want, got, trail, lenient),
            (Value::Array(want_list), Value::Array(got_list)) => {
                if want_list.len() != got_list.len() {
                    let told = |list: &[Value], whole: &Value| {
                        let start = shorten(&dump(whole), 200);
                        Value::from(format!("{} elements: {start}", list.len()))
                    };
                    self.differ(trail, &told(want_list, want), &told(got_list, got));
                } else if lenient.unordered.iter().any(|path| path.matches(trail)) {
                    self.lists_in_any_order(want_list, got_list, trail, lenient);
                } else {
                    for (i, (want, got)) in want_list.iter().zip(got_list).enumerate() {
                        trail.push(Part::Index(i));
                        self.compare(want, got, trail, lenient);
                        trail.pop();
                    }
                }
            }
            _ => {
                if !equal(want, got) {
                    self.differ(trail, want, got);
                }
            }
        }
    }

    fn objects(
        &mut self,
        want: &Map<String, Value>,
        got: &Map<String, Value>,
        trail: &mut Vec<Part>,
        lenient: Leniency<'_>,
    ) {
        // The key with its tokens filled in, and the key as the case has it.
        let mut keys: Vec<(String, &String)> = want.keys().map(|key| (self.bindings.fill_text(key), key)).collect();
        self.learn_keys(&mut keys, want, got, trail, lenient);
        for (key, value) in got {
            trail.push(Part::Key(key.clone()));
            if !keys.iter().any(|(k, _)| k == key) && !lenient.ignores(trail) {
                self.differ(trail, &Value::from("(no such key)"), value);
            }
            trail.pop();
        }
        for (key, original) in keys {
            trail.push(Part::Key(key.clone()));
            match got.get(&key) {
                Some(value) => self.compare(&want[original], value, trail, lenient),
                None if lenient.ignores(trail) => {}
                None => self.differ(trail, &want[original], &Value::from("(missing)")),
            }
            trail.pop();
        }
    }

    /// Pairs keys whose tokens are not learned yet with the remaining keys of the answer, by comparing their values.
    fn learn_keys(
        &mut self,
        keys: &mut Vec<(String, &String)>,
        want: &Map<String, Value>,
        got: &Map<String, Value>,
        trail: &mut Vec<Part>,
        lenient: Leniency<'_>,
    ) {
        let unknown: Vec<(String, String)> = keys
            .iter()
            .filter(|(key, _)| !got.contains_key(key) && holds_token(key))
            .map(|(key, original)| (key.clone(), (*original).clone()))
            .collect();
        let mut rest: Vec<&String> = got.keys().filter(|key| !keys.iter().any(|(k, _)| k == *key)).collect();
        for (key, original) in unknown {
            for at in 0..rest.len() {
                let candidate = rest[at];
                let fits = self.attempt(|judge| {
                    if judge.bindings.same_text(&original, candidate) {
                        trail.push(Part::Key(candidate.clone()));
                        judge.compare(&want[&original], &got[candidate], trail, lenient);
                        trail.pop();
                        true
                    } else {
                        false
                    }
                });
                if fits {
                    rest.remove(at);
                    if let Some(place) = keys.iter_mut().find(|(k, _)| *k == key) {
                        place.0 = candidate.clone();
                    }
                    break;
                }
            }
        }
    }

    fn lists_in_any_order(&mut self, want: &[Value], got: &[Value], trail: &mut Vec<Part>, lenient: Leniency<'_>) {
        let mut rest: Vec<usize> = (0..got.len()).collect();
        for (i, want) in want.iter().enumerate() {
            let found = rest.iter().position(|at| {
                self.attempt(|judge| {
                    trail.push(Part::Index(*at));
                    judge.compare(want, &got[*at], trail, lenient);
                    trail.pop();
                    true
                })
            });
            match found {
                Some(place) => {
                    rest.remove(place);
                }
                None => {
                    trail.push(Part::Index(i));
                    self.differ(trail, want, &Value::from("(no such element)"));
                    trail.pop();
                }
            }
        }
    }

    /// Whether `comparison` returned true and found no difference; otherwise everything it learned is discarded.
    fn attempt(&mut self, comparison: impl FnOnce(&mut Judge) -> bool) -> bool {
        let (learned, before) = (self.bindings.learned.clone(), self.differences.len());
        if comparison(self) && self.differences.len() == before {
            return true;
        }
        self.bindings.learned = learned;
        self.differences.truncate(before);
        false
    }
}

/// Equality of plain values; numbers are compared by value, independent of their form.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => equal_numbers(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

fn equal_numbers(a: &Number, b: &Number) -> bool {
    let whole = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.as_f64() == b.as_f64(),
        // A float next to a whole number that it cannot represent is another number.
        (Some(whole), None) => b.as_f64().is_some_and(|float| is_whole(float, whole)),
        (None, Some(whole)) => a.as_f64().is_some_and(|float| is_whole(float, whole)),
    }
}

fn is_whole(float: f64, whole: i128) -> bool {
    float.fract() == 0.0 && float as i128 == whole
}
