//! `songline acl ..`, as users type it against an agent with ACLs. Not here: the routes behind it.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use expect_test::{Expect, expect};
use regex::Regex;

use crate::agent::{Agent, Setup};

/// Runs commands one after another with a token, and compares their output. Ids, times and indexes are not compared.
fn check(agent: &Agent, token: &str, lines: &[&[&str]], expected: Expect) -> Result<()> {
    let ids = Regex::new("[0-9a-f]{8}-[0-9a-f-]{27}")?;
    let times = Regex::new(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")?;
    let indexes = Regex::new(r"(Index +=) \d+|(reset index:) \d+")?;
    let mut out = String::new();
    for words in lines {
        let done = songline(agent, token, words)?;
        let done = ids.replace_all(&done, "<id>");
        let done = times.replace_all(&done, "<time>");
        let done = indexes.replace_all(&done, "$1$2 <n>");
        out.push_str(&format!("$ {}\n{done}", words.join(" ")));
    }
    expected.assert_eq(&out);
    Ok(())
}

fn songline(agent: &Agent, token: &str, words: &[&str]) -> Result<String> {
    let done = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(words)
        .env("NOMAD_ADDR", format!("http://{}", agent.http))
        .env("NOMAD_TOKEN", token)
        .output()
        .context("running the command line")?;
    Ok(String::from_utf8(done.stdout)? + &String::from_utf8(done.stderr)?)
}

#[test]
fn tokens_policies_and_roles_are_made_on_the_command_line() -> Result<()> {
    let agent = Agent::start(&Setup { acl: true, ..Setup::dev() })?;
    let folder = tempfile::tempdir()?;
    let rules = folder.path().join("readers.hcl");
    std::fs::write(&rules, "node { policy = \"read\" }\n")?;
    let rules = rules.to_str().context("the path is text")?;

    check(
        &agent,
        "",
        &[&["node", "status"], &["acl", "token", "list"]],
        expect![[r#"
            $ node status
            Error querying node status: Unexpected response code: 403 (Permission denied)
            $ acl token list
            Error listing ACL tokens: Unexpected response code: 403 (Permission denied)
        "#]],
    )?;
    let made = songline(&agent, "", &["acl", "bootstrap", "-json"])?;
    let made: serde_json::Value = serde_json::from_str(&made)?;
    let all = made["SecretID"].as_str().context("the token has a secret")?;
    let written = songline(&agent, all, &["acl", "policy", "apply", "-description", "May look", "readers", rules])?;
    ensure!(written == "Successfully wrote \"readers\" ACL policy!\n", "{written}");
    check(
        &agent,
        all,
        &[
            &["acl", "bootstrap"],
            &["acl", "policy", "list"],
            &["acl", "policy", "info", "readers"],
            &["acl", "role", "create", "-name", "ops", "-description", "Crew", "-policy", "readers"],
            &["acl", "role", "list"],
            &["acl", "token", "create", "-name", "eve", "-role-name", "ops", "-ttl", "1h"],
            &["acl", "token", "list"],
            &["acl", "token", "self"],
            &["acl", "policy", "delete", "readers"],
            &["acl", "policy", "info", "readers"],
            &["acl", "policy", "info", "a/b"],
        ],
        expect![[r#"
            $ acl bootstrap
            Error bootstrapping: Unexpected response code: 400 (ACL bootstrap already done (reset index: <n>))
            $ acl policy list
            Name     Description
            readers  May look
            $ acl policy info readers
            Name        = readers
            Description = May look
            CreateIndex = <n>
            ModifyIndex = <n>

            Rules

            node { policy = "read" }
            $ acl role create -name ops -description Crew -policy readers
            ID           = <id>
            Name         = ops
            Description  = Crew
            Policies     = readers
            Create Index = <n>
            Modify Index = <n>
            $ acl role list
            ID                                    Name  Description  Policies
            <id>  ops   Crew         readers
            $ acl token create -name eve -role-name ops -ttl 1h
            Accessor ID  = <id>
            Secret ID    = <id>
            Name         = eve
            Type         = client
            Global       = false
            Create Time  = <time>
            Expiry Time  = <time>
            Create Index = <n>
            Modify Index = <n>
            Policies     = []

            Roles
            ID                                    Name
            <id>  ops
            $ acl token list
            Name             Type        Global  Accessor ID                           Expired
            Bootstrap Token  management  true    <id>  false
            eve              client      false   <id>  false
            $ acl token self
            Accessor ID  = <id>
            Secret ID    = <id>
            Name         = Bootstrap Token
            Type         = management
            Global       = true
            Create Time  = <time>
            Expiry Time  = <none>
            Create Index = <n>
            Modify Index = <n>
            Policies     = n/a
            Roles        = n/a
            $ acl policy delete readers
            Successfully deleted readers policy!
            $ acl policy info readers
            Error fetching info on ACL policy: Unexpected response code: 404 (ACL policy not found)
            $ acl policy info a/b
            Error fetching info on ACL policy: Unexpected response code: 404 (ACL policy not found)
        "#]],
    )
}

#[test]
fn second_acl_bootstrap_needs_a_reset_file_on_the_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let agent = Agent::start(&Setup { acl: true, data_dir: Some(folder.path().to_owned()), ..Setup::dev() })?;
    let bootstrap = || -> Result<serde_json::Value> {
        let told = songline(&agent, "", &["acl", "bootstrap", "-json"])?;
        serde_json::from_str(&told).with_context(|| told.clone())
    };
    let first = bootstrap()?;
    let refused = songline(&agent, "", &["acl", "bootstrap"])?;
    let index = first["CreateIndex"].to_string();
    ensure!(refused.contains(&format!("ACL bootstrap already done (reset index: {index})")), "{refused}");
    std::fs::write(folder.path().join("server/acl-bootstrap-reset"), format!("{index}\n"))?;
    let second = bootstrap()?;
    ensure!(second["AccessorID"] != first["AccessorID"], "it is another token");
    let once = songline(&agent, "", &["acl", "bootstrap"])?;
    ensure!(once.contains("Invalid bootstrap reset index"), "{once}");
    Ok(())
}
