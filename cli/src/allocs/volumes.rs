//! Volumes that the tasks of an allocation mount, as `alloc status` prints them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::{Client, escape, text};
use crate::jobs::lists::items;
use crate::layout::list;
use crate::outln;
use crate::storage::mount_options;

/// CSI volumes by their ids.
pub(super) type Volumes = BTreeMap<String, Value>;

/// Requests for volumes of the allocation's group, by name.
fn requests(alloc: &Value) -> &Value {
    let groups = items(&alloc["Job"]["TaskGroups"]);
    groups.iter().find(|group| group["Name"] == alloc["TaskGroup"]).map_or(&Value::Null, |group| &group["Volumes"])
}

/// Id of the volume that a request is for. With `per_alloc` the allocation's index, `[0]`, is part of it.
fn id_of(alloc: &Value, request: &Value) -> String {
    let name = text(&alloc["Name"]);
    let index = name.rfind('[').map_or("", |at| &name[at..]);
    let index = if request["PerAlloc"] == true { index } else { "" };
    format!("{}{index}", text(&request["Source"]))
}

/// The CSI volumes that the allocation asks for. One that cannot be read is left out.
pub(super) async fn csi(client: &Client, alloc: &Value) -> Volumes {
    let mut found = Volumes::new();
    for (_, request) in requests(alloc).as_object().into_iter().flatten() {
        if text(&request["Type"]) == "csi" {
            let id = id_of(alloc, request);
            if let Ok(volume) = client.get(&format!("/v1/volume/csi/{}", escape(&id))).await {
                found.insert(id, volume);
            }
        }
    }
    found
}

/// Prints the volumes that a task mounts. With `csi` those of CSI are described.
pub(super) fn print(alloc: &Value, task: &Value, csi: Option<&Volumes>) {
    for (kind, title) in [("host", "Host Volumes"), ("csi", "CSI Volumes")] {
        let mounts = mounts(alloc, task, kind);
        if mounts.is_empty() {
            continue;
        }
        match csi.filter(|_| kind == "csi") {
            Some(known) => outln!("\n{title}:\n{}", described(alloc, &mounts, known)),
            None => {
                let row = |mount: &Mount<'_>| vec![mount.name.to_owned(), mount.read_only.to_string()];
                outln!("\n{title}:\n{}", list(&["ID", "Read Only"], &mounts.iter().map(row).collect::<Vec<_>>()));
            }
        }
    }
}

/// A volume in a task.
struct Mount<'v> {
    name: &'v str,
    request: &'v Value,
    read_only: bool,
}

fn mounts<'v>(alloc: &'v Value, task: &Value, kind: &str) -> Vec<Mount<'v>> {
    let requests = requests(alloc);
    let mounted = items(&task["VolumeMounts"]).iter().map(|mount| {
        let request = &requests[text(&mount["Volume"])];
        let read_only = request["ReadOnly"] == true || mount["ReadOnly"] == true;
        Mount { name: text(&request["Name"]), request, read_only }
    });
    mounted.filter(|mount| text(&mount.request["Type"]) == kind).collect()
}

fn described(alloc: &Value, mounts: &[Mount<'_>], known: &Volumes) -> String {
    let row = |mount: &Mount<'_>| {
        let id = id_of(alloc, mount.request);
        let volume = known.get(&id).unwrap_or(&Value::Null);
        let word = |key: &str| text(&volume[key]).to_owned();
        let schedulable = volume["Schedulable"].as_bool().map_or_else(String::new, |is| is.to_string());
        let own = &mount.request["MountOptions"];
        let options = mount_options(if own.is_null() { &volume["MountOptions"] } else { own });
        let (plugin, provider) = (word("PluginID"), word("Provider"));
        vec![mount.name.to_owned(), id, plugin, provider, schedulable, mount.read_only.to_string(), options]
    };
    let headings = ["Name", "ID", "Plugin", "Provider", "Schedulable", "Read Only", "Mount Options"];
    list(&headings, &mounts.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn alloc() -> Value {
        json!({
            "Name": "web.g[2]",
            "TaskGroup": "g",
            "Job": { "TaskGroups": [{ "Name": "g", "Volumes": {
                "data": { "Name": "data", "Type": "csi", "Source": "vol", "PerAlloc": true, "ReadOnly": false },
                "logs": { "Name": "logs", "Type": "csi", "Source": "logs", "ReadOnly": true,
                          "MountOptions": { "FSType": "ext4", "MountFlags": ["noatime"] } },
                "host": { "Name": "host", "Type": "host", "Source": "scratch", "ReadOnly": false },
            } }] },
        })
    }

    #[test]
    fn csi_volumes_are_described_with_the_index_of_the_alloc_in_their_ids() {
        let task = json!({ "VolumeMounts": [{ "Volume": "data" }, { "Volume": "logs" }, { "Volume": "host" }] });
        let known = Volumes::from([(
            "vol[2]".to_owned(),
            json!({ "PluginID": "nfs", "Provider": "org.nfs", "Schedulable": true, "MountOptions": null }),
        )]);
        let alloc = alloc();
        expect![[r#"
            Name  ID      Plugin  Provider  Schedulable  Read Only  Mount Options
            data  vol[2]  nfs     org.nfs   true         false      <none>
            logs  logs    <none>  <none>    <none>       true       fs_type: ext4 flags: noatime"#]]
        .assert_eq(&described(&alloc, &mounts(&alloc, &task, "csi"), &known));
        assert_eq!(mounts(&alloc, &task, "host").len(), 1);
    }
}
