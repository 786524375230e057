//! Asking agents, and the files of their answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::flags::Plan;
use super::targets::Targets;
use crate::client::{Client, Setup, because, with_query};
use crate::{errln, format, outln};

/// Objects whose lists each interval captures: file and path.
const OBJECTS: [(&str, &str); 12] = [
    ("allocations", "/v1/allocations?namespace=*"),
    ("csi-plugins", "/v1/plugins?type=csi"),
    ("csi-volumes", "/v1/volumes?type=csi&namespace=*"),
    ("deployments", "/v1/deployments?namespace=*"),
    ("evaluations", "/v1/evaluations?namespace=*"),
    ("jobs", "/v1/jobs?namespace=*"),
    ("license", "/v1/operator/license"),
    ("metrics", "/v1/metrics"),
    ("nodes", "/v1/nodes?os=true"),
    ("operator-autopilot-health", "/v1/operator/autopilot/health"),
    ("operator-raft", "/v1/operator/raft/configuration"),
    ("operator-scheduler", "/v1/operator/scheduler/configuration"),
];

/// Facts of the cluster that are captured once: file and path.
const CLUSTER: [(&str, &str); 6] = [
    ("agent-self", "/v1/agent/self"),
    ("leader", "/v1/status/leader"),
    ("members", "/v1/agent/members"),
    ("namespaces", "/v1/namespaces"),
    ("nodes", "/v1/nodes?os=true"),
    ("regions", "/v1/regions"),
];

/// Profiles of an agent: file and name in the path with its parameters.
const PROFILES: [(&str, &str); 6] = [
    ("goroutine_0000.prof", "goroutine"),
    ("goroutine-debug1_0000.txt", "goroutine?debug=1"),
    ("goroutine-debug2_0000.txt", "goroutine?debug=2"),
    ("heap_0000.prof", "heap"),
    ("threadcreate_0000.prof", "threadcreate"),
    ("trace_0000.prof", "trace"),
];

/// A file of the capture.
#[derive(Debug, Clone)]
pub(super) struct Captured {
    pub(super) name: String,
    /// Why the agent did not answer.
    pub(super) error: Option<String>,
}

/// Writes answers into a directory. A request that fails leaves its reason in the file, and the rest is captured.
#[derive(Clone)]
pub(super) struct Capture {
    client: Client,
    dir: PathBuf,
    verbose: bool,
    files: Arc<Mutex<Vec<Captured>>>,
}

/// Streams that are captured beside the intervals.
pub(super) struct Following(JoinSet<()>);

impl Following {
    /// Waits for the streams, which end by themselves when the time is over.
    pub(super) async fn end(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

impl Capture {
    pub(super) fn new(client: Client, dir: PathBuf, verbose: bool) -> Self {
        Self { client, dir, verbose, files: Arc::default() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Files so far, by name.
    pub(super) fn files(&self) -> Vec<Captured> {
        let mut files = self.files.lock().clone();
        files.sort_by(|left, right| left.name.cmp(&right.name));
        files
    }

    pub(super) async fn cluster(&self) {
        for (file, path) in CLUSTER {
            self.json(&self.client, path, &format!("cluster/{file}.json")).await;
        }
    }

    /// Facts and profiles of each agent.
    pub(super) async fn agents(&self, plan: &Plan, targets: &Targets) {
        let mut asked = JoinSet::new();
        for (dir, id) in agents(targets) {
            let (capture, seconds) = (self.clone(), plan.pprof.as_secs_f64().ceil());
            asked.spawn(async move {
                let path = with_query("/v1/agent/host", &[(id.0, id.1.as_str())]);
                capture.json(&capture.client, &path, &format!("{dir}/agent-host.json")).await;
                if seconds > 0.0 {
                    capture.profiles(&dir, (id.0, &id.1), &format!("{seconds}")).await;
                }
            });
        }
        while asked.join_next().await.is_some() {}
    }

    async fn profiles(&self, dir: &str, id: (&str, &str), seconds: &str) {
        let measured = with_query("/v1/agent/pprof/profile", &[("seconds", seconds), id]);
        if let Err(error) = self.raw(&measured, &format!("{dir}/profile_0000.prof")).await {
            // An agent that refuses one profile refuses all: without `enable_debug` or the right of the token.
            errln!("{dir}: no profiles: {error}");
            return;
        }
        for (file, name) in PROFILES {
            let path = with_query(&format!("/v1/agent/pprof/{name}"), &[id]);
            // The reason is in the index.
            let _ = self.raw(&path, &format!("{dir}/{file}")).await;
        }
    }

    /// Follows the agents' logs, and events, until the time is over.
    pub(super) fn follow(&self, plan: &Plan, targets: &Targets) -> Following {
        let mut streams = JoinSet::new();
        let until = tokio::time::Instant::now() + plan.duration;
        let location = if plan.log_location { "true" } else { "" };
        let mut begin = |path: String, file: String| {
            let capture = self.clone();
            streams.spawn(async move { capture.stream(&path, file, until).await });
        };
        for (dir, id) in agents(targets) {
            let query = [
                ("log_level", plan.log_level.as_str()),
                ("log_include_location", location),
                ("plain", "true"),
                (id.0, id.1.as_str()),
            ];
            begin(with_query("/v1/agent/monitor", &query), format!("{dir}/monitor.log"));
        }
        match &plan.events {
            Some(query) => begin(query.clone(), "cluster/eventstream.json".to_owned()),
            None => self.keep("cluster/eventstream.json", b"", None),
        }
        Following(streams)
    }

    /// Captures the cluster's state once at the beginning of each interval, until the time is over or Ctrl-C.
    pub(super) async fn intervals(&self, plan: &Plan) {
        let begin = Instant::now();
        let mut number = 0_u32;
        while plan.interval * number < plan.duration {
            outln!("    Capture interval {number:04}");
            for (file, path) in OBJECTS {
                self.json(&self.client, path, &format!("interval/{number:04}/{file}.json")).await;
            }
            number += 1;
            let next = (plan.interval * number).min(plan.duration);
            tokio::select! {
                () = tokio::time::sleep(next.saturating_sub(begin.elapsed())) => {}
                _ = tokio::signal::ctrl_c() => {
                    outln!("    Interrupted: the archive has what was captured so far");
                    return;
                }
            }
        }
    }

    /// Answers of another program: its files have the last word of their paths.
    pub(super) async fn foreign(&self, dir: &str, setup: Setup, token: (&'static str, Option<String>), paths: &[&str]) {
        let client = match Client::new(setup) {
            Ok(client) => client,
            Err(reason) => return errln!("{dir}: {reason}"),
        };
        for path in paths {
            let mut request = client.request(reqwest::Method::GET, path);
            if let Some(secret) = &token.1 {
                request = request.header(token.0, secret);
            }
            let name = path.rsplit('/').next().unwrap_or_default();
            let answer = client.completed(request).await.map(|answer| answer.value);
            self.kept_json(&format!("{dir}/{name}.json"), answer.map_err(|error| error.to_string()));
        }
    }

    /// Writes a value that needs no request.
    pub(super) async fn json_of(&self, value: &Value, file: &str) {
        self.kept_json(file, Ok(value.clone()));
    }

    async fn json(&self, client: &Client, path: &str, file: &str) {
        let answer = client.get(path).await.map_err(|error| error.to_string());
        self.kept_json(file, answer);
    }

    fn kept_json(&self, file: &str, answer: Result<Value, String>) {
        match answer {
            Ok(value) => self.keep(file, format::json(&value).as_bytes(), None),
            Err(error) => self.keep(file, format::json(&json!({ "Error": error })).as_bytes(), Some(error)),
        }
    }

    async fn raw(&self, path: &str, file: &str) -> Result<(), String> {
        let bytes = async {
            let response = self.client.open(path).await.map_err(|error| error.to_string())?;
            response.bytes().await.map_err(|error| error.to_string())
        };
        match bytes.await {
            Ok(bytes) => self.keep(file, &bytes, None),
            Err(error) => {
                self.files.lock().push(Captured { name: file.to_owned(), error: Some(error.clone()) });
                return Err(error);
            }
        }
        Ok(())
    }

    async fn stream(&self, path: &str, file: String, until: tokio::time::Instant) {
        let copied = async {
            let mut response = self.client.open(path).await.map_err(|error| error.to_string())?;
            let target = self.place(&file).map_err(|error| error.to_string())?;
            let mut out = tokio::fs::File::create(target).await.map_err(|error| error.to_string())?;
            loop {
                tokio::select! {
                    piece = response.chunk() => match piece.map_err(|error| because(&error))? {
                        Some(piece) => out.write_all(&piece).await.map_err(|error| error.to_string())?,
                        None => break,
                    },
                    () = tokio::time::sleep_until(until) => break,
                    _ = tokio::signal::ctrl_c() => break,
                }
            }
            out.flush().await.map_err(|error| error.to_string())
        };
        let error = copied.await.err();
        if self.verbose {
            errln!("{file}");
        }
        self.files.lock().push(Captured { name: file, error });
    }

    /// Writes a file. A disk that refuses is told about and the rest goes on.
    fn keep(&self, file: &str, bytes: &[u8], error: Option<String>) {
        let written = self.place(file).and_then(|path| std::fs::write(path, bytes));
        let error = error.or_else(|| written.as_ref().err().map(ToString::to_string));
        if let Err(error) = written {
            errln!("writing {file}: {error}");
        }
        if self.verbose {
            errln!("{file}");
        }
        self.files.lock().push(Captured { name: file.to_owned(), error });
    }

    fn place(&self, file: &str) -> std::io::Result<PathBuf> {
        let path = self.dir.join(file);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        Ok(path)
    }
}

/// Directory of each chosen agent, with the parameter that names it.
fn agents(targets: &Targets) -> Vec<(String, (&'static str, String))> {
    let servers = targets.servers.iter().map(|name| (format!("server/{}", plain(name)), ("server_id", name.clone())));
    let nodes = targets.nodes.iter().map(|id| (format!("client/{id}"), ("node_id", id.clone())));
    servers.chain(nodes).collect()
}

/// A name as one part of a path.
fn plain(name: &str) -> String {
    name.replace(['/', '\\', '\0'], "_")
}
