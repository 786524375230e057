//! `java`: a Java program in the isolation of `exec`, run by the host's virtual machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use songline_model::{Blob, Str};

use super::isolated::{Isolated, Program};
use super::programs::{self, Version};
use super::{Boxed, Driver, Fingerprint, Process, RunId, TaskConfig, text, texts};
use crate::config::ClientConfig;
use crate::core::StartFailure;

/// Options of a task.
const OPTIONS: &[&str] =
    &["class", "class_path", "jar_path", "args", "jvm_options", "pid_mode", "ipc_mode", "cap_add", "cap_drop"];

/// The driver.
pub struct Java {
    isolated: Isolated,
    version: Version,
}

impl Java {
    /// Finds the machine's cgroups, and reads the options of `plugin "java"`.
    pub fn new(config: &ClientConfig) -> Self {
        Self { isolated: Isolated::new(config, "java"), version: Version::new("java", "-version") }
    }

    /// The virtual machine with its arguments. An error is the reason why the task cannot be started.
    fn program(&self, config: &Map<String, Value>) -> Result<Program, String> {
        let args = arguments(config)?;
        let found = programs::on_path("java").ok_or("java is not on the agent's PATH")?;
        let file = programs::real(&found).map_err(|error| format!("{}: {error}", found.display()))?;
        let home = home(&file);
        Ok(match self.isolated.shown(&file) {
            Some(command) => Program { command, args, home: None },
            None => Program { home: Some(home), command: file, args },
        })
    }
}

impl Driver for Java {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        Box::pin(async move {
            let mut print = self.isolated.print();
            if !print.detected {
                return print;
            }
            match self.version.text().await {
                Err(why) => Fingerprint::undetected(&why),
                Ok(said) => {
                    print.attributes.extend(attributes(&said));
                    print
                }
            }
        })
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        super::raw_exec::known_options(config, OPTIONS, &[])
    }

    fn has_own_root(&self) -> bool {
        true
    }

    fn makes_devices(&self) -> bool {
        true
    }

    fn default_user(&self) -> &'static str {
        "nobody"
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move {
            let fail = |error: String| StartFailure { error: error.into(), recoverable: true };
            let program = self.program(&task.config).map_err(fail)?;
            self.isolated.start(task, program).await
        })
    }

    fn recover(&self, run: RunId, _handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async move { self.isolated.recover(&run).await })
    }

    fn destroy(&self, run: RunId) -> Boxed<'_, ()> {
        Box::pin(async move { self.isolated.destroy(&run).await })
    }
}

/// Arguments of the virtual machine. A class is run from the class path, to which the Jar belongs; without a class the
/// Jar itself says what to run.
fn arguments(config: &Map<String, Value>) -> Result<Vec<String>, String> {
    let [class, class_path, jar] = ["class", "class_path", "jar_path"].map(|key| text(config, key));
    let mut args = texts(config, "jvm_options");
    let paths: Vec<&str> = [class_path.as_str(), jar.as_str()].into_iter().filter(|path| !path.is_empty()).collect();
    match (class.is_empty(), jar.is_empty()) {
        (true, true) => return Err("jar_path or class must be specified".to_owned()),
        // The virtual machine ignores a class path beside `-jar`.
        (true, false) => args.extend(["-jar".to_owned(), jar]),
        (false, _) => {
            if !paths.is_empty() {
                args.extend(["-cp".to_owned(), paths.join(":")]);
            }
            args.push(class);
        }
    }
    args.extend(texts(config, "args"));
    Ok(args)
}

/// Directory of a virtual machine whose program is `file`. It is never the root: then it is the file alone.
fn home(file: &Path) -> PathBuf {
    let dir = file.parent().map(|dir| if dir.ends_with("bin") { dir.parent().unwrap_or(dir) } else { dir });
    dir.filter(|dir| dir.parent().is_some()).unwrap_or(file).to_owned()
}

/// Attributes of the node from the lines in which a virtual machine tells its version.
fn attributes(said: &str) -> BTreeMap<Str, Str> {
    // Other lines may come before, which name options of the environment.
    let mut lines = said.lines().map(str::trim).skip_while(|line| !line.contains("version \""));
    let version = lines.next().and_then(|line| line.split('"').nth(1));
    let told = [("version", version), ("runtime", lines.next()), ("vm", lines.next())];
    told.into_iter().filter_map(|(key, value)| Some((format!("driver.java.{key}").into(), value?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn task_config_becomes_the_arguments_of_the_virtual_machine() {
        let configs = [
            json!({"jar_path": "local/a.jar"}),
            json!({"jar_path": "local/a.jar", "jvm_options": ["-Xmx64m", "-ea"], "args": ["-x", "y z"]}),
            json!({"class": "Hello", "class_path": "/local"}),
            json!({"class": "Hello", "class_path": "/local:/alloc/lib.jar", "jvm_options": ["-ea"], "args": ["1"]}),
            json!({"class": "Hello"}),
            json!({"class": "Hello", "jar_path": "local/a.jar"}),
            json!({"class": "Hello", "jar_path": "local/a.jar", "class_path": "/local"}),
            json!({"jar_path": "local/a.jar", "class_path": "/local"}),
            json!({"args": ["x"]}),
            json!({"class": "", "jar_path": ""}),
        ];
        let story = configs.map(|config| match arguments(config.as_object().expect("a block")) {
            Ok(args) => format!("{args:?}"),
            Err(error) => error,
        });
        expect![[r#"
            ["-jar", "local/a.jar"]
            ["-Xmx64m", "-ea", "-jar", "local/a.jar", "-x", "y z"]
            ["-cp", "/local", "Hello"]
            ["-ea", "-cp", "/local:/alloc/lib.jar", "Hello", "1"]
            ["Hello"]
            ["-cp", "local/a.jar", "Hello"]
            ["-cp", "/local:local/a.jar", "Hello"]
            ["-jar", "local/a.jar"]
            jar_path or class must be specified
            jar_path or class must be specified"#]]
        .assert_eq(&story.join("\n"));
    }

    #[test]
    fn options_of_a_task_are_checked() {
        let java = Java::new(&ClientConfig::default());
        let configs = [
            json!({}),
            json!({"jar": "x.jar"}),
            json!({"jar_path": "x.jar", "jvm_options": "-ea"}),
            json!({"jar_path": "x.jar", "args": ["x"], "pid_mode": "host", "cap_drop": ["all"]}),
        ];
        let titles = configs.map(|config| {
            let refused = java.validate(config.as_object().expect("a block")).err().unwrap_or_default();
            refused.split(':').next().unwrap_or_default().to_owned()
        });
        assert_eq!(titles, ["Root value must be object", "Invalid label", "Incorrect attribute value type", ""]);
    }

    #[test]
    fn version_text_becomes_attributes() {
        let texts = [
            "openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\nOpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode)\n",
            "Picked up JAVA_TOOL_OPTIONS: -ea\njava version \"1.6.0_65\"\nJava(TM) SE Runtime Environment (build 1.6.0_65-b14)\nJava HotSpot(TM) VM\n",
            "nothing of use",
        ];
        let story = texts.map(|said| format!("{:?}", attributes(said).values().collect::<Vec<_>>()));
        expect![[r#"
            ["OpenJDK Runtime Environment (build 17.0.15+6)", "17.0.15", "OpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode)"]
            ["Java(TM) SE Runtime Environment (build 1.6.0_65-b14)", "1.6.0_65", "Java HotSpot(TM) VM"]
            []"#]]
        .assert_eq(&story.join("\n"));
    }

    #[test]
    fn home_of_a_virtual_machine_is_above_its_programs() {
        let homes = ["/opt/jdk-21/bin/java", "/opt/java", "/java", "/bin/java"].map(|file| home(Path::new(file)));
        assert_eq!(homes, ["/opt/jdk-21", "/opt", "/java", "/bin/java"].map(PathBuf::from));
    }
}
