//! Ids and their prefixes.

use serde_json::Value;
use songline_model::quote;

use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Tried};

/// Objects among which a prefix is looked up, and the texts of misses.
pub struct Kind<'k> {
    /// Route of the list: `/v1/allocations`.
    pub list: &'k str,
    /// Beginning of the error of a failed request: `Error querying allocation`.
    pub tried: &'k str,
    /// Noun of `No NOUN(s) with prefix or id "p" found`.
    pub noun: &'k str,
    /// Whole sentence of a miss in place of that; `{}` stands for the prefix.
    pub none: Option<&'k str>,
    /// Plural noun of `Prefix matched multiple NOUNS`.
    pub nouns: &'k str,
    /// The list that is shown for several matches.
    pub rows: fn(&[Value]) -> String,
}

/// Allocations, evaluations, nodes, deployments, policies: an id by at least two of its digits. Returns the row of the
/// list.
///
/// # Errors
/// Too few digits, no match, several matches, a failed request.
pub async fn by_uuid(client: &Client, kind: &Kind<'_>, typed: &str) -> Result<Value, Failure> {
    let prefix = shortened(typed)?;
    let found = client.get(&with_query(kind.list, &[("prefix", &prefix)])).await.tried(kind.tried)?;
    let rows = found.as_array().map(Vec::as_slice).unwrap_or_default();
    match rows {
        [] => Err(Failure::new(match kind.none {
            Some(sentence) => sentence.replace("{}", &prefix),
            None => format!("No {}(s) with prefix or id {} found", kind.noun, quote(&prefix)),
        })),
        [only] => Ok(only.clone()),
        several => match several.iter().find(|row| text(&row["ID"]) == typed) {
            Some(exact) => Ok(exact.clone()),
            None => Err(Failure::new(format!("Prefix matched multiple {}\n\n{}", kind.nouns, (kind.rows)(several)))),
        },
    }
}

/// The prefix that is asked for: without dashes at odd places the reference's store would refuse, an odd last digit
/// dropped.
///
/// # Errors
/// Fewer than two characters.
pub fn shortened(typed: &str) -> Result<String, Failure> {
    if typed.chars().count() < 2 {
        return Err(Failure::new("Identifier must contain at least two characters."));
    }
    let digits = typed.chars().filter(|c| *c != '-').count();
    let mut prefix = typed.to_owned();
    if digits % 2 == 1 {
        prefix.pop();
    }
    Ok(prefix)
}

/// A job by its id or a prefix of it: its id and namespace. `list` shows several matches, with their namespaces if the flag
/// is set.
///
/// # Errors
/// No match, several matches, a failed request.
pub async fn job(
    client: &Client,
    typed: &str,
    list: fn(&[Value], bool) -> String,
) -> Result<(String, String), Failure> {
    job_where(client, typed, "job", |_| true, list).await
}

/// A job among those that fit, such as periodic ones.
///
/// # Errors
/// No match, several matches, a failed request.
pub async fn job_where(
    client: &Client,
    typed: &str,
    noun: &str,
    fits: fn(&Value) -> bool,
    list: fn(&[Value], bool) -> String,
) -> Result<(String, String), Failure> {
    let found = match client.get(&with_query("/v1/jobs", &[("prefix", typed)])).await {
        // A token that may not list jobs may still read this one.
        Err(error) if error.is_status(403) => return Ok((typed.to_owned(), client.namespace().to_owned())),
        other => other.tried("Error querying job prefix")?,
    };
    let rows: Vec<Value> = found.as_array().into_iter().flatten().filter(|row| fits(row)).cloned().collect();
    let named = |row: &Value| {
        let namespace = text(&row["JobSummary"]["Namespace"]);
        let namespace = if namespace.is_empty() { text(&row["Namespace"]) } else { namespace };
        (text(&row["ID"]).to_owned(), namespace.to_owned())
    };
    match rows.as_slice() {
        [] => Err(Failure::new(format!("No {noun}(s) with prefix or ID {} found", quote(typed)))),
        [only] => Ok(named(only)),
        [first, second, ..] if text(&first["ID"]) == typed && text(&second["ID"]) != typed => Ok(named(first)),
        several => Err(Failure::new(format!(
            "Prefix {} matched multiple jobs\n\n{}",
            quote(typed),
            list(several, client.namespace() == "*")
        ))
        .with_exit(Exit::FAILED)),
    }
}

/// A full id, or its first eight digits.
pub fn shown(id: &str, verbose: bool) -> String {
    if verbose { id.to_owned() } else { id.get(..8).unwrap_or(id).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_digits_are_dropped_and_dashes_do_not_count() {
        assert_eq!(shortened("abc").expect("it is long enough"), "ab");
        assert_eq!(shortened("aabbccdd-1").expect("it is long enough"), "aabbccdd-");
        assert_eq!(shortened("aabbccdd-11").expect("it is long enough"), "aabbccdd-11");
        let refused = shortened("a").expect_err("it is too short");
        assert_eq!(refused.message(), "Identifier must contain at least two characters.");
    }
}
