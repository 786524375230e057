//! Lists in documents agree with the code. Not here: the lists of the recorded conversations, which have tests of
//! their own.

use anyhow::{Context, Result};
use songline_client::ABILITIES as BUILT;
use songline_scheduler::feasible::abilities::ABILITIES;

use crate::tree;

/// The abilities in the table of the README's part `What is missing`, in order.
fn told() -> Result<Vec<String>> {
    let readme = tree::files(&["README.md"])?.into_iter().find(|file| file.path == "README.md");
    let readme = readme.context("there is a README.md")?.text;
    let part =
        readme.split("\n## ").find(|part| part.starts_with("What is missing\n")).context("a part `What is missing`")?;
    let names = part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    Ok(names.map(|(name, _)| name.to_string()).collect())
}

#[test]
fn the_readme_names_every_ability_that_the_agent_lacks_and_no_other() -> Result<()> {
    let told = told()?;
    let listed: Vec<&str> = ABILITIES.iter().map(|ability| ability.name).filter(|name| !BUILT.contains(name)).collect();
    let missing = listed.iter().filter(|name| !told.iter().any(|told| told == *name));
    let stale = told.iter().filter(|told| !listed.contains(&told.as_str()));
    let missing = missing.map(|name| format!("README.md does not say that `{name}` is missing"));
    let stale = stale
        .map(|name| format!("README.md says that `{name}` is missing, but the agent has it or no group can need it"));
    tree::no_complaints(missing.chain(stale).collect())
}

#[test]
fn agent_lists_only_abilities_that_groups_can_need() {
    for name in BUILT {
        assert!(ABILITIES.iter().any(|ability| ability.name == *name), "{name}");
    }
}
