//! `man DIR`: pages for the manual, one for each command, made of the table of commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Command};

use crate::entry::{Context, Entry, Kind, RunHere};
use crate::exit::{Exit, Outcome, Tried};
use crate::outln;

/// Name of the pages, also where the program was called by another one.
const PROGRAM: &str = "songline";

/// Arguments of `man`.
#[derive(Args)]
pub(crate) struct Man {
    /// Directory of the pages; it is made if it does not exist.
    dir: PathBuf,
}

impl RunHere for Man {
    fn run_here(self, context: &Context) -> Outcome {
        std::fs::create_dir_all(&self.dir).tried("Error making the directory")?;
        clap_mangen::generate_to(tree(&context.commands), &self.dir).tried("Error writing the pages")?;
        outln!("Pages written to {}", self.dir.display());
        Ok(Exit::DONE)
    }
}

/// A command, with what is below it.
#[derive(Default)]
struct Node {
    about: &'static str,
    build: Option<fn(Command) -> Command>,
    below: BTreeMap<&'static str, Node>,
}

/// All commands that are not hidden, below each other.
fn tree(table: &[&'static Entry]) -> Command {
    let mut root = Node { about: "Workload orchestrator around one replicated log", ..Node::default() };
    for entry in table.iter().filter(|entry| !entry.hidden) {
        let mut node = &mut root;
        for word in entry.path.split(' ') {
            node = node.below.entry(word).or_default();
        }
        match entry.kind {
            Kind::Group | Kind::Prefix => node.about = entry.about,
            Kind::Command { build, .. } => (node.about, node.build) = (entry.about, Some(build)),
            Kind::Alias(target) => {
                let target = table.iter().find(|entry| entry.path == target);
                node.about = target.map_or("", |target| target.about);
                if let Some(Kind::Command { build, .. }) = target.map(|target| &target.kind) {
                    node.build = Some(*build);
                }
            }
        }
    }
    command(PROGRAM, &root).version(env!("CARGO_PKG_VERSION"))
}

fn command(name: &'static str, node: &Node) -> Command {
    let command = Command::new(name).disable_help_flag(true).disable_help_subcommand(true);
    let command = node.build.map_or(command.clone(), |build| build(command)).about(node.about);
    command.subcommands(node.below.iter().map(|(name, below)| self::command(name, below)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AREAS;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let table: Vec<&'static Entry> = AREAS.iter().copied().flatten().collect();
        let dir = tempfile::tempdir().expect("a directory");
        clap_mangen::generate_to(tree(&table), dir.path()).expect("pages are written");
        for entry in table.iter().filter(|entry| !entry.hidden) {
            let page = dir.path().join(format!("songline-{}.1", entry.path.replace(' ', "-")));
            assert!(page.is_file(), "{} has a page", entry.path);
        }
        let page = std::fs::read_to_string(dir.path().join("songline-job-run.1")).expect("the page is there");
        assert!(
            page.contains("check\\-index") && page.contains(".SH OPTIONS") && page.contains(".SH \"GENERAL OPTIONS\""),
            "{page}"
        );
        let all = std::fs::read_to_string(dir.path().join("songline.1")).expect("the page is there");
        assert!(all.contains("songline\\-job(1)"), "{all}");
    }
}
