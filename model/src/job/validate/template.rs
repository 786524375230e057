//! Templates.

use super::artifact::escapes;
use crate::job::errors::Errors;
use crate::{Dur, Template};

/// Largest file mode.
const MODE_MAX: u64 = 0o7777;

impl Template {
    pub(super) fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.source_path.is_empty() && self.embedded_tmpl.is_empty() {
            errors.push("Must specify a source path or have an embedded template");
        }
        if self.dest_path.is_empty() {
            errors.push("Must specify a destination for the template");
        }
        if escapes("task", &self.dest_path) {
            errors.push("destination escapes allocation directory");
        }
        match self.change_mode.as_str() {
            "noop" | "restart" => {}
            "signal" => {
                if self.change_signal.is_empty() {
                    errors.push("Must specify signal value when change mode is signal");
                }
                if self.envvars {
                    errors.push("cannot use signals with env var templates");
                }
            }
            "script" => match &self.change_script {
                None => errors.push("must specify change script configuration value when change mode is script"),
                Some(script) if script.command.is_empty() => {
                    errors.push("must specify script path value when change mode is script");
                }
                Some(_) => {}
            },
            _ => errors.push("Invalid change mode. Must be one of the following: noop, signal, script, restart"),
        }
        if self.splay < Dur::ZERO {
            errors.push("Must specify positive splay value");
        }
        self.validate_perms(&mut errors);
        if let Some((min, max)) = self.wait.as_ref().and_then(|wait| wait.min.zip(wait.max))
            && min > max
        {
            errors.push(format!("wait min {min} is greater than max {max}"));
        }
        errors.into_result()
    }

    fn validate_perms(&self, errors: &mut Errors) {
        let perms = self.perms.as_str();
        if perms.is_empty() {
            return;
        }
        let Some(reason) = octal_refusal(perms) else { return };
        errors.push(format!("Failed to parse {perms:?} as octal: strconv.ParseUint: parsing {perms:?}: {reason}"));
    }
}

/// Why `perms` are no mode in octal. Digits are read in order, so a value that is too large is seen before a letter after it.
fn octal_refusal(perms: &str) -> Option<&'static str> {
    let mut mode = 0;
    for character in perms.chars() {
        let Some(digit) = character.to_digit(8) else { return Some("invalid syntax") };
        mode = mode * 8 + u64::from(digit);
        if mode > MODE_MAX {
            return Some("value out of range");
        }
    }
    None
}
