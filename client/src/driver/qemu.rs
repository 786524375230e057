//! `qemu`: a virtual machine, which is a process of the host. The machine isolates what runs in it; the process is not
//! isolated from the host. Its command line is in `qemu/line.rs`.

mod line;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FileType;
use serde_json::{Map, Value};
use songline_model::{Blob, Dur};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::block::flag;
use super::programs::{self, Version};
use super::raw_exec::{leave_executor_file, logs};
use super::session::{Command, CommandEnd, Ends};
use super::supervised::Supervisors;
use super::{Boxed, Driver, Fingerprint, Process, RunId, TaskConfig, cgroup, text, texts};
use crate::beneath::Dir;
use crate::cgroup::hierarchy::{Hierarchy, Limits};
use crate::config::ClientConfig;
use crate::core::{ExitResult, StartFailure};
use crate::executor::place::Spec;
use crate::stats::{Detail, TaskUsage};
use line::{MONITOR, Machine, monitor};

/// The program.
const PROGRAM: &str = "qemu-system-x86_64";
/// Longest time in which a monitor takes an order.
const MONITOR_MAX: Duration = Duration::from_secs(5);
/// Text with which a monitor asks for the next order.
const PROMPT: &[u8] = b"(qemu) ";

/// The driver.
pub struct Qemu {
    /// Directories of the host with images for every job.
    image_paths: Vec<String>,
    /// Flags that `args` may have; empty allows all.
    args_allowlist: Vec<String>,
    cgroups: Option<Hierarchy>,
    supervisors: Supervisors,
    version: Version,
}

impl Qemu {
    /// Reads the options of `plugin "qemu"`.
    pub fn new(config: &ClientConfig) -> Self {
        let options = config.plugins.get("qemu");
        let list = |key: &str| options.map(|options| texts(options, key)).unwrap_or_default();
        Self {
            image_paths: list("image_paths"),
            args_allowlist: list("args_allowlist"),
            cgroups: cgroup::usable(config),
            supervisors: Supervisors::new(config),
            version: Version::new(PROGRAM, "--version"),
        }
    }

    /// File of a task's image, without links. The error is the reason why it must not be used.
    fn image(&self, task: &TaskConfig) -> Result<PathBuf, String> {
        let told = text(&task.config, "image_path");
        let file =
            programs::real(&task.task_dir.join(&told)).map_err(|error| format!("image_path {told:?}: {error}"))?;
        let mut dirs = std::iter::once(&*task.alloc_dir).chain(self.image_paths.iter().map(Path::new));
        if dirs.any(|dir| programs::real(dir).is_ok_and(|dir| file.starts_with(dir))) {
            return Ok(file);
        }
        Err(format!(
            "image_path {told:?} is neither in the allocation's directory nor in one of the node's image_paths"
        ))
    }

    fn spec(&self, task: &TaskConfig) -> Result<Spec, String> {
        let command = programs::on_path(PROGRAM).ok_or_else(|| format!("{PROGRAM} is not on the agent's PATH"))?;
        let ports: Vec<_> = task.ports.iter().chain(&task.own_ports).cloned().collect();
        let machine = Machine {
            name: format!("{}-{}", task.id.task, task.id.alloc),
            image: self.image(task)?,
            memory_mb: task.memory_mb,
            cores: task.cores.len(),
            ports: &ports,
            own_network: task.network.is_some(),
        };
        // The memory of the process is that of the machine and some more: a limit would kill it.
        let limits = Limits { cpu_shares: task.cpu_shares, cores: &task.cores, ..Limits::default() };
        let name = cgroup::name(&task.id);
        let cgroups = self.cgroups.as_ref().map(|all| match all.lacks() {
            None => all.limited(&name, &limits),
            Some(_) => all.unlimited(&name),
        });
        Ok(Spec {
            command,
            args: line::arguments(&task.config, &machine)?,
            env: task.env.clone(),
            dir: task.task_dir.clone(),
            user: task.user.clone(),
            logs: logs(task),
            cgroups,
            isolation: None,
            network: task.network.as_ref().map(|network| network.path.clone()),
        })
    }
}

impl Driver for Qemu {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        Box::pin(async move {
            let said = match self.version.text().await {
                Ok(said) => said,
                Err(why) => return Fingerprint::undetected(&why),
            };
            let Some(version) = version(&said) else {
                return Fingerprint::undetected(&format!("{PROGRAM} tells no version"));
            };
            let mut print = Fingerprint::healthy("qemu");
            print.attributes.insert("driver.qemu.version".into(), version.into());
            print
        })
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        line::check(config, &self.args_allowlist)
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move {
            let spec = self.spec(&task).map_err(|error| StartFailure { error: error.into(), recoverable: true })?;
            leave_executor_file(&task.task_dir)?;
            let process = self.supervisors.start(&task.id, &spec).await?;
            let monitor = flag(&task.config, "graceful_shutdown").unwrap_or(false).then_some(spec.dir);
            Ok(Arc::new(Virtual { process, monitor }) as Arc<dyn Process>)
        })
    }

    fn recover(&self, run: RunId, _handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async move {
            let Some(process) = self.supervisors.recover(&run).await? else { return Ok(None) };
            let spec = self.supervisors.place(&run).read_spec().map_err(|error| error.to_string())?;
            let monitor = spec.args.contains(&monitor()).then_some(spec.dir);
            Ok(Some(Arc::new(Virtual { process, monitor }) as Arc<dyn Process>))
        })
    }

    fn destroy(&self, run: RunId) -> Boxed<'_, ()> {
        Box::pin(async move { self.supervisors.destroy(&run).await })
    }
}

/// Version in a text such as `QEMU emulator version 7.2.22 (Debian ..)`.
fn version(said: &str) -> Option<String> {
    let (_, from) = said.split_once("version ")?;
    let version: String = from.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
}

/// A virtual machine.
struct Virtual {
    process: Arc<dyn Process>,
    /// Directory of its monitor, if its power button is pressed to stop it.
    monitor: Option<PathBuf>,
}

impl Virtual {
    /// Presses the power button, and waits until the machine has turned itself off. `false` when it has not.
    async fn power_down(&self, dir: &Path, timeout: Duration) -> bool {
        let until = tokio::time::Instant::now() + timeout;
        match tokio::time::timeout(timeout.min(MONITOR_MAX), press_power_button(dir)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(dir = %dir.display(), %error, "asking a virtual machine to turn itself off");
                return false;
            }
            Err(_) => return false,
        }
        tokio::time::timeout_at(until, self.process.wait()).await.is_ok()
    }
}

impl Process for Virtual {
    fn handle(&self) -> Blob {
        self.process.handle()
    }

    fn wait(&self) -> Boxed<'_, ExitResult> {
        self.process.wait()
    }

    fn stop(&self, signal: &str, timeout: Dur) -> Boxed<'_, Result<(), String>> {
        let signal = signal.to_owned();
        Box::pin(async move {
            let left = timeout.to_std();
            match &self.monitor {
                Some(dir) if !left.is_zero() => match self.power_down(dir, left).await {
                    true => Ok(()),
                    false => self.process.stop("SIGKILL", Dur::ZERO).await,
                },
                Some(_) | None => self.process.stop(&signal, timeout).await,
            }
        })
    }

    fn signal<'a>(&'a self, _signal: &'a str) -> Boxed<'a, Result<(), String>> {
        Box::pin(std::future::ready(Err("task driver does not support signals".to_owned())))
    }

    fn exec(&self, _command: Command, _ends: Ends) -> Boxed<'_, Result<CommandEnd, String>> {
        // A command would run on the host, not in the machine.
        Box::pin(std::future::ready(Err("task driver does not support exec".to_owned())))
    }

    fn usage(&self, detail: Detail) -> Boxed<'_, Option<TaskUsage>> {
        self.process.usage(detail)
    }
}

/// Gives the order to a machine's monitor. The socket is in a directory that the task may write to, so it is held open
/// and examined before it is connected to.
async fn press_power_button(dir: &Path) -> io::Result<()> {
    let entry = Dir::open(dir)?.entry(MONITOR)?;
    if entry.kind() != FileType::Socket {
        return Err(io::Error::other("the monitor is not a socket"));
    }
    let mut monitor = UnixStream::connect(entry.held()).await?;
    prompted(&mut monitor).await?;
    monitor.write_all(b"system_powerdown\n").await?;
    // The order has been carried out when the monitor asks for the next one.
    prompted(&mut monitor).await
}

/// Reads until the monitor asks for an order, or is gone.
async fn prompted(monitor: &mut UnixStream) -> io::Result<()> {
    let (mut last, mut piece) = (Vec::new(), [0; 512]);
    loop {
        let n = monitor.read(&mut piece).await?;
        last.extend_from_slice(&piece[..n]);
        if n == 0 || last.ends_with(PROMPT) {
            return Ok(());
        }
        last.drain(..last.len().saturating_sub(PROMPT.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_text_of_the_program() {
        let texts = [
            "QEMU emulator version 7.2.22 (Debian 1:7.2)\nCopyright",
            "QEMU emulator version 9.0.0\n",
            "odd",
            "version x",
        ];
        assert_eq!(texts.map(|said| version(said).unwrap_or_default()), ["7.2.22", "9.0.0", "", ""]);
    }
}
