//! Lists: filter, order and pages. What the rows are is the noun's business.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::Serialize;
use songline_lang::bexpr::Filter;

use crate::error::ApiError;
use crate::http::params::ReadParams;

/// What names an element of a list. The reference compares the texts; comparing the parts keeps `9.x` before `10.x` and takes the same texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// An id or a name.
    Text(String),
    /// Create index and id.
    Indexed(u64, String),
    /// Namespace and id.
    Spaced(String, String),
}

impl Token {
    /// As the header shows it.
    fn text(&self) -> String {
        match self {
            Token::Text(text) => text.clone(),
            Token::Indexed(index, id) => format!("{index}.{id}"),
            Token::Spaced(namespace, id) => format!("{namespace}.{id}"),
        }
    }

    /// Where this element is relative to a token that a client sent.
    fn compare(&self, sent: &str) -> Ordering {
        match (self, sent.split_once('.')) {
            (Token::Indexed(index, id), Some((sent_index, sent_id))) if sent_index.parse::<u64>().is_ok() => {
                index.cmp(&sent_index.parse().unwrap_or(0)).then_with(|| id.as_str().cmp(sent_id))
            }
            (Token::Spaced(namespace, id), Some((sent_namespace, sent_id))) => {
                namespace.as_str().cmp(sent_namespace).then_with(|| id.as_str().cmp(sent_id))
            }
            (Token::Text(text), _) => text.as_str().cmp(sent),
            (Token::Indexed(..) | Token::Spaced(..), _) => self.text().as_str().cmp(sent),
        }
    }
}

/// One page.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// Its rows.
    pub rows: Vec<T>,
    /// The first element of the next page.
    pub next_token: Option<String>,
}

/// Takes a page out of `rows`, which come in the list's order. `keep` is the list's own test; the filter is tested on the row as stored.
pub fn page<R: Serialize>(
    params: &ReadParams,
    rows: impl Iterator<Item = Arc<R>>,
    token: impl Fn(&R) -> Token,
    keep: impl Fn(&R) -> bool,
) -> Result<Page<Arc<R>>, ApiError> {
    let filter = parse_filter(&params.filter)?;
    let mut out = Page { rows: Vec::new(), next_token: None };
    let per_page = usize::try_from(params.per_page.max(0)).unwrap_or(0);
    for row in rows {
        let element: &R = &row;
        if !params.next_token.is_empty() {
            let place = token(element).compare(&params.next_token);
            let before = if params.reverse { place == Ordering::Greater } else { place == Ordering::Less };
            if before {
                continue;
            }
        }
        if !keep(element) {
            continue;
        }
        if let Some(filter) = &filter {
            let passes = filter.matches(element).map_err(|error| ApiError::bad_request(format!("failed to read result page: {error}")))?;
            if !passes {
                continue;
            }
        }
        if params.per_page < 0 || (per_page > 0 && out.rows.len() == per_page) {
            out.next_token = Some(token(element).text());
            break;
        }
        out.rows.push(row);
    }
    Ok(out)
}

fn parse_filter(text: &str) -> Result<Option<Filter>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    Filter::parse(text)
        .map(Some)
        .map_err(|error| ApiError::bad_request(format!("failed to create result paginator: failed to read filter expression: {error}")))
}
