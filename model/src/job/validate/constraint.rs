//! Constraints, affinities and spreads.

use crate::job::admit::Languages;
use crate::job::errors::Errors;
use crate::{Affinity, Constraint, JobType, Spread, Str};

/// Adds the errors of each constraint.
pub(super) fn constraints(list: &Option<Vec<Constraint>>, languages: &dyn Languages, errors: &mut Errors) {
    for (index, constraint) in list.iter().flatten().enumerate() {
        constraint_at(index, constraint, languages, errors);
    }
}

/// Adds the errors of the constraint at `index` in its list.
pub(super) fn constraint_at(index: usize, constraint: &Constraint, languages: &dyn Languages, errors: &mut Errors) {
    errors.nest_as(format_args!("Constraint {} validation failed", index + 1), constraint.validate(languages));
}

/// Adds the errors of each affinity; system jobs may have none, since they run on every node.
pub(super) fn affinities(list: &Option<Vec<Affinity>>, kind: &JobType, languages: &dyn Languages, errors: &mut Errors) {
    if *kind == JobType::System {
        if list.is_some() {
            errors.push("System jobs may not have an affinity block");
        }
        return;
    }
    for (index, affinity) in list.iter().flatten().enumerate() {
        errors.nest_as(format_args!("Affinity {} validation failed", index + 1), affinity.validate(languages));
    }
}

/// Adds the errors of each spread; system jobs may have none.
pub(super) fn spreads(list: &Option<Vec<Spread>>, kind: &JobType, errors: &mut Errors) {
    if *kind == JobType::System {
        if list.is_some() {
            errors.push("System jobs may not have a spread block");
        }
        return;
    }
    for (index, spread) in list.iter().flatten().enumerate() {
        errors.nest_as(format_args!("Spread {} validation failed", index + 1), spread.validate());
    }
}

impl Constraint {
    fn validate(&self, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.operand.is_empty() {
            errors.push("Missing constraint operand");
        }
        let right = &self.r_target;
        match self.operand.as_str() {
            "distinct_hosts" => {}
            "set_contains" | "set_contains_all" | "set_contains_any" => {
                if right.is_empty() {
                    errors.push("Set contains constraint requires an RTarget");
                }
            }
            "regexp" => reject(languages.regexp(right), "Regular expression failed to compile", &mut errors),
            "version" => {
                reject(languages.version_constraint(right, false), "Version constraint is invalid", &mut errors)
            }
            "semver" => reject(languages.version_constraint(right, true), "Semver constraint is invalid", &mut errors),
            "distinct_property" => allowed_count(right, &mut errors),
            "is_set" | "is_not_set" => {
                if !right.is_empty() {
                    errors.push(format!("Operator {:?} does not support an RTarget", self.operand));
                }
            }
            "=" | "==" | "is" | "!=" | "not" | "<" | "<=" | ">" | ">=" => {
                if right.is_empty() {
                    errors.push(format!("Operator {:?} requires an RTarget", self.operand));
                }
            }
            other => errors.push(format!("Unknown constraint type {other:?}")),
        }
        if self.operand != "distinct_hosts" && self.l_target.is_empty() {
            errors.push("No LTarget provided but is required by constraint");
        }
        errors.into_result()
    }
}

impl Affinity {
    fn validate(&self, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.operand.is_empty() {
            errors.push("Missing affinity operand");
        }
        let right = &self.r_target;
        match self.operand.as_str() {
            "set_contains" | "set_contains_all" | "set_contains_any" => {
                if right.is_empty() {
                    errors.push("Set contains operators require an RTarget");
                }
            }
            "regexp" => reject(languages.regexp(right), "Regular expression failed to compile", &mut errors),
            "version" => reject(languages.version_constraint(right, false), "Version affinity is invalid", &mut errors),
            "semver" => reject(languages.version_constraint(right, true), "Semver affinity is invalid", &mut errors),
            "=" | "==" | "is" | "!=" | "not" | "<" | "<=" | ">" | ">=" => {
                if right.is_empty() {
                    errors.push(format!("Operator {:?} requires an RTarget", self.operand));
                }
            }
            other => errors.push(format!("Unknown affinity operator {other:?}")),
        }
        if self.l_target.is_empty() {
            errors.push("No LTarget provided but is required");
        }
        if self.weight == 0 {
            errors.push("Affinity weight cannot be zero");
        }
        if !(-100..=100).contains(&self.weight) {
            errors.push("Affinity weight must be within the range [-100,100]");
        }
        errors.into_result()
    }
}

impl Spread {
    fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.attribute.is_empty() {
            errors.push("Missing spread attribute");
        }
        if !(1..=100).contains(&self.weight) {
            errors.push("Spread block must have a positive weight from 0 to 100");
        }
        let mut seen: Vec<&str> = Vec::new();
        let mut percent = 0u64;
        for target in self.spread_target.iter().flatten() {
            if seen.contains(&target.value.as_str()) {
                errors.push(format!("Spread target value {:?} already defined", target.value));
            }
            seen.push(&target.value);
            if target.percent > 100 {
                errors.push(format!("Spread target percentage for value {:?} must be between 0 and 100", target.value));
            }
            percent = percent.saturating_add(target.percent);
        }
        if percent > 100 {
            errors.push(format!("Sum of spread target percentages must not be greater than 100%; got {percent}%"));
        }
        errors.into_result()
    }
}

fn reject(outcome: Result<(), String>, what: &str, errors: &mut Errors) {
    if let Err(reason) = outcome {
        errors.push(format!("{what}: {reason}"));
    }
}

/// Parses the right side of `distinct_property`: the number of allocations that may share a value.
fn allowed_count(text: &Str, errors: &mut Errors) {
    if text.is_empty() {
        return;
    }
    match text.parse::<u64>() {
        Ok(0) => errors.push("Distinct Property must have an allowed count of 1 or greater: 0 < 1"),
        Ok(_) => {}
        Err(_) => errors.push(format!(
            "Failed to convert RTarget {text:?} to uint64: strconv.ParseUint: parsing {text:?}: {}",
            if text.bytes().all(|byte| byte.is_ascii_digit()) { "value out of range" } else { "invalid syntax" }
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Spread, SpreadTarget};

    #[test]
    fn spread_target_is_at_most_100_percent() {
        let targets = vec![SpreadTarget { value: "a".into(), percent: 101 }];
        let spread = Spread { attribute: "x".into(), weight: 50, spread_target: Some(targets) };
        let text = spread.validate().unwrap_err().to_string();
        assert!(
            text.contains("Spread target percentage for value \"a\" must be between 0 and 100\n\t* Sum of spread"),
            "{text}"
        );
    }
}
