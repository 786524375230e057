//! Requests to S3 and services with its API, signed with version 4 of its signatures.

use hmac::{Hmac, Mac};
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;
use reqwest::{Client, RequestBuilder, Url};
use sha2::{Digest, Sha256};
use songline_model::Time;
use songline_rpc::world::{Machine, World};

use super::{Page, decoded};
use crate::artifact::hex;
use crate::artifact::source::Source;
use crate::escape;

/// Domain of the service.
const AWS: &str = ".amazonaws.com";
/// Region of addresses that name none.
const REGION: &str = "us-east-1";

/// A bucket.
pub(super) struct Bucket {
    /// Address of the service or of the bucket, without a path.
    endpoint: Url,
    /// Name of the bucket, if it is part of paths and not of the host.
    in_path: Option<String>,
    region: String,
    version: Option<String>,
    credentials: Option<Credentials>,
}

/// Keys of an account.
#[derive(Debug, Clone, Default)]
struct Credentials {
    id: String,
    secret: String,
    token: Option<String>,
}

/// Parses an address with the bucket in the host (`BUCKET.s3.REGION.amazonaws.com`) or in the path, the only form for
/// other services. Credentials are those of the source's options, else of the environment; without any, requests are
/// anonymous. Returns the bucket and the key.
pub(super) fn parse(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<(Bucket, String), String> {
    let host = source.url.host_str().unwrap_or_default();
    let (region, in_host) = match host.strip_suffix(AWS) {
        Some(labels) => of_labels(labels).ok_or_else(|| "URL is not a valid S3 URL".to_owned())?,
        None => (None, false),
    };
    let path = source.url.path().trim_start_matches('/');
    let (in_path, key) = match (in_host, path.split_once('/')) {
        (true, _) => (None, path),
        (false, Some((bucket, key))) => (Some(decoded(bucket)), key),
        (false, None) if path.is_empty() => return Err("URL is not a valid S3 URL".to_owned()),
        (false, None) => (Some(decoded(path)), ""),
    };
    let mut endpoint = source.url.clone();
    endpoint.set_path("/");
    endpoint.set_query(None);
    let told = |option: &str| Some(source.option(option).to_owned()).filter(|text| !text.is_empty());
    let region = told("region").or(region).or_else(|| env("AWS_REGION")).or_else(|| env("AWS_DEFAULT_REGION"));
    let credentials = match (told("aws_access_key_id"), told("aws_access_key_secret")) {
        (Some(id), Some(secret)) => Some(Credentials { id, secret, token: told("aws_access_token") }),
        _ => env("AWS_ACCESS_KEY_ID").zip(env("AWS_SECRET_ACCESS_KEY")).map(|(id, secret)| Credentials {
            id,
            secret,
            token: env("AWS_SESSION_TOKEN"),
        }),
    };
    let region = region.unwrap_or_else(|| REGION.to_owned());
    Ok((Bucket { endpoint, in_path, region, version: told("version"), credentials }, decoded(key)))
}

/// Region of a host of the service, and whether the host names the bucket. `labels` are the host's before the domain:
/// `[BUCKET.]s3[-REGION]` or `[BUCKET.]s3.REGION`.
fn of_labels(labels: &str) -> Option<(Option<String>, bool)> {
    let labels: Vec<&str> = labels.split('.').collect();
    let at = labels.iter().rposition(|label| *label == "s3" || label.starts_with("s3-"))?;
    let region = match (labels[at].strip_prefix("s3-"), labels.get(at + 1..)) {
        (Some(region), Some([])) => Some(region.to_owned()),
        (None, Some([])) => None,
        (None, Some([region])) => Some((*region).to_owned()),
        _ => return None,
    };
    Some((region, at > 0))
}

impl Bucket {
    /// Reads an object.
    pub fn object(&self, client: &Client, key: &str) -> RequestBuilder {
        let query = self.version.as_ref().map(|version| ("versionId", version.as_str()));
        self.get(client, key, &query.into_iter().collect::<Vec<_>>())
    }

    /// Lists objects whose names begin with `prefix`.
    pub fn list(&self, client: &Client, prefix: &str, from: Option<&str>) -> RequestBuilder {
        let mut query = vec![("list-type", "2"), ("prefix", prefix)];
        query.extend(from.map(|from| ("continuation-token", from)));
        self.get(client, "", &query)
    }

    fn get(&self, client: &Client, key: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = self.endpoint.clone();
        let bucket = self.in_path.as_ref().map(|bucket| format!("/{}", escape::segment(bucket))).unwrap_or_default();
        url.set_path(&format!("{bucket}/{}", escape::path(key)));
        let mut query: Vec<String> =
            query.iter().map(|(name, value)| format!("{}={}", escape::segment(name), escape::segment(value))).collect();
        query.sort();
        url.set_query(Some(&query.join("&")).filter(|query| !query.is_empty()).map(|query| &**query));
        let mut request = client.get(url.clone());
        if let Some(credentials) = &self.credentials {
            for (name, value) in signed(&url, &self.region, credentials, Machine::default().wall()) {
                request = request.header(name, value);
            }
        }
        request
    }
}

/// Headers that sign a GET without a body. Path and query of the address are encoded strictly, the query is sorted.
fn signed(url: &Url, region: &str, credentials: &Credentials, now: Time) -> Vec<(&'static str, String)> {
    let seconds = now.to_string();
    let letters = seconds.chars().take(19).filter(|letter| !matches!(letter, '-' | ':'));
    let at: String = letters.chain(['Z']).collect();
    let day = &at[..8];
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let empty = hex(&Sha256::digest(b""));
    let mut headers = vec![("host", host), ("x-amz-content-sha256", empty.clone()), ("x-amz-date", at.clone())];
    headers.extend(credentials.token.clone().map(|token| ("x-amz-security-token", token)));
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let request = format!("GET\n{}\n{}\n{lines}\n{names}\n{empty}", url.path(), url.query().unwrap_or_default());
    let scope = format!("{day}/{region}/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", hex(&Sha256::digest(request)));
    let secret = format!("AWS4{}", credentials.secret).into_bytes();
    let key = [day, region, "s3", "aws4_request"].iter().fold(secret, |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &to_sign));
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credentials.id);
    headers.push(("authorization", authorization));
    headers
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key has any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Parses a page of a listing.
pub(super) fn page(body: &[u8]) -> Result<Page, String> {
    let body = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let mut reader = Reader::from_str(body);
    let (mut keys, mut next, mut text, mut inside) = (Vec::new(), None, String::new(), Vec::new());
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                inside.push(start.local_name().as_ref().to_owned());
                text.clear();
            }
            Event::Text(part) => text.push_str(&part),
            Event::GeneralRef(name) => {
                let told = format!("&{};", &*name);
                text.push_str(&unescape(&told).map_err(|error| error.to_string())?);
            }
            Event::End(_) => {
                match inside.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    [.., "Contents", "Key"] => keys.push(std::mem::take(&mut text)),
                    [.., "NextContinuationToken"] => next = Some(std::mem::take(&mut text)),
                    _ => {}
                }
                inside.pop();
            }
            Event::Eof => return Ok(Page { keys, next }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// The example of a GET of an object in the service's documentation, without its `Range` header.
    #[test]
    fn signature_of_a_request_is_that_of_the_documentation() {
        let url = Url::parse("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J").expect("an address");
        let credentials = Credentials {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let at = Time::parse("2013-05-24T00:00:00Z").expect("a time");
        let headers = signed(&url, "us-east-1", &credentials, at);
        let authorization = &headers.last().expect("headers").1;
        let expected = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(authorization.ends_with(&format!("Signature={expected}")), "{authorization}");
    }

    #[test]
    fn buckets_are_found_in_hosts_and_paths() {
        let sources = [
            "s3::https://s3.amazonaws.com/bucket/a/b.txt",
            "s3::https://s3-eu-west-1.amazonaws.com/bucket/a%20b",
            "bucket.s3.eu-west-1.amazonaws.com/a",
            "s3::https://bucket.with.dots.s3.amazonaws.com/a",
            "s3::http://127.0.0.1:9000/bucket/dir?region=r&aws_access_key_id=i&aws_access_key_secret=s",
            "s3::https://ec2.amazonaws.com/x",
        ];
        let shown = sources.map(|source| {
            let source = Source::parse(source, []).expect("a source");
            match parse(&source, &|_| None) {
                Ok((bucket, key)) => format!(
                    "{} {:?} {} {key:?} {}\n",
                    bucket.endpoint,
                    bucket.in_path,
                    bucket.region,
                    bucket.credentials.map_or("-".to_owned(), |found| found.id)
                ),
                Err(error) => format!("{error}\n"),
            }
        });
        expect![[r#"
            https://s3.amazonaws.com/ Some("bucket") us-east-1 "a/b.txt" -
            https://s3-eu-west-1.amazonaws.com/ Some("bucket") eu-west-1 "a b" -
            https://bucket.s3.eu-west-1.amazonaws.com/ None eu-west-1 "a" -
            https://bucket.with.dots.s3.amazonaws.com/ None us-east-1 "a" -
            http://127.0.0.1:9000/ Some("bucket") r "dir" i
            URL is not a valid S3 URL
        "#]]
        .assert_eq(&shown.concat());
    }

    #[test]
    fn listing_has_keys_and_the_next_mark() {
        let body = br#"<?xml version="1.0"?><ListBucketResult xmlns="x"><Name>b</Name><Prefix>d/</Prefix>
            <NextContinuationToken>t==</NextContinuationToken>
            <Contents><Key>d/a&amp;b</Key><Size>1</Size></Contents><Contents><Key>d/c</Key></Contents></ListBucketResult>"#;
        let page = page(body).expect("a listing");
        assert_eq!((page.keys, page.next), (vec!["d/a&b".to_owned(), "d/c".to_owned()], Some("t==".to_owned())));
    }
}
