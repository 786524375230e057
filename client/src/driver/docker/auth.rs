//! Credentials for pulls: from the task's `auth` block, from a file in the form of `~/.docker/config.json`, and from a
//! program `docker-credential-NAME`, in this order.

use std::io;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;

use super::image::{DEFAULT_REGISTRY, ImageName};
use super::settings::Settings;
use crate::driver::block::{self, Block, text};

/// User name that marks the secret as an identity token.
const TOKEN_USER: &str = "<token>";

/// Credentials for the registry of an image; `None` if nobody has any.
pub(super) async fn credentials(
    task: &Block,
    settings: &Settings,
    image: &ImageName,
) -> Result<Option<DockerCredentials>, String> {
    if let Some(told) = of_task(task) {
        return Ok(Some(told));
    }
    let registry = image.registry();
    if !settings.auth_file.is_empty()
        && let Some(told) = of_file(&settings.auth_file, registry).await?
    {
        return Ok(Some(told));
    }
    if settings.auth_helper.is_empty() {
        return Ok(None);
    }
    of_helper(&settings.auth_helper, registry).await
}

fn of_task(task: &Block) -> Option<DockerCredentials> {
    let auth = block::block(task, "auth")?;
    let given = |key: &str| Some(text(&auth, key)).filter(|text| !text.is_empty());
    given("username").is_some().then(|| DockerCredentials {
        username: given("username"),
        password: given("password"),
        email: given("email"),
        serveraddress: given("server_address"),
        ..DockerCredentials::default()
    })
}

async fn of_file(path: &str, registry: &str) -> Result<Option<DockerCredentials>, String> {
    let read = tokio::fs::read_to_string(path).await;
    let text = read.map_err(|error| format!("failed to open auth config file: {path}: {error}"))?;
    let file: Map<String, Value> =
        serde_json::from_str(&text).map_err(|error| format!("failed to parse auth config file {path}: {error}"))?;
    let helpers = file.get("credHelpers").and_then(Value::as_object);
    let helper = helpers.and_then(|helpers| helpers.get(registry)).or_else(|| file.get("credsStore"));
    if let Some(helper) = helper.and_then(Value::as_str).filter(|helper| !helper.is_empty()) {
        return of_helper(helper, registry).await;
    }
    Ok(entry(&file, registry))
}

/// The entry of a registry in a file. Its key may have a scheme and a path.
fn entry(file: &Map<String, Value>, registry: &str) -> Option<DockerCredentials> {
    let host = |address: &str| {
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        address.split('/').next().unwrap_or_default().to_owned()
    };
    let auths = file.get("auths")?.as_object()?;
    let found = auths.get(registry).or_else(|| {
        let same = |(address, _): &(&String, &Value)| host(address) == host(registry);
        auths.iter().find(same).map(|(_, entry)| entry)
    });
    let entry = found?.as_object()?;
    let given = |key: &str| Some(text(entry, key)).filter(|text| !text.is_empty());
    let (mut username, mut password) = (given("username"), given("password"));
    let joined = given("auth").and_then(|auth| String::from_utf8(STANDARD.decode(auth).ok()?).ok());
    if let Some((user, secret)) = joined.as_deref().and_then(|joined| joined.split_once(':')) {
        (username, password) = (Some(user.to_owned()), Some(secret.trim_end_matches('\0').to_owned()));
    }
    let identitytoken = given("identitytoken");
    let serveraddress = Some(registry.to_owned());
    (username.is_some() || identitytoken.is_some()).then(|| DockerCredentials {
        username,
        password,
        identitytoken,
        serveraddress,
        ..DockerCredentials::default()
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks a program for the credentials of a registry. One that knows none is no error.
async fn of_helper(helper: &str, registry: &str) -> Result<Option<DockerCredentials>, String> {
    let program = format!("docker-credential-{helper}");
    let registry = if registry == DEFAULT_REGISTRY { registry.to_owned() } else { format!("https://{registry}") };
    let output = ask(&program, &registry).await.map_err(|error| format!("failed to run {program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        if said.contains("credentials not found") {
            return Ok(None);
        }
        return Err(format!("{program} failed: {}", said.trim()));
    }
    let Answer { username, secret } = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("failed to parse the answer of {program}: {error}"))?;
    let mut told = DockerCredentials { serveraddress: Some(registry), ..DockerCredentials::default() };
    if username == TOKEN_USER {
        told.identitytoken = Some(secret);
    } else {
        (told.username, told.password) = (Some(username), Some(secret));
    }
    Ok(Some(told))
}

async fn ask(program: &str, registry: &str) -> io::Result<std::process::Output> {
    let mut child = tokio::process::Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(registry.as_bytes()).await?;
    }
    child.wait_with_output().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(told: Option<DockerCredentials>) -> String {
        let Some(told) = told else { return "none".to_owned() };
        let DockerCredentials { username, password, serveraddress, identitytoken, .. } = told;
        let parts =
            [username, password, serveraddress, identitytoken].map(|part| part.unwrap_or_else(|| "-".to_owned()));
        parts.join(" ")
    }

    #[test]
    fn entry_of_a_registry_is_found_by_its_host() {
        let file = json!({"auths": {
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:pa:ss")},
            "ghcr.io": {"username": "u", "password": "p"},
            "https://quay.io/v2/": {"identitytoken": "t"},
            "empty.io": {},
        }});
        let file = file.as_object().expect("an object");
        let story = ["redis:7", "ghcr.io/a/b", "quay.io/a", "empty.io/a", "other.io/a"].map(|image| {
            let image = ImageName::parse(image);
            format!("{}: {}", image.repository, shown(entry(file, image.registry())))
        });
        expect_test::expect![[r#"
            redis: hub pa:ss https://index.docker.io/v1/ -
            ghcr.io/a/b: u p ghcr.io -
            quay.io/a: - - quay.io t
            empty.io/a: none
            other.io/a: none"#]]
        .assert_eq(&story.join("\n"));
    }

    #[tokio::test]
    async fn credentials_of_the_task_come_before_those_of_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.json");
        std::fs::write(&path, r#"{"auths": {"ghcr.io": {"username": "file", "password": "p"}}}"#).expect("writes");
        let mut settings = Settings::new(&crate::config::ClientConfig::default());
        settings.auth_file = path.display().to_string();
        let mut story = Vec::new();
        for task in
            [json!({}), json!({"auth": [{"username": "job", "password": "q"}]}), json!({"auth": {"email": "x"}})]
        {
            let task = task.as_object().cloned().unwrap_or_default();
            let told = credentials(&task, &settings, &ImageName::parse("ghcr.io/a/b:1")).await;
            story.push(told.map_or_else(|error| error, shown));
        }
        settings.auth_file = "/no/such".to_owned();
        let told = credentials(&Block::new(), &settings, &ImageName::parse("ghcr.io/a/b:1")).await;
        story.push(told.map_or_else(|error| error, shown));
        expect_test::expect![[r#"
            file p ghcr.io -
            job q - -
            file p ghcr.io -
            failed to open auth config file: /no/such: No such file or directory (os error 2)"#]]
        .assert_eq(&story.join("\n"));
    }
}
