//! Plugins that are shell scripts: what they are told, in which order, and what becomes of their answers.

use std::os::unix::fs::PermissionsExt;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// Writes what it is told to a file, and answers with the variable `RESULT` of its configuration.
const PLUGIN: &str = r#"#!/bin/sh
config=$(cat)
echo "$CNI_COMMAND ${0##*/} $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS $config" >> "$(dirname "$0")/told"
case "$config" in
    *'"fails":"'$CNI_COMMAND'"'*) echo '{"code": 7, "msg": "no room", "details": "at all"}'; exit 1 ;;
    *'"dies":true'*) echo "out of luck" >&2; exit 2 ;;
    *'"mumbles":true'*) echo "hello"; exit 0 ;;
esac
[ "$CNI_COMMAND" = DEL ] || echo '{"cniVersion": "0.4.0", "made": "'${0##*/}'"}'
"#;

struct Plugins {
    dir: tempfile::TempDir,
    settings: NetworkSettings,
}

impl Plugins {
    fn new(names: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in names {
            let path = dir.path().join(name);
            std::fs::write(&path, PLUGIN).expect("writes");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its own file");
        }
        let settings = NetworkSettings { cni_path: dir.path().display().to_string(), ..NetworkSettings::default() };
        Self { dir, settings }
    }

    /// Adds and deletes; returns the outcomes, and what the plugins were told.
    async fn run(&self, plugins: Value) -> String {
        let list = json!({ "name": "lan", "cniVersion": "0.4.0", "plugins": plugins }).to_string();
        let attachment = Attachment {
            container: "alloc".to_owned(),
            namespace: "/netns/alloc".into(),
            interface: "eth0".to_owned(),
            args: "K=V".to_owned(),
            capabilities: Map::from_iter([("portMappings".to_owned(), json!([1]))]),
            list: NetworkList::parse(&list).expect("a list"),
        };
        let log = self.dir.path().join("log");
        let log = File::options().create(true).read(true).append(true).open(log).expect("opens");
        let mut last = None;
        let noted = |result: &Value| {
            last = Some(result.clone());
            Ok(())
        };
        let added = attachment.add(&self.settings, &log, noted).await;
        let added = added.map_or_else(|error| error, |result| result.to_string());
        let deleted = attachment.del(&self.settings, &log, last.as_ref()).await;
        let deleted = deleted.map_or_else(|error| error, |()| "done".to_owned());
        let told = std::fs::read_to_string(self.dir.path().join("told")).unwrap_or_default();
        let all = format!("{told}added: {added}\ndeleted: {deleted}\n");
        all.replace(&self.settings.cni_path, "/cni")
    }
}

async fn check(names: &[&str], plugins: Value, expected: Expect) {
    expected.assert_eq(&Plugins::new(names).run(plugins).await);
}

#[tokio::test]
async fn results_are_chained_and_plugins_are_undone_in_reverse() {
    check(
        &["first", "second"],
        json!([{ "type": "first", "x": 1 }, { "type": "second", "capabilities": { "portMappings": true } }]),
        expect![[r#"
            ADD first alloc /netns/alloc eth0 K=V {"type":"first","x":1,"name":"lan","cniVersion":"0.4.0"}
            ADD second alloc /netns/alloc eth0 K=V {"type":"second","capabilities":{"portMappings":true},"name":"lan","cniVersion":"0.4.0","runtimeConfig":{"portMappings":[1]},"prevResult":{"cniVersion":"0.4.0","made":"first"}}
            DEL second alloc /netns/alloc eth0 K=V {"type":"second","capabilities":{"portMappings":true},"name":"lan","cniVersion":"0.4.0","runtimeConfig":{"portMappings":[1]},"prevResult":{"cniVersion":"0.4.0","made":"second"}}
            DEL first alloc /netns/alloc eth0 K=V {"type":"first","x":1,"name":"lan","cniVersion":"0.4.0","prevResult":{"cniVersion":"0.4.0","made":"second"}}
            added: {"cniVersion":"0.4.0","made":"second"}
            deleted: done
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_plugin_that_fails_ends_the_addition_but_not_the_removal() {
    check(
        &["first", "second"],
        json!([{ "type": "first", "fails": "DEL" }, { "type": "second", "fails": "ADD" }, { "type": "third" }]),
        expect![[r#"
            ADD first alloc /netns/alloc eth0 K=V {"type":"first","fails":"DEL","name":"lan","cniVersion":"0.4.0"}
            ADD second alloc /netns/alloc eth0 K=V {"type":"second","fails":"ADD","name":"lan","cniVersion":"0.4.0","prevResult":{"cniVersion":"0.4.0","made":"first"}}
            DEL second alloc /netns/alloc eth0 K=V {"type":"second","fails":"ADD","name":"lan","cniVersion":"0.4.0","prevResult":{"cniVersion":"0.4.0","made":"first"}}
            DEL first alloc /netns/alloc eth0 K=V {"type":"first","fails":"DEL","name":"lan","cniVersion":"0.4.0","prevResult":{"cniVersion":"0.4.0","made":"first"}}
            added: plugin type="second" failed (add): no room; at all
            deleted: plugin type="third" failed (del): failed to find plugin "third" in path [/cni]; plugin type="first" failed (del): no room; at all
        "#]],
    )
    .await;
}

#[tokio::test]
async fn plugins_that_answer_nothing_readable_fail_with_what_they_said() {
    let ends = |text: String| text.lines().rev().take(2).map(str::to_owned).collect::<Vec<_>>();
    let died = Plugins::new(&["one"]).run(json!([{ "type": "one", "dies": true }])).await;
    assert_eq!(
        ends(died),
        [
            "deleted: plugin type=\"one\" failed (del): out of luck",
            "added: plugin type=\"one\" failed (add): out of luck"
        ]
    );
    let mumbled = Plugins::new(&["one"]).run(json!([{ "type": "one", "mumbles": true }])).await;
    assert_eq!(ends(mumbled), ["deleted: done", "added: plugin type=\"one\" failed (add): the answer is no result"]);
}
