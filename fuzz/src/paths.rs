//! Paths of variables, and the patterns of policies about them. An input is a path, and after the first NUL a pattern.

use serde_json::json;
use songline_lang::acl::{self, Acl, VariableCapability};
use songline_model::{Variable, VariableKey, check_variable_path};

/// Every path that may be written may be asked for, and a pattern without a star, or with one at its end, lets in what it says.
pub fn paths(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (path, pattern) = text.split_once('\0').unwrap_or((text, text));
    match check_variable_path(path) {
        Err(error) => assert!(error.to_string().len() <= 4096 + 8 * path.len(), "an error's length is bounded"),
        Ok(()) => {
            assert!(path.is_ascii() && path.len() <= 128, "{path:?} may not be written");
            let key = VariableKey::new("default", path);
            assert_eq!(Variable::absent(&key).key(), key, "a variable is found where it is written");
        }
    }
    let rules =
        json!({"namespace": {"default": {"variables": {"path": {pattern: {"capabilities": ["read"]}}}}}}).to_string();
    let policy = match acl::parse(&rules) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(error.to_string().len() <= 4096 + 64 * rules.len(), "an error's length is bounded");
            return;
        }
    };
    let acl = Acl::of(&[policy]);
    let may = |path: &str| acl.variable("default", path, VariableCapability::Read);
    let star = pattern.find('*');
    if star.is_none() {
        assert_eq!(may(path), path == pattern, "{pattern:?} lets {path:?} in, or not");
    } else if star == Some(pattern.len() - 1) {
        assert_eq!(may(path), path.starts_with(&pattern[..pattern.len() - 1]), "{pattern:?} lets {path:?} in, or not");
    }
    assert!(!acl.variable("other", path, VariableCapability::Read), "another namespace was not named");
    assert!(!acl.variable("default", path, VariableCapability::Write), "nothing else was allowed");
}
