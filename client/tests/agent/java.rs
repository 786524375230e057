//! `java` with a real virtual machine: a Jar of one small class, which the test writes byte by byte. Needs root, cgroups
//! and `java`; elsewhere the test passes with a message, or fails where the environment variable `CI` is set.

use std::io::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use songline_model::{AllocClientStatus, AllocatedMemoryResources, Allocation, JobType, Task};
use songline_rpc::Origin;
use zip::write::SimpleFileOptions;

use crate::artifacts::{serve, wants};
use crate::attacks::can_isolate;
use crate::escapes::may_run;
use crate::fake::{Stage, alloc, messages, task, until};

/// Constants of the class, which refer to each other by their numbers from 1 on.
enum Constant {
    Text(&'static str),
    Class(u16),
    Name(u16, u16),
    Field(u16, u16),
    Method(u16, u16),
    String(u16),
}

/// A class `Hello` whose `main` prints its first argument and the name of the user.
fn class() -> Vec<u8> {
    use Constant::{Class, Field, Method, Name, String, Text};
    let constants = [
        Text("Hello"),
        Class(1),
        Text("java/lang/Object"),
        Class(3),
        Text("main"),
        Text("([Ljava/lang/String;)V"),
        Text("Code"),
        Text("java/lang/System"),
        Class(8),
        Text("out"),
        Text("Ljava/io/PrintStream;"),
        Name(10, 11),
        Field(9, 12),
        Text("java/io/PrintStream"),
        Class(14),
        Text("println"),
        Text("(Ljava/lang/String;)V"),
        Name(16, 17),
        Method(15, 18),
        Text("getProperty"),
        Text("(Ljava/lang/String;)Ljava/lang/String;"),
        Name(20, 21),
        Method(9, 22),
        Text("user.name"),
        String(24),
    ];
    // System.out.println(args[0]); System.out.println(System.getProperty("user.name"));
    let code = [0xb2, 0, 13, 0x2a, 0x03, 0x32, 0xb6, 0, 19, 0xb2, 0, 13, 0x12, 25, 0xb8, 0, 23, 0xb6, 0, 19, 0xb1];
    let mut class = vec![0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 49];
    let put = |class: &mut Vec<u8>, numbers: &[u16]| class.extend(numbers.iter().flat_map(|n| n.to_be_bytes()));
    put(&mut class, &[constants.len() as u16 + 1]);
    for constant in &constants {
        let (tag, numbers) = match constant {
            Text(text) => (1, vec![text.len() as u16]),
            Class(name) => (7, vec![*name]),
            String(text) => (8, vec![*text]),
            Field(class, name) => (9, vec![*class, *name]),
            Method(class, name) => (10, vec![*class, *name]),
            Name(name, kind) => (12, vec![*name, *kind]),
        };
        class.push(tag);
        put(&mut class, &numbers);
        if let Text(text) = constant {
            class.extend(text.as_bytes());
        }
    }
    // A public class with its parent, without interfaces and fields, and with one public static method, whose code
    // needs three places on the stack and one local variable.
    let (length, of_attribute) = (code.len() as u16, code.len() as u16 + 12);
    put(&mut class, &[0x21, 2, 4, 0, 0, 1, 0x9, 5, 6, 1, 7, 0, of_attribute, 3, 1, 0, length]);
    class.extend(code);
    put(&mut class, &[0, 0, 0]);
    class
}

/// A Jar with the class, whose manifest names it if `is_main`.
fn jar(is_main: bool) -> Vec<u8> {
    let mut jar = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let manifest: &[u8] =
        if is_main { b"Manifest-Version: 1.0\nMain-Class: Hello\n" } else { b"Manifest-Version: 1.0\n" };
    for (name, content) in [("META-INF/MANIFEST.MF", manifest), ("Hello.class", &class())] {
        jar.start_file(name, SimpleFileOptions::default()).expect("starts");
        jar.write_all(content).expect("packs");
    }
    jar.finish().expect("packs").into_inner()
}

/// A task with an artifact `hello.jar`.
fn program(jar: Vec<u8>, config: Value) -> Allocation {
    let task: Task = wants(serve(jar, || {}) + "/hello.jar", "local/", task("java", config));
    let mut alloc = alloc(JobType::Batch, vec![task]);
    let resources = Arc::make_mut(alloc.allocated_resources.as_mut().expect("has some"));
    for task in resources.tasks.iter_mut().flat_map(|tasks| tasks.values_mut()) {
        task.memory = AllocatedMemoryResources { memory_mb: 256, memory_max_mb: 0 };
    }
    alloc
}

async fn is_there(stage: &Stage) -> bool {
    let node = until("the node", || stage.servers.node()).await;
    let driver = node.drivers.as_ref().and_then(|drivers| drivers.get("java").cloned()).expect("is listed");
    assert_eq!(driver.detected, node.attribute("driver.java").is_some(), "{driver:?}");
    assert_eq!(driver.detected, node.attribute("driver.java.version").is_some(), "{driver:?}");
    may_run("java", driver.detected && driver.healthy)
}

#[tokio::test(flavor = "multi_thread")]
async fn java_program_runs_from_its_jar_isolated_as_nobody() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    if !is_there(&stage).await {
        return;
    }
    let options = json!(["-Xmx16m", "-XX:+UseSerialGC"]);
    let by_manifest =
        json!({"jar_path": "local/hello.jar", "jvm_options": options, "args": ["hello ${NOMAD_TASK_NAME}"]});
    let by_class =
        json!({"class": "Hello", "class_path": "/local/hello.jar", "jvm_options": options, "args": ["hello web"]});
    for (is_main, config) in [(true, by_manifest), (false, by_class)] {
        let id = stage.servers.place(program(jar(is_main), config));
        let update = stage.until("the end", id, |update| update.client_status.is_terminal()).await;
        let errors = stage.logs(id, "stderr", 0, Origin::Start).await;
        assert_eq!(update.client_status, AllocClientStatus::Complete, "{:?} {errors:?}", messages(&update));
        assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.unwrap(), "hello web\nnobody\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn java_task_without_jar_and_class_fails() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let id = stage.run(task("java", json!({ "args": ["x"] })));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert!(messages(&update).contains(&"jar_path or class must be specified".to_owned()), "{:?}", messages(&update));
}
