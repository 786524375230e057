//! The start of a task: its image, the container's configuration, the container, and files of the agent that the
//! container sees. What an interrupted start leaves is removed by the next one, or with the run.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::CreateContainerOptionsBuilder;
use serde_json::Value;
use songline_model::{Dur, Str};

use super::container::{self, Container, Handle};
use super::create::{self, Prepared};
use super::engine::Failure;
use super::images::Image;
use super::resolver::Resolver;
use super::{HANDLE_FILE, Inner, key, logs, ports};
use crate::allocdir::give_secrets;
use crate::beneath::Dir;
use crate::core::StartFailure;
use crate::driver::block::span;
use crate::driver::{DriverNetwork, TaskConfig, raw_exec, text, texts};
use crate::executor::user;

/// Timeout of a pull, unless the task sets one.
const PULL_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Number of times that a container is made whose name is still taken by one that is being removed, and the pause
/// between them.
const CREATE_TRIES: u32 = 5;
const CREATE_PAUSE: Duration = Duration::from_millis(500);
/// Prefix of a security option with a file of system calls.
const SECCOMP: &str = "seccomp=";

/// Starts a task's container.
pub(super) async fn start(inner: &Inner, task: TaskConfig) -> Result<Arc<Container>, StartFailure> {
    let named = text(&task.config, "image");
    if named.is_empty() {
        return Err(for_good("image name required for docker driver"));
    }
    let Image { id: image, user } = image(inner, &task, &named).await?;
    let is_podman = inner.engine.is_podman().await.map_err(|failure| failed(failure, ""))?;
    let configured = configure(inner, &task, &image, is_podman).await;
    let body = configured.map_err(|error| {
        for_good(format!("Failed to create container configuration for image {named:?} ({image:?}): {error}"))
    })?;
    own_secrets(&task, &user).await;
    let logs = raw_exec::logs(&task).filter(|_| !inner.settings.disable_log_collection);
    let name = create::name(&task);
    let run_dir = inner.run_dir(&task.id);
    let network = network(&task).map_err(for_good)?;
    let handle = Handle { container: String::new(), name, image, logs, run_dir, network };
    // Kept from here on: another run that ends now must not remove the image.
    inner.images.keep(&handle.image, &key(&task.id));
    match launch(inner, &task, handle, body).await {
        Ok(container) => Ok(container),
        Err(failure) => {
            inner.images.release(&key(&task.id));
            Err(failure)
        }
    }
}

/// Gives the task's secrets to the user that its image tells, if that is a number. The agent cannot know which
/// user an image means by a name; root in the container reads them in any case. A failure is no error of the task.
async fn own_secrets(task: &TaskConfig, user: &str) {
    // The secrets belong to the task's own user already.
    if !task.user.is_empty() || !rustix::process::geteuid().is_root() {
        return;
    }
    let owner = user::numbers(user).filter(|(user, _)| *user != 0);
    let dir = task.task_dir.clone();
    let give = move || give_secrets(&Dir::open(&dir)?, owner);
    let given = tokio::task::spawn_blocking(give).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    if let Err(error) = given {
        tracing::warn!(task = task.id.task.as_str(), %error, "giving secrets to the user of an image");
    }
}

fn for_good(error: impl Into<Str>) -> StartFailure {
    StartFailure { error: error.into(), recoverable: false }
}

fn failed(failure: Failure, what: &str) -> StartFailure {
    StartFailure { recoverable: failure.may_pass(), error: format!("{what}{failure}").into() }
}

/// Loads or pulls the task's image.
async fn image(inner: &Inner, task: &TaskConfig, named: &str) -> Result<Image, StartFailure> {
    let load = text(&task.config, "load");
    if !load.is_empty() {
        let found = load_archive(inner, &task.task_dir, &load).await;
        found.map_err(|failure| failed(failure, &format!("Failed to load image from {load:?}: ")))?;
        let found = inner.images.find(named).await.map_err(|failure| failed(failure, ""))?;
        return found.ok_or_else(|| for_good(format!("archive {load:?} has no image {named:?}")));
    }
    let timeout = span(&task.config, "image_pull_timeout", Dur::from(PULL_TIMEOUT));
    let timeout = timeout.map_err(|error| for_good(format!("Failed to parse image_pull_timeout: {error}")))?;
    let found = inner.image(named, &task.config, timeout.to_std(), &task.listener).await;
    found.map_err(|failure| StartFailure { recoverable: !failure.is_not_found(), error: failure.to_string().into() })
}

/// Loads an archive of the task's local directory.
async fn load_archive(inner: &Inner, task_dir: &Path, name: &str) -> Result<(), Failure> {
    let (local, name) = (task_dir.join("local"), PathBuf::from(name));
    let read = move || Dir::open(&local)?.find(&name).map_err(io::Error::other)?.read();
    let file = tokio::task::spawn_blocking(read).await.map_err(|error| Failure::new(error.to_string()))?;
    inner.images.load(tokio::fs::File::from_std(file.map_err(|error| Failure::new(error.to_string()))?)).await
}

/// The request to create the container. Writes the files that it sees.
async fn configure(inner: &Inner, task: &TaskConfig, image: &str, is_podman: bool) -> Result<Value, String> {
    let prepared = Prepared {
        image: image.to_owned(),
        security_opt: security_options(&task.config).await?,
        files: files(task, &inner.run_dir(&task.id))
            .await
            .map_err(|error| format!("failed to write files: {error}"))?,
        is_podman,
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let body = create::body(task, &inner.settings, &prepared)?;
    if !inner.settings.volumes_enabled {
        stay_below(task, &body)?;
    }
    Ok(body)
}

/// The task's security options, in which the name of a file of system calls is replaced by its content.
async fn security_options(config: &serde_json::Map<String, Value>) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for told in texts(config, "security_opt") {
        let path = told.strip_prefix(SECCOMP).filter(|path| *path != "unconfined");
        options.push(match path {
            Some(path) => format!("{SECCOMP}{}", seccomp_profile(path).await?),
            None => told,
        });
    }
    Ok(options)
}

async fn seccomp_profile(path: &str) -> Result<String, String> {
    let failed = |error: String| format!("failed to parse security_opt configuration: {error}");
    let read = tokio::fs::read_to_string(path).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            _ => error.to_string(),
        };
        failed(format!("opening seccomp profile ({path}) failed: open {path}: {why}"))
    })?;
    let profile: Value = serde_json::from_str(&read)
        .map_err(|error| failed(format!("compacting json for seccomp profile ({path}) failed: {error}")))?;
    Ok(profile.to_string())
}

/// Refuses a source below the allocation's directory that leads out of it: a task may have placed a link there.
fn stay_below(task: &TaskConfig, body: &Value) -> Result<(), String> {
    let host = &body["HostConfig"];
    let binds = host["Binds"].as_array().into_iter().flatten().filter_map(|bind| bind.as_str()?.split(':').next());
    let mounts = host["Mounts"].as_array().into_iter().flatten();
    let mounts = mounts.filter(|mount| mount["Type"] == "bind").filter_map(|mount| mount["Source"].as_str());
    let dir = Dir::open(&task.alloc_dir).map_err(|error| error.to_string())?;
    for source in binds.chain(mounts) {
        let Ok(below) = Path::new(source).strip_prefix(&task.alloc_dir) else { continue };
        if let Err(crate::beneath::NotFound::Escapes) = dir.find(below) {
            return Err(format!("volumes are not enabled; cannot mount host paths: {source:?}"));
        }
    }
    Ok(())
}

/// Files that stand in place of the container's own, by path in the container. In a namespace of the allocation the
/// engine refuses hosts and name servers, so the agent writes them.
async fn files(task: &TaskConfig, run_dir: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let Some(network) = &task.network else { return Ok(files) };
    let hosts = texts(&task.config, "extra_hosts");
    if let Some(shared) = &network.hosts_file {
        let mut path = shared.clone();
        if !hosts.is_empty() {
            let lines = tokio::fs::read_to_string(shared).await? + &host_lines(&hosts);
            path = run_dir.join("hosts");
            tokio::fs::create_dir_all(run_dir).await?;
            tokio::fs::write(&path, lines).await?;
        }
        files.insert("/etc/hosts".to_owned(), path);
    }
    let lines = Resolver::of(task).lines();
    if !lines.is_empty() {
        let path = run_dir.join("resolv.conf");
        tokio::fs::create_dir_all(run_dir).await?;
        tokio::fs::write(&path, lines).await?;
        files.insert("/etc/resolv.conf".to_owned(), path);
    }
    Ok(files)
}

/// `NAME:ADDRESS` as lines of `/etc/hosts`.
fn host_lines(hosts: &[String]) -> String {
    let line = |host: &String| host.split_once(':').map(|(name, address)| format!("{address} {name}\n"));
    hosts.iter().filter_map(line).collect()
}

/// Makes and starts the container.
async fn launch(
    inner: &Inner,
    task: &TaskConfig,
    mut handle: Handle,
    body: Value,
) -> Result<Arc<Container>, StartFailure> {
    let cannot_create = "failed to create container: ";
    // No container of an earlier run is left when the note is written: one of this name is this run's from here on.
    inner.remove(&handle.name).await.map_err(|failure| failed(failure, cannot_create))?;
    note(&handle).map_err(|error| failed(Failure::new(error.to_string()), cannot_create))?;
    handle.container = made(inner, &handle, body).await.map_err(|failure| failed(failure, cannot_create))?;
    let started = async {
        note(&handle).map_err(|error| Failure::new(error.to_string()))?;
        Ok(inner.engine.client().await?.start_container(&handle.container, None).await?)
    };
    let started: Result<(), Failure> = started.await;
    if let Err(failure) = started {
        if let Err(left) = inner.remove(&handle.container).await {
            tracing::warn!(container = handle.container, failure = %left, "removing a container that did not start");
        }
        return Err(failed(failure, &format!("Failed to start container {}: ", handle.container)));
    }
    // A container may have ended by now. Its services are not announced then.
    handle.network.address = container::address(&inner.engine, &handle.container).await.unwrap_or_default();
    if let Err(error) = note(&handle) {
        tracing::warn!(container = handle.container, %error, "writing down the address of a container");
    }
    Ok(inner.watch(&task.id, handle))
}

/// The task's ports in its network, without an address. Networks of the engine that an operator made are advertised.
fn network(task: &TaskConfig) -> Result<DriverNetwork, String> {
    let named = text(&task.config, "network_mode");
    let advertise = task.network.is_none()
        && !matches!(named.as_str(), "" | "bridge" | "default" | "host" | "none")
        && !named.starts_with("container:");
    Ok(DriverNetwork { address: String::new(), ports: ports::published(task)?.labels, advertise })
}

/// Writes down which container the run has or will have, and where its log files begin.
fn note(handle: &Handle) -> io::Result<()> {
    std::fs::create_dir_all(&handle.run_dir)?;
    if handle.container.is_empty()
        && let Some(logs) = &handle.logs
    {
        logs::begin(logs, &handle.run_dir)?;
    }
    let new = handle.run_dir.join("container.new");
    std::fs::write(&new, serde_json::to_vec(handle)?)?;
    std::fs::rename(new, handle.run_dir.join(HANDLE_FILE))
}

/// Makes the container. Returns its id.
async fn made(inner: &Inner, handle: &Handle, body: Value) -> Result<String, Failure> {
    let client = inner.engine.client().await?;
    let options = CreateContainerOptionsBuilder::default().name(&handle.name).build();
    let body: bollard::models::ContainerCreateBody =
        serde_json::from_value(body).map_err(|error| Failure::new(error.to_string()))?;
    for _ in 1..CREATE_TRIES {
        match client.create_container(Some(options.clone()), body.clone()).await.map_err(Failure::from) {
            Ok(made) => return Ok(made.id),
            Err(failure) if failure.is_conflict() => {
                inner.remove(&handle.name).await?;
                tokio::time::sleep(CREATE_PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(client.create_container(Some(options), body).await?.id)
}
