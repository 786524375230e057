//! Lists: filter, order and pages. The file of each noun has its rows.

use std::cmp::Ordering;
use std::fmt::Display;
use std::sync::Arc;

use serde::Serialize;
use songline_lang::bexpr::{EvalError, Filter};

use crate::error::ApiError;
use crate::http::params::ReadParams;

/// Position of an element in a list. The reference compares tokens as strings; comparing the parts sorts `9.x` before
/// `10.x` and accepts the same tokens.
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
    /// The token as shown in the header.
    fn text(&self) -> String {
        match self {
            Token::Text(text) => text.clone(),
            Token::Indexed(index, id) => format!("{index}.{id}"),
            Token::Spaced(namespace, id) => format!("{namespace}.{id}"),
        }
    }

    /// Order of this element relative to a token that a client sent.
    fn compare(&self, sent: &str) -> Ordering {
        match (self, sent.split_once('.')) {
            (Token::Indexed(index, id), parts) => match index_of(sent) {
                Some(of_sent) => index.cmp(&of_sent).then_with(|| id.as_str().cmp(parts.map_or("", |(_, id)| id))),
                None => self.text().as_str().cmp(sent),
            },
            (Token::Spaced(namespace, id), Some((sent_namespace, sent_id))) => {
                namespace.as_str().cmp(sent_namespace).then_with(|| id.as_str().cmp(sent_id))
            }
            (Token::Text(text), _) => text.as_str().cmp(sent),
            (Token::Spaced(..), None) => self.text().as_str().cmp(sent),
        }
    }
}

/// One page.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// Rows of the page.
    pub rows: Vec<T>,
    /// Token of the next page's first element; `None` on the last page.
    pub next_token: Option<String>,
}

/// Takes a page of `rows`, which come in the list's order. `keep` is the list's own condition; the filter applies to
/// the stored row.
pub fn page<R: Serialize>(
    params: &ReadParams,
    rows: impl Iterator<Item = Arc<R>>,
    token: impl Fn(&R) -> Token,
    keep: impl Fn(&R) -> bool,
) -> Result<Page<Arc<R>>, ApiError> {
    page_by(params, rows, token, keep, |filter, row| filter.matches(row))
}

/// Takes a page like [`page`], of rows that the filter sees as `matches` shows them.
pub fn page_by<R>(
    params: &ReadParams,
    rows: impl Iterator<Item = Arc<R>>,
    token: impl Fn(&R) -> Token,
    keep: impl Fn(&R) -> bool,
    matches: impl Fn(&Filter, &R) -> Result<bool, EvalError>,
) -> Result<Page<Arc<R>>, ApiError> {
    let filter = parse_filter(&params.filter)?;
    let mut out = Page { rows: Vec::new(), next_token: None };
    let per_page = usize::try_from(params.per_page.max(0)).unwrap_or(0);
    // Some lists keep their order under `reverse`, so their tokens are on the wrong side after the page's first row:
    // later rows are not compared.
    for row in rows.skip_while(|row| params.is_before(&token(row))) {
        let element: &R = &row;
        if !keep(element) {
            continue;
        }
        if let Some(filter) = &filter {
            let passes = matches(filter, element).map_err(|error| read_failed(&error))?;
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

/// Create index of a page's first row, in a list ordered by create index and id. `None`: the page is the first, or
/// its token names no index.
pub fn first_index(params: &ReadParams) -> Option<u64> {
    index_of(&params.next_token)
}

/// The create index that a token begins with.
fn index_of(token: &str) -> Option<u64> {
    token.split_once('.').map_or(token, |(index, _)| index).parse().ok()
}

/// Whether an element of a list ordered by create index and id lies before the page.
pub fn is_before(params: &ReadParams, index: u64, id: impl Display) -> bool {
    if params.next_token.is_empty()
        || first_index(params).is_some_and(|first| first != index && (first < index) != params.reverse)
    {
        return false;
    }
    params.is_before(&Token::Indexed(index, id.to_string()))
}

impl ReadParams {
    /// Whether an element lies before the first one of the page.
    fn is_before(&self, token: &Token) -> bool {
        let before = if self.reverse { Ordering::Greater } else { Ordering::Less };
        !self.next_token.is_empty() && token.compare(&self.next_token) == before
    }
}

/// Rows in the order of their list: that of `rows`, or the opposite with `reverse`.
pub fn ordered<'v, R>(
    params: &ReadParams,
    rows: impl DoubleEndedIterator<Item = Arc<R>> + 'v,
) -> Box<dyn Iterator<Item = Arc<R>> + 'v> {
    if params.reverse { Box::new(rows.rev()) } else { Box::new(rows) }
}

/// Largest number of rows that a page reads: its size plus one, which shows whether there is a next page.
pub fn rows_max(params: &ReadParams) -> usize {
    match usize::try_from(params.per_page) {
        Ok(0) => usize::MAX,
        Ok(per_page) => per_page + 1,
        Err(_) => 1,
    }
}

/// Makes the page of its first [`rows_max`] rows.
pub fn cut<R>(params: &ReadParams, mut rows: Vec<Arc<R>>, token: impl Fn(&R) -> Token) -> Page<Arc<R>> {
    let kept = rows_max(params) - 1;
    let next_token = rows.get(kept).map(|row| token(row).text());
    rows.truncate(kept);
    Page { rows, next_token }
}

/// Error of a filter that cannot be evaluated on a row.
pub fn read_failed(error: &EvalError) -> ApiError {
    ApiError::bad_request(format!("failed to read result page: {error}"))
}

/// Parses the filter of a list; `None` for an empty one.
pub fn parse_filter(text: &str) -> Result<Option<Filter>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    Filter::parse(text).map(Some).map_err(|error| {
        ApiError::bad_request(format!("failed to create result paginator: failed to read filter expression: {error}"))
    })
}
