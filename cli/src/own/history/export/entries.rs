//! Time and actor of log entries, read from the audit in pages.

use std::collections::VecDeque;

use chrono::DateTime;
use serde_json::Value;

use crate::client::{Answer, Client, RequestError, text};
use crate::exit::{Failure, Tried};
use crate::jobs::lists::items;

/// Largest number of entries of a page.
const PAGE_MAX: usize = 1000;

/// Time and actor of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Microseconds since 1970.
    pub(super) time_us: i64,
    pub(super) actor: String,
}

/// A reader of the audit that goes from old to new.
pub(super) struct Entries<'c> {
    client: &'c Client,
    read: VecDeque<(u64, Entry)>,
    /// Number of entries that the next page asks for.
    page: usize,
    /// Number of entries of the present page that were asked for.
    used: usize,
}

impl<'c> Entries<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self { client, read: VecDeque::new(), page: 16, used: 0 }
    }

    /// The newest index of the cluster.
    pub(super) async fn newest(&self) -> Result<u64, Failure> {
        Ok(page(self.client, None, 1).await.map_err(refusal)?.index)
    }

    /// The entry at `index`, which must not be below that of the call before. `None`: the log no longer has it.
    pub(super) async fn of(&mut self, index: u64) -> Result<Option<Entry>, Failure> {
        while self.read.front().is_some_and(|(read, _)| *read < index) {
            self.read.pop_front();
        }
        if self.read.is_empty() {
            // Pages follow the density of the wanted entries: a filter may leave one of thousands.
            self.page = if self.used * 2 >= self.page { (self.page * 2).min(PAGE_MAX) } else { (self.page / 2).max(1) };
            self.used = 0;
            let answer = match page(self.client, Some(index), self.page).await {
                Err(RequestError::Refused { status: 410, .. }) => return Ok(None),
                answer => answer.map_err(refusal)?,
            };
            self.read = items(&answer.value).iter().map(entry).collect::<Result<_, Failure>>()?;
        }
        self.used += 1;
        match self.read.front() {
            Some((read, entry)) if *read == index => Ok(Some(entry.clone())),
            _ => Err(Failure::new(format!("The audit has no entry at index {index}, which has events"))),
        }
    }

    /// Index of the first entry that is not before a time, in microseconds since 1970; the next index if there is none.
    pub(super) async fn first_at(&self, time_us: i64) -> Result<u64, Failure> {
        let first = page(self.client, None, 1).await.map_err(refusal)?;
        let mut low = items(&first.value).first().and_then(|row| row["Index"].as_u64()).unwrap_or(first.index + 1);
        let mut high = first.index + 1;
        while low < high {
            let middle = low + (high - low) / 2;
            let found = page(self.client, Some(middle), 1).await.map_err(refusal)?;
            match items(&found.value).first() {
                Some(row) if time(row)?.timestamp_micros() < time_us => {
                    low = row["Index"].as_u64().unwrap_or(middle) + 1;
                }
                _ => high = middle,
            }
        }
        Ok(low.min(first.index + 1))
    }
}

async fn page(client: &Client, from: Option<u64>, size: usize) -> Result<Answer, RequestError> {
    let from = from.map(|index| format!("&from_index={index}")).unwrap_or_default();
    client.ask(&format!("/v1/audit?order=oldest&per_page={size}{from}")).await
}

fn refusal(error: RequestError) -> Failure {
    if error.is_status(403) {
        return Failure::of(
            "Error reading the audit, which has time and actor of entries and needs a management token",
            error,
        );
    }
    Failure::of("Error reading the audit", error)
}

fn time(row: &Value) -> Result<DateTime<chrono::FixedOffset>, Failure> {
    let written = text(&row["Time"]);
    DateTime::parse_from_rfc3339(written).tried(&format!("Error reading the audit: time {written:?}"))
}

fn entry(row: &Value) -> Result<(u64, Entry), Failure> {
    let index = row["Index"].as_u64().unwrap_or_default();
    Ok((index, Entry { time_us: time(row)?.timestamp_micros(), actor: text(&row["Actor"]).to_owned() }))
}
