//! Jobs and variables on the command line, on a running agent, where the recorded sessions do not go: regions of files,
//! several jobs at once, questions without an answer, texts that need escapes.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::story::Story;

/// Output and exit code of a command in a folder. Standard error follows standard output.
fn songline(story: &Story, folder: &Path, words: &[&str]) -> Result<(String, i32)> {
    let done = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(words)
        .current_dir(folder)
        .env("NOMAD_ADDR", format!("http://{}", story.http()))
        .env("NOMAD_CLI_NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running songline {words:?}"))?;
    let code = done.status.code().context("it ends by itself")?;
    Ok((String::from_utf8(done.stdout)? + &String::from_utf8(done.stderr)?, code))
}

/// A job file of one allocation, with more members of the job.
fn file(id: &str, more: &str) -> String {
    format!(
        "job \"{id}\" {{\n{more}\n  group \"g\" {{\n    task \"t\" {{\n      driver = \"mock_driver\"\n      \
         config {{\n        run_for = \"1h\"\n      }}\n    }}\n  }}\n}}\n"
    )
}

#[test]
fn region_of_the_job_file_goes_before_the_flag() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("global.nomad"), file("in-global", "  region = \"global\""))?;
    std::fs::write(folder.path().join("any.nomad"), file("anywhere", ""))?;

    let (said, code) =
        songline(&story, folder.path(), &["job", "run", "-detach", "-region", "nowhere", "global.nomad"])?;
    ensure!(code == 0 && said.starts_with("Job registration successful"), "{said}");
    let (said, code) = songline(&story, folder.path(), &["job", "validate", "-region", "nowhere", "global.nomad"])?;
    ensure!(code == 0 && said == "Job validation successful\n", "{said}");
    let (said, code) = songline(&story, folder.path(), &["job", "plan", "-region", "nowhere", "global.nomad"])?;
    ensure!(code != 255 && said.contains("Job Modify Index: "), "{said}");
    let (said, code) = songline(&story, folder.path(), &["job", "run", "-detach", "-region", "nowhere", "any.nomad"])?;
    ensure!(code == 1 && said.contains("No path to region"), "{said}");

    let flags = ["-policy-override", "-consul-token=a", "-consul-namespace=b", "-vault-token=c", "-vault-namespace=d"];
    let (said, _) = songline(&story, folder.path(), &[&["job", "plan"], &flags[..], &["any.nomad"]].concat())?;
    ensure!(!said.contains("flag provided but not defined"), "{said}");
    Ok(())
}

#[test]
fn several_jobs_are_stopped_before_the_first_is_waited_for() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    for id in ["one", "two", "three"] {
        std::fs::write(folder.path().join("job.nomad"), file(id, ""))?;
        let (said, code) = songline(&story, folder.path(), &["job", "run", "-detach", "job.nomad"])?;
        ensure!(code == 0, "{said}");
    }
    let (said, code) = songline(&story, folder.path(), &["job", "stop", "one", "none-such", "two"])?;
    let (begun, ended) = (said.rfind("Monitoring evaluation"), said.find("finished with status"));
    ensure!(said.matches("Monitoring evaluation").count() == 2 && begun < ended, "{said}");
    ensure!(said.matches("finished with status \"complete\"").count() == 2, "{said}");
    ensure!(code == 1 && said.contains("No job(s) with prefix or ID \"none-such\" found"), "{code}: {said}");
    for id in ["one", "two"] {
        ensure!(story.get(&format!("/v1/job/{id}"))?["Stop"] == true, "{id} runs");
    }
    let (said, code) = songline(&story, folder.path(), &["job", "stop", "-detach", "three"])?;
    ensure!(code == 0 && said.trim_end().len() == 36, "{said}");
    Ok(())
}

#[test]
fn revert_of_a_job_that_was_named_by_a_prefix_asks() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    for priority in [50, 60] {
        std::fs::write(folder.path().join("job.nomad"), file("checkout", &format!("  priority = {priority}")))?;
        let (said, code) = songline(&story, folder.path(), &["job", "run", "-detach", "job.nomad"])?;
        ensure!(code == 0, "{said}");
    }
    let (said, code) = songline(&story, folder.path(), &["job", "revert", "-detach", "check", "0"])?;
    let asked = "Are you sure you want to revert job \"checkout\" to version 0? [y/N] Cancelling job revert\n";
    ensure!(code == 0 && said == asked, "{said}");
    ensure!(story.get("/v1/job/checkout")?["Priority"] == 60, "it was reverted");
    let (said, code) = songline(&story, folder.path(), &["job", "revert", "-detach", "-yes", "check", "0"])?;
    ensure!(code == 0 && said.starts_with("Evaluation ID: "), "{said}");
    ensure!(story.get("/v1/job/checkout")?["Priority"] == 50, "it was not reverted");
    Ok(())
}

#[test]
fn hcl_of_a_variable_is_read_back_and_a_conflict_names_both_indexes() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    let item = "k=\u{1b}[0m \"${\"";
    let (hcl, code) = songline(&story, folder.path(), &["var", "put", "-out", "hcl", "a/b", item])?;
    ensure!(code == 0 && hcl.contains(r#"k = "\u001b[0m \"\u0024{\"""#), "{hcl}");
    std::fs::write(folder.path().join("v.nv.hcl"), &hcl)?;
    let (said, code) = songline(&story, folder.path(), &["var", "put", "-force", "@v.nv.hcl"])?;
    ensure!(code == 0, "{said}");
    let (value, _) = songline(&story, folder.path(), &["var", "get", "-item", "k", "a/b"])?;
    ensure!(format!("k={}", value.trim_end()) == item, "{value}");

    let index = story.get("/v1/var/a/b")?["ModifyIndex"].to_string();
    let writes: [(&[&str], u64); 3] = [
        (&["var", "put", "a/b", "k=v"], 0),
        (&["var", "put", "-check-index", "1", "a/b", "k=v"], 1),
        (&["var", "purge", "-check-index", "1", "a/b"], 1),
    ];
    for (words, sent) in writes {
        let (said, code) = songline(&story, folder.path(), words)?;
        let both = format!("check-index ({sent}) does not match the server-side index {index} of");
        ensure!(code == 1 && said.contains(&both), "{words:?}: {said}");
    }
    Ok(())
}
