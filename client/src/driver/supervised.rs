//! Tasks that an executor supervises: starting, recovering and waiting for them. `raw_exec` and `exec` share this
//! module; they choose the program and its isolation.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use songline_model::{Blob, Dur};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, unix::AsyncFd};
use tokio::process::Command;
use tokio::sync::watch;

use super::session::{self, CommandEnd, Ends};
use super::{Boxed, Process, RunId};
use crate::beneath::Dir;
use crate::cgroup::Cgroups;
use crate::config::ClientConfig;
use crate::core::{ExitResult, StartFailure};
use crate::executor::place::{Exit, Order, Place, Spec, Started};
use crate::procfs;
use crate::signal;
use crate::stats::{Detail, TaskUsage};

/// Timeout of an executor's report of the start.
const START_MAX: Duration = Duration::from_secs(60);
/// Time after the final signal at which a task that still exists is an error.
const AFTER_KILL_MAX: Duration = Duration::from_secs(15);
/// Poll interval of the directory of an executor that has not reported yet.
const START_POLL: Duration = Duration::from_millis(20);

/// Executors' directories and the command that starts an executor.
pub(super) struct Supervisors {
    runs_dir: PathBuf,
    command: Result<Vec<PathBuf>, String>,
}

impl Supervisors {
    pub fn new(config: &ClientConfig) -> Self {
        Self { runs_dir: config.runs_dir(), command: config.executor_command().map_err(|error| error.to_string()) }
    }

    pub fn place(&self, run: &RunId) -> Place {
        Place::new(self.runs_dir.join(run.alloc.to_string()).join(run.task.as_str()).join(run.run.to_string()))
    }

    pub async fn start(&self, run: &RunId, spec: &Spec) -> Result<Arc<dyn Process>, StartFailure> {
        let place = self.place(run);
        let started = match self.launch(&place, spec).await {
            Ok(started) => started,
            Err(error) => {
                if !place.is_held() {
                    end(spec.cgroups.as_ref().map(|cgroups| &cgroups.at)).await;
                }
                let error = format!("failed to launch command with executor: {error}").into();
                return Err(StartFailure { error, recoverable: true });
            }
        };
        match started.error {
            None => Ok(Arc::new(self.supervised(place, started))),
            Some(error) => {
                let error = format!("failed to launch command with executor: {error}").into();
                Err(StartFailure { error, recoverable: true })
            }
        }
    }

    fn supervised(&self, place: Place, started: Started) -> Supervised {
        Supervised::new(place, started, self.command.clone().unwrap_or_default())
    }

    async fn launch(&self, place: &Place, spec: &Spec) -> io::Result<Started> {
        let command = self.command.as_ref().map_err(|error| io::Error::other(error.clone()))?;
        let (program, first) = command.split_first().ok_or_else(|| io::Error::other("no executor is configured"))?;
        let (held, prepared) = (place.clone(), spec.clone());
        let lock = tokio::task::spawn_blocking(move || held.prepare(&prepared)).await.map_err(io::Error::other)??;
        let mut child = Command::new(program)
            .args(first)
            .arg("run")
            .arg(place.dir())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(lock))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the executor has no output"))?;
        // Reaps the executor while this agent lives; the executor needs no parent.
        tokio::spawn(async move { child.wait().await });
        let mut line = String::new();
        let mut answer = BufReader::new(stdout.take(1 << 20));
        match tokio::time::timeout(START_MAX, answer.read_line(&mut line)).await {
            Ok(Ok(n)) if n > 0 => Ok(serde_json::from_str(&line)?),
            Ok(Ok(_)) => Err(io::Error::other("the executor ended before it had started the task")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("the executor did not answer")),
        }
    }

    pub async fn recover(&self, run: &RunId) -> Result<Option<Arc<dyn Process>>, String> {
        let place = self.place(run);
        let waited_until = tokio::time::Instant::now() + START_MAX;
        loop {
            // The order matters: an executor that no longer holds its lock has written everything that it will write.
            let held = place.is_held();
            let started = place.read_started().map_err(|error| error.to_string())?;
            match started {
                Some(Started { error: Some(_), .. }) => return Ok(None),
                Some(started) if held => return Ok(Some(Arc::new(self.supervised(place, started)))),
                Some(started) => {
                    let exit = place.read_exit().map_err(|error| error.to_string())?;
                    if exit.is_some() {
                        return Ok(Some(Arc::new(self.supervised(place, started))));
                    }
                    kill_orphans(&started).await;
                    return Err("the executor of the task is gone".to_owned());
                }
                None if !held => {
                    // The executor may have been killed between creating cgroups and reporting it.
                    let spec = place.read_spec().ok();
                    end(spec.as_ref().and_then(|spec| spec.cgroups.as_ref()).map(|cgroups| &cgroups.at)).await;
                    // A previous agent, no longer in charge, may still be about to start the run.
                    if place.give_up().map_err(|error| error.to_string())? {
                        return Ok(None);
                    }
                }
                None if tokio::time::Instant::now() > waited_until => {
                    return Err("the executor of the task does not answer".to_owned());
                }
                None => tokio::time::sleep(START_POLL).await,
            }
        }
    }

    pub async fn destroy(&self, run: &RunId) {
        let place = self.place(run);
        if place.is_held()
            && let Ok(Some(started)) = place.read_started()
            && started.error.is_none()
        {
            let process = self.supervised(place.clone(), started);
            if let Err(error) = process.stop("SIGKILL", Dur::ZERO).await {
                tracing::warn!(?run, error, "ending the leftover of a run");
            }
        }
        let (dir, name) = (self.runs_dir.join(run.alloc.to_string()).join(run.task.as_str()), run.run.to_string());
        let removed =
            tokio::task::spawn_blocking(move || Dir::open(&dir).and_then(|runs| runs.remove_all(&name))).await;
        if let Ok(Err(error)) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(?run, %error, "removing the directory of a run");
        }
    }
}

/// Kills the processes of a task whose executor was killed.
async fn kill_orphans(started: &Started) {
    // The process group may outlive its first process. Only while that process exists is the group's id surely the
    // task's.
    if procfs::is_alive(started.task, started.task_start)
        && let Some(group) = Pid::from_raw(started.task)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    end(started.cgroups.as_ref()).await;
}

/// Ends all processes in cgroups without an executor. The next run of the task uses the same cgroups, so this is
/// complete before the end is reported, and is not repeated when the run is removed.
async fn end(cgroups: Option<&Cgroups>) {
    let Some(cgroups) = cgroups.cloned() else { return };
    if let Err(error) = tokio::task::spawn_blocking(move || cgroups.end()).await {
        tracing::warn!(%error, "removing the cgroups of a task");
    }
}

struct Supervised {
    place: Place,
    started: Started,
    ended: watch::Receiver<Option<ExitResult>>,
    /// Command that starts an executor.
    executor: Vec<PathBuf>,
}

impl Supervised {
    fn new(place: Place, started: Started, executor: Vec<PathBuf>) -> Self {
        let (tell, ended) = watch::channel(None);
        let (watched, run) = (place.clone(), started.clone());
        tokio::spawn(async move {
            let exit = await_end(&watched, &run).await;
            let _ = tell.send(Some(exit));
        });
        Self { place, started, ended, executor }
    }

    async fn ended(&self) -> ExitResult {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => ExitResult::lost("the agent is shutting down"),
        }
    }
}

/// Waits until the executor is gone, and reads the result that it wrote.
async fn await_end(place: &Place, started: &Started) -> ExitResult {
    if let Some(pid) = Pid::from_raw(started.executor)
        && let Ok(fd) = pidfd_open(pid, PidfdFlags::NONBLOCK)
        // Checked after opening: the descriptor refers to the process that has this id now.
        && procfs::is_alive(started.executor, started.executor_start)
    {
        #[allow(unsafe_code)]
        // SAFETY: the descriptor is owned, hence open, and owned by the `AsyncFd`, which neither closes nor changes
        // it before its end.
        let fd = unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) };
        if let Ok(fd) = fd {
            let _ = fd.readable().await;
        }
    }
    match place.read_exit() {
        Ok(Some(Exit { code, signal, oom_killed, error })) => {
            ExitResult { exit_code: code.into(), signal: signal.into(), oom_killed, error: error.map(Into::into) }
        }
        Ok(None) => {
            kill_orphans(started).await;
            ExitResult::lost("executor: the task's executor was killed")
        }
        Err(error) => ExitResult::lost(format!("executor: reading the exit code: {error}")),
    }
}

impl Process for Supervised {
    fn handle(&self) -> Blob {
        Blob(serde_json::to_vec(&self.started).unwrap_or_default())
    }

    fn wait(&self) -> Boxed<'_, ExitResult> {
        Box::pin(self.ended())
    }

    fn stop(&self, signal: &str, timeout: Dur) -> Boxed<'_, Result<(), String>> {
        let name = if signal.is_empty() { signal::DEFAULT_KILL_SIGNAL } else { signal };
        let known = signal::by_name(name).ok_or_else(|| format!("error unknown signal given for shutdown: {name}"));
        Box::pin(async move {
            let timeout = timeout.to_std();
            let number = if timeout.is_zero() { Signal::KILL } else { known? };
            // Fails when the executor is gone; then the end is known, or will be in a moment.
            let _ = self.place.order(&Order::Stop { signal: number.as_raw(), timeout });
            if tokio::time::timeout(timeout + AFTER_KILL_MAX, self.ended()).await.is_ok() {
                return Ok(());
            }
            kill_orphans(&self.started).await;
            if procfs::is_alive(self.started.executor, self.started.executor_start)
                && let Some(executor) = Pid::from_raw(self.started.executor)
            {
                let _ = kill_process(executor, Signal::KILL);
            }
            Err("process did not exit after 15 seconds".to_owned())
        })
    }

    fn signal<'a>(&'a self, signal: &'a str) -> Boxed<'a, Result<(), String>> {
        let number = signal::by_name(signal).unwrap_or_else(|| {
            tracing::warn!(signal, "unknown signal, sending SIGINT instead");
            Signal::INT
        });
        let sent = self.place.order(&Order::Signal(number.as_raw())).map_err(|error| error.to_string());
        Box::pin(std::future::ready(sent))
    }

    fn exec(&self, command: session::Command, ends: Ends) -> Boxed<'_, Result<CommandEnd, String>> {
        Box::pin(async move {
            let ended = session::run(&self.executor, self.place.dir(), &command, ends).await;
            // The error has the words of a driver in a separate process, because clients know them.
            ended.map_err(|error| format!("rpc error: code = Unknown desc = {error}"))
        })
    }

    fn usage(&self, detail: Detail) -> Boxed<'_, Option<TaskUsage>> {
        Box::pin(std::future::ready(Some(usage_of(&self.started, detail))))
    }
}

fn usage_of(started: &Started, detail: Detail) -> TaskUsage {
    // A process may leave the task's process group, but not its cgroups.
    let members = || started.cgroups.as_ref().map(|own| procfs::those(own.members())).unwrap_or_default();
    if !started.counted {
        // Without rights the cgroups stay empty.
        let members = members();
        let processes = if members.is_empty() { procfs::in_group(started.task) } else { members };
        return TaskUsage::of_processes(processes);
    }
    // The process group is not read: once the cgroups are empty, another task may have its id.
    match (started.cgroups.as_ref().and_then(Cgroups::usage), detail) {
        (Some(counted), Detail::Sums) => TaskUsage::counted(&counted, BTreeMap::new()),
        (Some(counted), Detail::Processes) => TaskUsage::counted(&counted, members()),
        (None, Detail::Sums | Detail::Processes) => TaskUsage::of_processes(members()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_counted_task_are_those_of_its_cgroups_and_are_read_only_on_request() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).expect("writes");
        let own = i32::try_from(std::process::id()).expect("pids are small");
        let group = procfs::process(own).expect("we run").group;
        let cgroups = Some(Cgroups::Unified(dir.path().to_owned()));
        let started = Started { task: group, cgroups, counted: true, ..Started::default() };
        let read = |detail| {
            let usage = usage_of(&started, detail);
            (usage.rss_bytes, usage.processes.iter().flat_map(|all| all.keys().copied()).collect::<Vec<i32>>())
        };
        write("memory.current", "9\n");
        write("memory.stat", "anon 7\n");
        write("cgroup.procs", &format!("{own}\n"));
        assert_eq!(read(Detail::Sums), (7, vec![]));
        assert_eq!(read(Detail::Processes), (7, vec![own]));
        // The group has processes, such as this one.
        write("cgroup.procs", "");
        assert_eq!(read(Detail::Processes), (7, vec![]));
        std::fs::remove_file(dir.path().join("memory.current")).expect("is there");
        assert_eq!(read(Detail::Sums), (0, vec![]));
    }
}
