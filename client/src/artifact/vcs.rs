//! Fetching of git and Mercurial repositories by their own programs. Runs in the fetching process only, whose
//! confinement the programs inherit: they write below the staging directory, and execute nothing that they fetched.

use std::io;
use std::path::Path;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use songline_model::Dur;
use tokio::process::Command;

use super::child::{Place, STAGED, Staged};
use super::settings::ArtifactSettings;
use super::source::Source;
use super::{ArtifactError, doing, subdir};
use crate::beneath::Dir;

/// Search path of the programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// File of the private key of a source, in the staging directory.
const KEY_FILE: &str = "ssh-key";
/// Longest part of a program's error output that is shown, in bytes.
const SHOWN_MAX: usize = 2000;
/// Digits of a commit's name.
const COMMIT_DIGITS: std::ops::RangeInclusive<usize> = 7..=64;

/// Clones a git repository. `ref` is a branch, a tag or a commit, `depth` the number of commits, `sshkey` a private key
/// in base64.
pub(super) async fn git(
    source: &Source,
    settings: &ArtifactSettings,
    place: &Place<'_>,
) -> Result<Staged, ArtifactError> {
    let Place { staging, home, .. } = *place;
    let wanted = name(source.option("ref"))?;
    let depth = match source.option("depth") {
        "" => None,
        depth => match depth.parse::<u32>() {
            Ok(depth) => Some(depth).filter(|depth| *depth > 0),
            Err(_) => return Err(ArtifactError::Invalid(format!("invalid depth: {depth:?}"))),
        },
    };
    let git = Git { ssh: ssh_command(source.option("sshkey"), staging, home)?, home };
    let work = async {
        let mut clone = vec!["clone".to_owned(), "--quiet".to_owned()];
        let is_commit = COMMIT_DIGITS.contains(&wanted.len()) && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(depth) = depth {
            if is_commit && wanted.len() == 40 {
                return Err(ArtifactError::Invalid("depth needs a branch or a tag as ref, and no commit".to_owned()));
            }
            clone.push(format!("--depth={depth}"));
            clone.extend((!wanted.is_empty()).then(|| format!("--branch={wanted}")));
        }
        clone.extend(["--".to_owned(), source.url.to_string(), STAGED.to_owned()]);
        git.run(".", &clone).await?;
        if depth.is_none() && !wanted.is_empty() {
            git.run(STAGED, &["checkout".to_owned(), wanted.to_owned(), "--".to_owned()]).await?;
        }
        let mut modules = ["submodule", "update", "--init", "--recursive"].map(str::to_owned).to_vec();
        modules.extend(depth.map(|depth| format!("--depth={depth}")));
        git.run(STAGED, &modules).await
    };
    within_time(settings.git_timeout, work).await?;
    Ok(Staged::Tree { subdir: subdir::find(staging, &source.subdir)? })
}

/// Clones a Mercurial repository. `rev` is a branch, a tag or a changeset.
pub(super) async fn hg(
    source: &Source,
    settings: &ArtifactSettings,
    place: &Place<'_>,
) -> Result<Staged, ArtifactError> {
    let Place { staging, home, .. } = *place;
    let wanted = name(source.option("rev"))?;
    let work = async {
        let mut clone = Command::new("hg");
        clone.args(["clone", "--quiet", "--noninteractive", "--noupdate", "--", source.url.as_str(), STAGED]);
        run(clone, home, ".").await?;
        let mut update = Command::new("hg");
        update.args(["update", "--noninteractive"]);
        if !wanted.is_empty() {
            update.arg(format!("--rev={wanted}"));
        }
        run(update, home, STAGED).await
    };
    within_time(settings.hg_timeout, work).await?;
    Ok(Staged::Tree { subdir: subdir::find(staging, &source.subdir)? })
}

/// Refuses a name that a program would take for an option.
fn name(told: &str) -> Result<&str, ArtifactError> {
    if told.starts_with('-') { Err(ArtifactError::Invalid(format!("invalid revision: {told:?}"))) } else { Ok(told) }
}

/// Command by which git reaches servers over ssh. A source's key is written to the staging directory.
fn ssh_command(key: &str, staging: &Dir, home: &Path) -> Result<String, ArtifactError> {
    // The host's key is accepted as it is: the fetching process knows none.
    let mut command =
        "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/dev/null".to_owned();
    if !key.is_empty() {
        let invalid = |_| ArtifactError::Invalid("sshkey is not base64".to_owned());
        let key = STANDARD.decode(key.replace(' ', "+")).map_err(invalid)?;
        let written = staging.write(KEY_FILE, &key, 0o600, None);
        written.map_err(doing("writing the key"))?;
        command += &format!(" -o IdentitiesOnly=yes -i '{}'", home.join(KEY_FILE).display());
    }
    Ok(command)
}

struct Git<'a> {
    ssh: String,
    home: &'a Path,
}

impl Git<'_> {
    async fn run(&self, dir: &str, args: &[String]) -> Result<(), ArtifactError> {
        let mut git = Command::new("git");
        // Hooks and templates of the machine are not for fetched repositories, and files of the machine no source.
        git.args([
            "-c",
            "protocol.file.allow=never",
            "-c",
            "protocol.ext.allow=never",
            "-c",
            "core.hooksPath=/dev/null",
        ])
        .args(args)
        .env("GIT_SSH_COMMAND", &self.ssh)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_TEMPLATE_DIR", "")
        .env("GIT_CONFIG_NOSYSTEM", "1");
        run(git, self.home, dir).await
    }
}

/// Runs a program in a directory of the staging directory, `home`. Its error output is the error.
async fn run(mut command: Command, home: &Path, dir: &str) -> Result<(), ArtifactError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    if std::env::var_os("PATH").is_none() {
        command.env("PATH", PATH);
    }
    command.current_dir(home.join(dir)).env("HOME", home).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ArtifactError::Invalid(format!("{program} must be available and on the PATH")),
        _ => ArtifactError::Io { doing: "starting a program", source: error },
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let from = said.len().saturating_sub(SHOWN_MAX);
    let shown = said.char_indices().find(|(at, _)| *at >= from).map_or("", |(at, _)| &said[at..]);
    Err(ArtifactError::Invalid(format!("{program} exited with {}: {}", output.status, shown.trim())))
}

async fn within_time(timeout: Dur, work: impl Future<Output = Result<(), ArtifactError>>) -> Result<(), ArtifactError> {
    tokio::time::timeout(timeout.to_std(), work).await.unwrap_or(Err(ArtifactError::Timeout(timeout)))
}
