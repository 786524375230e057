//! Requests to Google Cloud Storage, through its JSON API.

use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;

use super::{Page, decoded};
use crate::artifact::source::Source;
use crate::escape;

/// The service.
const SERVICE: &str = "https://storage.googleapis.com";
/// Variable with the address of an emulator of the service.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";
/// Variable with an access token. Without it requests are anonymous.
const TOKEN: &str = "GOOGLE_OAUTH_ACCESS_TOKEN";

/// A bucket.
pub(super) struct Bucket {
    service: Url,
    name: String,
    generation: Option<String>,
    token: Option<String>,
}

/// Parses `https://www.googleapis.com/storage/v1/BUCKET/KEY`, whose fragment is the object's generation. Returns the
/// bucket and the key.
pub(super) fn parse(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<(Bucket, String), String> {
    let invalid = || "URL is not a valid GCS URL".to_owned();
    let is_google = source.url.host_str().is_some_and(|host| host.ends_with("googleapis.com"));
    let mut path = source.url.path().strip_prefix("/storage/v1/").ok_or_else(invalid)?.splitn(2, '/');
    let (Some(name), key) = (path.next().filter(|name| !name.is_empty()), path.next().unwrap_or_default()) else {
        return Err(invalid());
    };
    let service = match env(EMULATOR) {
        Some(host) if host.contains("://") => host,
        Some(host) => format!("http://{host}"),
        None if is_google => SERVICE.to_owned(),
        None => return Err(invalid()),
    };
    let bucket = Bucket {
        service: Url::parse(&service).map_err(|error| format!("{EMULATOR}: {error}"))?,
        name: decoded(name),
        generation: source.url.fragment().map(str::to_owned),
        token: env(TOKEN),
    };
    Ok((bucket, decoded(key)))
}

impl Bucket {
    fn get(&self, client: &Client, path: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = self.service.clone();
        url.set_path(path);
        url.query_pairs_mut().extend_pairs(query);
        let request = client.get(url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn path(&self) -> String {
        format!("/storage/v1/b/{}/o", escape::segment(&self.name))
    }

    /// Reads an object.
    pub fn object(&self, client: &Client, key: &str) -> RequestBuilder {
        let mut query = vec![("alt", "media")];
        query.extend(self.generation.as_deref().map(|generation| ("generation", generation)));
        self.get(client, &format!("{}/{}", self.path(), escape::segment(key)), &query)
    }

    /// Lists objects whose names begin with `prefix`.
    pub fn list(&self, client: &Client, prefix: &str, from: Option<&str>) -> RequestBuilder {
        let mut query = vec![("prefix", prefix)];
        query.extend(from.map(|from| ("pageToken", from)));
        self.get(client, &self.path(), &query)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Listing {
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
}

/// Parses a page of a listing.
pub(super) fn page(body: &[u8]) -> Result<Page, String> {
    let listing: Listing = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(Page { keys: listing.items.into_iter().map(|item| item.name).collect(), next: listing.next_page_token })
}
