//! Secrets are planted in a whole run, and then searched for in all traces of the run: answers, events, audit and
//! history, the agent's log output at its most verbose level, saved archives, files. `docs/secrets.md` says where
//! each may be.

mod callers;

use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::story::{Story, WITHIN};

/// Planted texts: each is used in one place only, so that a find identifies its origin.
const VARIABLE: &str = "planted-item-7f3a9c";
const VAULT: &str = "planted-vault-1b8e44";
const CONSUL: &str = "planted-consul-90d2c7";
const VOLUME: &str = "planted-volume-5e6f01";
const MOUNT_FLAG: &str = "planted-mount-aa71b3";
const CALLER: &str = "c0ffee00-1234-4678-9abc-def012345678";
const BEARER: &str = "bea7e700-1234-4678-9abc-def012345678";

/// Signature of a task's token, its last part.
fn signature(token: &str) -> Result<String> {
    Ok(token.trim().rsplit('.').next().filter(|part| part.len() > 80).context("a token has a signature")?.to_owned())
}

/// Whether a text occurs in bytes, of which there may be very many.
fn find(haystack: &[u8], needle: &str) -> bool {
    regex::bytes::Regex::new(&regex::escape(needle)).expect("an escaped text is a pattern").is_match(haystack)
}

/// Adds all files below `dir` that contain the text.
fn files_with(dir: &Path, text: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files_with(&path, text, found)?;
        } else if path.is_file() && find(&std::fs::read(&path)?, text) {
            found.push(path.display().to_string());
        }
    }
    Ok(())
}

/// Every answer and stream that callers can read.
fn told(story: &Story, alloc: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut out = Vec::new();
    let node = story.get("/v1/nodes")?[0]["ID"].as_str().context("a node has an id")?.to_owned();
    for target in [
        "/v1/audit".to_owned(),
        "/v1/jobs".to_owned(),
        "/v1/job/who".to_owned(),
        "/v1/job/who/versions".to_owned(),
        "/v1/job/who/allocations".to_owned(),
        "/v1/job/who/evaluations".to_owned(),
        "/v1/history/job/who".to_owned(),
        format!("/v1/history/allocation/{alloc}"),
        format!("/v1/history/node/{node}"),
        format!("/v1/explain/allocation/{alloc}"),
        format!("/v1/allocation/{alloc}"),
        format!("/v1/node/{node}"),
        format!("/v1/node/{node}/allocations"),
        "/v1/nodes".to_owned(),
        "/v1/vars".to_owned(),
        "/v1/volumes".to_owned(),
        "/v1/volume/csi/planted".to_owned(),
        "/v1/agent/self".to_owned(),
        "/v1/agent/host".to_owned(),
        "/v1/metrics".to_owned(),
        "/v1/operator/keyring/keys".to_owned(),
        "/v1/client/metadata".to_owned(),
        "/v1/system/no-such-route".to_owned(),
    ] {
        // Headers count, and so do refusals.
        let request = Request::new("GET", &target)
            .header("X-Nomad-Token", CALLER)
            .header("Authorization", &format!("Bearer {BEARER}"));
        let answer = story.ask(&request)?;
        out.push((target, answer.body));
    }
    for query in ["after_index=0&full=true", "snapshot=true&full=true", "index=1"] {
        for accept in ["application/json", "application/msgpack"] {
            let mut stream = story.subscribe(query, accept)?;
            // The secrets were written before this job, so once its event has arrived theirs have.
            let last = format!("the end of {query} as {accept}");
            let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}});
            let groups = json!([{"Name": "g", "Count": 0, "Tasks": [task]}]);
            story.put(
                "/v1/jobs",
                &json!({"Job": {"ID": "end", "Type": "batch", "Meta": {"last": last}, "TaskGroups": groups}}),
            )?;
            let mut told = Vec::new();
            let until = Instant::now() + WITHIN;
            while !find(&told, &last) {
                told.extend_from_slice(&stream.read_some(until)?.context("the stream goes on")?);
            }
            out.push((format!("event stream {query} {accept}"), told));
        }
    }
    Ok(out)
}

/// Requests that are refused because of a field beside a secret.
fn refused(story: &Story) -> Result<Vec<(String, Vec<u8>)>> {
    let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}});
    let bad_job = json!({"Job": {"ID": "bad", "Type": "nonsense", "VaultToken": VAULT, "ConsulToken": CONSUL, "TaskGroups": [{"Name": "g", "Tasks": [task]}]}});
    let bad_volume = json!({"Volumes": [{"ID": "planted", "PluginID": "", "Secrets": {"key": VOLUME}}]});
    let mut out = Vec::new();
    for (method, target, body) in [
        ("PUT", "/v1/jobs", bad_job.clone()),
        ("PUT", "/v1/job/bad/plan", bad_job.clone()),
        ("PUT", "/v1/validate/job", bad_job),
        ("PUT", "/v1/volume/csi/planted", bad_volume),
        ("PUT", "/v1/var/a.b", json!({"Items": {"k": VARIABLE}})),
        ("PUT", "/v1/var/a?cas=999999", json!({"Items": {"k": VARIABLE}})),
        ("PUT", "/v1/var/b", json!({"Items": {"k": 1, "l": VARIABLE}})),
        ("PUT", "/v1/var/b", json!({"Items": VARIABLE})),
    ] {
        let request = Request::new(method, target).header("X-Nomad-Token", CALLER).json(&body);
        out.push((format!("{method} {target}"), story.ask(&request)?.body));
    }
    Ok(out)
}

#[test]
fn planted_secrets_are_found_only_in_allowed_places() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let story = Story { agent: Agent::start_talkative(&Setup { data_dir: Some(data_dir.clone()), ..Setup::dev() })? };
    story.wait("/v1/operator/keyring/keys", |keys| {
        keys.as_array().is_some_and(|keys| keys.iter().any(|key| key["State"] == "active"))
    })?;
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;

    story.put("/v1/var/app/db", &json!({"Items": {"password": VARIABLE}}))?;
    let capability = json!({"AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system"});
    let volume = json!({
        "ID": "planted", "Name": "planted", "PluginID": "p", "Secrets": {"key": VOLUME},
        "MountOptions": {"FSType": "ext4", "MountFlags": [MOUNT_FLAG]}, "RequestedCapabilities": [capability],
    });
    // Without its plugin the volume is refused; the sent secrets must not be stored all the same.
    story.ask(&Request::new("PUT", "/v1/volume/csi/planted").json(&json!({"Volumes": [volume]})))?;
    let task = json!({
        "Name": "t", "Driver": "raw_exec", "Identity": {"Env": true},
        "Config": {"command": "/bin/sh", "args": ["-c", "echo $NOMAD_TOKEN"]},
    });
    let job = json!({"ID": "who", "Type": "batch", "VaultToken": VAULT, "ConsulToken": CONSUL, "TaskGroups": [{"Name": "g", "Tasks": [task]}]});
    story.put("/v1/jobs", &json!({"Job": job}))?;
    let allocs = story.wait("/v1/job/who/allocations", |allocs| allocs[0]["ClientStatus"] == "complete")?;
    let alloc = allocs[0]["ID"].as_str().context("an alloc has an id")?.to_owned();
    let printed =
        story.call(&Request::new("GET", &format!("/v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true")))?.text();
    let identity = signature(&printed)?;
    let kek = std::fs::read_to_string(data_dir.join("server/keystore/kek"))
        .context("reading the key-encryption key")?
        .trim()
        .to_owned();
    let node_secret = node_secret(&data_dir.join("client"))?;

    let mut traces = refused(&story)?;
    traces.extend(told(&story, &alloc)?);
    let archive = story.call(&Request::new("GET", "/v1/operator/snapshot"))?.body;
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&archive[..]).read_to_end(&mut unpacked).context("unpacking the archive")?;
    traces.push(("what the agent says of itself".to_owned(), story.agent.log()?));
    ensure!(traces.last().is_some_and(|(_, log)| log.len() > 1000), "the agent is talkative");

    for secret in [VARIABLE, VAULT, CONSUL, VOLUME, MOUNT_FLAG, CALLER, BEARER, &identity, &kek, &node_secret] {
        for (place, text) in &traces {
            ensure!(!find(text, secret), "{place} shows {secret}");
        }
    }
    story.agent.interrupt()?;
    for (place, text) in printed_offline(dir.path(), &archive)? {
        for secret in [VARIABLE, VAULT, CONSUL, VOLUME, MOUNT_FLAG, CALLER, BEARER, &identity, &kek, &node_secret] {
            ensure!(!find(&text, secret), "{place} shows {secret}");
        }
    }
    // The node's own secret is in the log, as docs/secrets.md says; the others are neither there nor in derived
    // stores or archives.
    for secret in [VARIABLE, VAULT, CONSUL, VOLUME, MOUNT_FLAG, CALLER, BEARER, &kek] {
        ensure!(!find(&unpacked, secret), "the archive holds {secret}");
        let mut found = Vec::new();
        files_with(&data_dir.join("server"), secret, &mut found)?;
        found.retain(|file| !(secret == kek && file.ends_with("keystore/kek")));
        ensure!(found.is_empty(), "{secret} lies in {found:?}");
    }
    for secret in [&identity, &node_secret] {
        for derived in ["events", "touches"] {
            let mut found = Vec::new();
            files_with(&data_dir.join("server").join(derived), secret, &mut found)?;
            ensure!(found.is_empty(), "{secret} lies in {found:?}");
        }
    }
    Ok(())
}

/// Output of the commands that print files of a stopped agent.
fn printed_offline(dir: &Path, archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    let (data, saved) = (dir.join("data").display().to_string(), dir.join("saved.snap").display().to_string());
    std::fs::write(&saved, archive)?;
    let commands = [
        ["operator", "raft", "logs", &data],
        ["operator", "raft", "state", &data],
        ["operator", "snapshot", "state", &saved],
        ["operator", "client-state", "--", &data],
    ];
    let mut out = Vec::new();
    for args in commands {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_songline")).args(args).output()?;
        ensure!(
            output.status.success() && output.stdout.len() > 1000,
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        out.push((args.join(" "), output.stdout));
    }
    Ok(out)
}

/// The node's secret, which its stored state has after the node id.
fn node_secret(dir: &Path) -> Result<String> {
    const ID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let pattern = regex::bytes::Regex::new(&format!("{ID}\n({ID})"))?;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file()
                && let Some(found) = pattern.captures(&std::fs::read(&path)?).and_then(|captures| captures.get(1))
            {
                return Ok(String::from_utf8_lossy(found.as_bytes()).into_owned());
            }
        }
    }
    anyhow::bail!("the node keeps its secret below {}", dir.display())
}
