//! `fmt`: job files and other HCL in the canonical layout.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use songline_lang::jobspec;
use songline_model::Errors;

use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, Run, outln};

/// Arguments of `fmt`.
#[derive(Args)]
pub(crate) struct Fmt {
    /// Write nothing, and fail if a file is not formatted.
    #[arg(long)]
    check: bool,
    /// Print the names of the files that are not formatted.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    list: bool,
    /// Write the formatted text to the file.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    write: bool,
    /// Format the files of directories in directories too.
    #[arg(long)]
    recursive: bool,
    /// Files and directories, the working directory without any; `-` is standard input.
    paths: Vec<String>,
}

impl Run for Fmt {
    async fn run(mut self, context: &Context) -> Outcome {
        if self.check {
            self.write = false;
        }
        let mut changed = false;
        if self.paths == ["-"] {
            (self.list, self.write) = (false, false);
            let mut source = String::new();
            std::io::stdin().read_to_string(&mut source).tried("Error reading standard input")?;
            changed = self.format("<stdin>", &source)?.is_some();
        } else {
            let mut errors = Errors::new();
            for file in self.files(&mut errors, &context.program) {
                match self.file(&file) {
                    Ok(differs) => changed |= differs,
                    Err(error) => errors.push(error.to_string()),
                }
            }
            if let Err(errors) = errors.into_result() {
                return Err(Failure::new(errors.to_string()));
            }
        }
        Ok(if self.check && changed { Exit::FAILED } else { Exit::DONE })
    }
}

impl Fmt {
    /// The files to format, in order. `program` is the name in error messages.
    fn files(&self, errors: &mut Errors, program: &str) -> Vec<PathBuf> {
        let here = [".".to_owned()];
        let paths = if self.paths.is_empty() { &here[..] } else { &self.paths[..] };
        let mut files = Vec::new();
        for path in paths {
            let path = Path::new(path);
            match std::fs::metadata(path) {
                Err(_) => errors.push(format!("No file or directory at {}", path.display())),
                Ok(found) if found.is_dir() => {
                    if let Err(error) = self.in_directory(path, &mut files) {
                        errors.push(format!("Error reading {}: {error}", path.display()));
                    }
                }
                Ok(_) if is_formatted(path) => files.push(path.to_owned()),
                Ok(_) => errors.push(format!("Only .nomad and .hcl files can be processed using {program} fmt")),
            }
        }
        files
    }

    fn in_directory(&self, dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
        let mut entries = std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = if dir == Path::new(".") { entry.file_name().into() } else { entry.path() };
            // Links are not followed: they may lead in circles.
            if entry.file_type()?.is_dir() {
                if self.recursive {
                    self.in_directory(&path, files)?;
                }
            } else if is_formatted(&path) {
                files.push(path);
            }
        }
        Ok(())
    }

    /// Formats one file. Returns whether it was not formatted.
    fn file(&self, file: &Path) -> Result<bool, Failure> {
        let name = file.display().to_string();
        let source = std::fs::read_to_string(file).tried(&format!("Error reading {name}"))?;
        let Some(formatted) = self.format(&name, &source)? else { return Ok(false) };
        if self.list {
            outln!("{name}");
        }
        if self.write {
            std::fs::write(file, formatted).tried(&format!("Error writing {name}"))?;
        }
        Ok(true)
    }

    /// The formatted text if it differs. Prints it if neither names nor files are wanted.
    fn format(&self, name: &str, source: &str) -> Result<Option<String>, Failure> {
        let formatted = jobspec::format(source, name).map_err(|error| Failure::new(error.to_string()))?;
        if !self.list && !self.write {
            outln!("{formatted}");
        }
        Ok((formatted != source).then_some(formatted))
    }
}

/// Whether the name is that of a file in HCL.
fn is_formatted(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "nomad" || extension == "hcl")
}
