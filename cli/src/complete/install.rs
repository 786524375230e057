//! `-autocomplete-install` and `-autocomplete-uninstall`: the lines in the configuration files of shells.

use std::path::PathBuf;

use super::scripts::{Shell, script};
use crate::exit::{Exit, Failure, Outcome};
use crate::outln;

/// Path of this program.
pub(super) fn binary() -> std::io::Result<String> {
    Ok(std::env::current_exe()?.to_string_lossy().into_owned())
}

/// Adds the lines to the configuration files of shells that have one, or removes them.
///
/// # Errors
/// No shell has a configuration file; or a file cannot be read or written.
pub(crate) fn rewrite(program: &str, install: bool) -> Outcome {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.ok_or_else(|| Failure::new("Error executing CLI: HOME is not set"))?;
    let failed = |file: &str, error: std::io::Error| Failure::new(format!("Error executing CLI: {file}: {error}"));
    let binary = binary().map_err(|error| failed("this program", error))?;
    let mut seen = false;
    for (file, shell) in [
        (".bashrc", Shell::Bash),
        (".bash_profile", Shell::Bash),
        (".zshrc", Shell::Zsh),
        (".config/fish/config.fish", Shell::Fish),
    ] {
        let path = home.join(file);
        if !path.is_file() {
            continue;
        }
        seen = true;
        let before = std::fs::read_to_string(&path).map_err(|error| failed(file, error))?;
        let after = changed(&before, &script(shell, program, &binary), install);
        if after != before {
            std::fs::write(&path, after).map_err(|error| failed(file, error))?;
            outln!("{} {}", if install { "Added completion to" } else { "Removed completion from" }, path.display());
        }
    }
    if !seen {
        return Err(Failure::new(format!(
            "Error executing CLI: no configuration file of bash, zsh or fish was found below {}; `{program} completion bash` \
             prints the lines",
            home.display()
        )));
    }
    Ok(Exit::DONE)
}

/// The text with the script at its end once, or without it.
fn changed(text: &str, script: &str, install: bool) -> String {
    let block = format!("{script}\n");
    match (install, text.find(&block)) {
        (true, Some(_)) | (false, None) => text.to_owned(),
        (true, None) if text.is_empty() || text.ends_with('\n') => format!("{text}{block}"),
        (true, None) => format!("{text}\n{block}"),
        (false, Some(at)) => format!("{}{}", &text[..at], &text[at + block.len()..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_once_and_removed_whole() {
        let script = script(Shell::Zsh, "nomad", "/bin/x");
        let once = changed("a=1", &script, true);
        assert_eq!(once, format!("a=1\n{script}\n"));
        assert_eq!(changed(&once, &script, true), once);
        assert_eq!(changed(&once, &script, false), "a=1\n");
        assert_eq!(changed("a=1\n", &script, false), "a=1\n");
    }
}
