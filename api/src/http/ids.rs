//! Ids in paths and parameters, and the reference's errors for malformed ones.

use songline_projections::IdPrefix;
use uuid::Uuid;

/// A whole id. `Ok(None)`: the text has the length of an id but not 16 bytes of digits, so no object has it.
pub fn exact(text: &str) -> Result<Option<Uuid>, String> {
    if text.len() != 36 {
        return Err("UUID must be 36 characters".to_owned());
    }
    let digits = digits(text)?;
    Ok(Uuid::try_parse(&digits).ok())
}

/// A prefix of an id.
pub fn prefix(text: &str) -> Result<IdPrefix, String> {
    if text.len() > 36 {
        return Err(format!("Invalid UUID length. UUID have 36 characters; got {}", text.len()));
    }
    let digits = digits(text)?;
    IdPrefix::parse(&digits).map_err(|error| error.to_string())
}

/// The hexadecimal digits of a text without its hyphens.
fn digits(text: &str) -> Result<String, String> {
    let hyphens = text.matches('-').count();
    if hyphens > 4 {
        return Err(format!("UUID should have maximum of 4 \"-\"; got {hyphens}"));
    }
    let digits = text.replace('-', "");
    if !digits.len().is_multiple_of(2) {
        return Err("Input (without hyphens) must be even length".to_owned());
    }
    // Go checks single bytes, and shows the invalid byte as if it were a character.
    match digits.bytes().find(|byte| !byte.is_ascii_hexdigit()) {
        Some(byte) => Err(format!("Invalid UUID: encoding/hex: invalid byte: U+{byte:04X} {:?}", byte as char)),
        None => Ok(digits),
    }
}

#[cfg(test)]
mod tests {
    use super::{exact, prefix};

    #[test]
    fn malformed_ids_are_refused_with_the_reference_errors() {
        let check = |found: Result<(), String>, text: &str| assert_eq!(found.err().as_deref(), Some(text));
        check(exact("zz").map(drop), "UUID must be 36 characters");
        check(prefix("1").map(drop), "Input (without hyphens) must be even length");
        check(prefix("zz").map(drop), "Invalid UUID: encoding/hex: invalid byte: U+007A 'z'");
        check(prefix("1-1-1-1-1-1").map(drop), "UUID should have maximum of 4 \"-\"; got 5");
        check(
            prefix("11111111-2222-3333-4444-5555555555555").map(drop),
            "Invalid UUID length. UUID have 36 characters; got 37",
        );
        assert!(prefix("11111111-").is_ok());
        assert!(matches!(exact("11111111-2222-3333-4444-555555555555"), Ok(Some(_))));
    }
}
