//! Stories of templates of tasks: a worker between servers that know variables and a task that is told things.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use expect_test::{Expect, expect};
use parking_lot::Mutex;
use songline_model::{AllocId, ChangeScript, Dur, Secret, Template, WaitConfig};
use songline_rpc::world::Machine;
use tokio::sync::{Notify, watch};

use super::worker::Task;
use super::{
    Dirs, Hooks, ReadAnswer, Rendering, ServerReads, TemplateSettings, env_file, plan, render::redacted, rendered,
    start,
};
use crate::allocdir::AllocDir;
use crate::clock::Clock;
use crate::core::Input;
use crate::driver::Boxed;
use crate::env::TaskEnv;

/// Servers that know variables by path, and block until one changes.
#[derive(Debug, Default)]
struct Fake {
    variables: Mutex<(u64, BTreeMap<String, String>)>,
    changed: Notify,
    asked_with: Mutex<Vec<String>>,
}

impl Fake {
    /// Sets the item `k` of a variable.
    fn put(&self, path: &str, text: &str) {
        let mut variables = self.variables.lock();
        variables.0 += 1;
        variables.1.insert(path.to_owned(), text.to_owned());
        self.changed.notify_waiters();
    }

    fn delete(&self, path: &str) {
        let mut variables = self.variables.lock();
        variables.0 += 1;
        variables.1.remove(path);
        self.changed.notify_waiters();
    }

    fn answer(&self, path: &str) -> ReadAnswer {
        let variables = self.variables.lock();
        let index = variables.0 + 1;
        match variables.1.get(path) {
            Some(text) if text == "denied" => ReadAnswer { status: 403, index, body: b"Permission denied".to_vec() },
            Some(text) => {
                let body = serde_json::json!({ "Path": path, "Namespace": "default", "Items": { "k": text } });
                ReadAnswer { status: 200, index, body: body.to_string().into_bytes() }
            }
            None => ReadAnswer { status: 404, index, body: Vec::new() },
        }
    }
}

impl ServerReads for Fake {
    fn get(&self, path: String, token: Secret) -> Boxed<'_, Result<ReadAnswer, String>> {
        Box::pin(async move {
            self.asked_with.lock().push(token.reveal().to_owned());
            let (name, query) = path.strip_prefix("/v1/var/").unwrap_or_default().split_once('?').unwrap_or_default();
            let after = query.split('&').find_map(|pair| pair.strip_prefix("index=")?.parse::<u64>().ok());
            loop {
                let changed = self.changed.notified();
                let answer = self.answer(name);
                if after.is_none_or(|after| answer.index > after) {
                    return Ok(answer);
                }
                changed.await;
            }
        })
    }
}

/// A task with templates, and what it was told.
struct Story {
    fake: Arc<Fake>,
    dir: AllocDir,
    told: watch::Receiver<Vec<String>>,
    rendering: Rendering,
    _root: tempfile::TempDir,
}

fn template(text: &str, destination: &str) -> Template {
    Template {
        embedded_tmpl: text.into(),
        dest_path: destination.into(),
        perms: "0640".into(),
        wait: Some(WaitConfig { min: Some(Dur::ZERO), max: Some(Dur::ZERO) }),
        ..Template::default()
    }
}

fn shown(input: &Input) -> String {
    match input {
        Input::TaskEvent { event, .. } | Input::TaskFailed { event, .. } => {
            format!("{}: {}", event.kind, event.display_message)
        }
        Input::TemplatesChanged { restart, signals, .. } => format!("changed: restart {restart}, signals {signals:?}"),
        other => format!("{other:?}"),
    }
}

impl Story {
    fn begin(templates: Vec<Template>, variables: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = AllocDir::new(root.path(), &AllocId::from_bytes([7; 16]));
        dir.build().unwrap();
        dir.build_task("web", None).unwrap();
        let fake = Arc::new(Fake::default());
        variables.iter().for_each(|(path, text)| fake.put(path, text));
        let dirs = Dirs { alloc: dir.root().to_owned(), task: "web".into() };
        let task = songline_model::Task { templates: Some(templates), ..songline_model::Task::default() };
        let mut env = TaskEnv::default();
        env.vars.insert("NAME".to_owned(), "web".to_owned());
        let settings = TemplateSettings::default();
        let plans = plan(&task, &dirs, &env, &settings).unwrap();
        let (hearing, told) = watch::channel(Vec::new());
        let hooks = Hooks {
            tell: Box::new(move |input| hearing.send_modify(|told| told.push(shown(&input)))),
            process: Box::new(|| None),
        };
        let about = Task {
            name: "web".into(),
            plans,
            dirs,
            env,
            namespace: "default".to_owned(),
            region: "global".to_owned(),
            token: Secret::new("of the task"),
            consul: None,
            vault: None,
            restored: false,
        };
        let clock = Clock::start(Arc::new(Machine::default()));
        let (rendering, worker) = start(about, settings, Some(Arc::clone(&fake) as Arc<dyn ServerReads>), clock, hooks);
        tokio::spawn(worker);
        Self { fake, dir, told, rendering, _root: root }
    }

    async fn vars(&self) -> Option<BTreeMap<String, String>> {
        rendered(self.rendering.vars()).await
    }

    fn file(&self, path: &str) -> String {
        std::fs::read_to_string(self.dir.task("web").join(path)).unwrap_or_else(|error| error.kind().to_string())
    }

    /// Waits until the task was told so many things, and returns all of them.
    async fn told(&self, count: usize) -> String {
        let mut told = self.told.clone();
        let enough = told.wait_for(|told| told.len() >= count).await.unwrap();
        enough.join("\n")
    }
}

fn check(told: &str, expected: Expect) {
    expected.assert_eq(told);
}

#[tokio::test]
async fn task_starts_when_its_files_are_there_with_mode_and_without_questions() {
    let story = Story::begin(vec![template("{{ env \"NAME\" }}{{ file \"local/none\" | len }}", "local/a")], &[]);
    assert!(story.vars().await.is_none());
    check(
        &story.told(1).await,
        expect![[
            r#"Killing: Template failed: (dynamic): execute: template: :1:19: executing "" at <file "local/none">: error calling file: lstat local/none: no such file or directory"#
        ]],
    );
    let story = Story::begin(vec![template("{{ env \"NAME\" }}\n", "/local/deep/a")], &[]);
    assert_eq!(story.vars().await, Some(BTreeMap::new()));
    assert_eq!(story.file("local/deep/a"), "web\n");
    let made = std::fs::metadata(story.dir.task("web").join("local/deep/a")).unwrap();
    assert_eq!(made.mode() & 0o7777, 0o640);
}

#[tokio::test]
async fn variables_are_read_with_the_identity_of_the_task_and_change_it() {
    let mut signalled = template("{{ with nomadVar \"app\" }}{{ .k }}{{ end }}", "local/b");
    signalled.change_mode = "signal".into();
    signalled.change_signal = "SIGHUP".into();
    let noop = Template { change_mode: "noop".into(), ..template("{{ (nomadVar \"app\").k }}", "secrets/c") };
    let story = Story::begin(vec![signalled, noop], &[("app", "one")]);
    assert_eq!(story.vars().await, Some(BTreeMap::new()));
    assert_eq!((story.file("local/b"), story.file("secrets/c")), ("one".to_owned(), "one".to_owned()));
    story.fake.put("app", "two");
    check(&story.told(1).await, expect![[r#"changed: restart false, signals ["SIGHUP"]"#]]);
    assert_eq!((story.file("local/b"), story.file("secrets/c")), ("two".to_owned(), "two".to_owned()));
    story.fake.delete("app");
    story.fake.put("app", "three");
    story.told(2).await;
    assert_eq!(story.file("local/b"), "three");
    assert!(story.fake.asked_with.lock().iter().all(|token| token == "of the task"));
}

#[tokio::test]
async fn environment_files_set_variables_and_a_restart_outdoes_signals() {
    let env = Template { envvars: true, ..template("A={{ with nomadVar \"app\" }}{{ .k }}{{ end }}", "secrets/env") };
    let signalled = Template {
        change_mode: "signal".into(),
        change_signal: "SIGHUP".into(),
        ..template("{{ with nomadVar \"app\" }}{{ .k }}{{ end }}", "local/b")
    };
    let story = Story::begin(vec![env, signalled], &[("app", "one")]);
    assert_eq!(story.vars().await, Some([("A".to_owned(), "one".to_owned())].into()));
    story.fake.put("app", "two");
    check(&story.told(1).await, expect![[r#"changed: restart true, signals []"#]]);
    assert_eq!(story.vars().await, Some([("A".to_owned(), "two".to_owned())].into()));
}

#[tokio::test]
async fn random_values_stay_when_another_answer_changes_the_file() {
    let text = "{{ sprig_uuidv4 }} {{ with nomadVar \"app\" }}{{ .k }}{{ end }}";
    let templates = vec![template(text, "local/a"), template("{{ sprig_uuidv4 }}", "local/b")];
    let story = Story::begin(templates, &[("app", "one")]);
    assert_eq!(story.vars().await, Some(BTreeMap::new()));
    let (first, other) = (story.file("local/a"), story.file("local/b"));
    let id = first.strip_suffix(" one").unwrap();
    assert_ne!(id, other, "each template has its own");
    story.fake.put("app", "two");
    story.told(1).await;
    assert_eq!((story.file("local/a"), story.file("local/b")), (format!("{id} two"), other));
}

#[tokio::test]
async fn errors_do_not_show_values_of_variables() {
    let text = "{{ with nomadVar \"app\" }}{{ .none }}{{ end }}";
    let story = Story::begin(vec![Template { err_missing_key: true, ..template(text, "local/a") }], &[("app", "one")]);
    assert!(story.vars().await.is_none());
    check(
        &story.told(1).await,
        expect![[
            r#"Killing: Template failed: (dynamic): execute: template: :1:28: executing "" at <.n[redacted]>: map has no entry for key "n[redacted]""#
        ]],
    );
    assert_eq!(
        redacted("abc ab b", &["ab".to_owned(), "abc".to_owned(), String::new()].into()),
        "[redacted] [redacted] b"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_answers_are_told_of_and_waited_for() {
    let texts = ["a", "b", "c", "d"].map(|name| format!("{{{{ with nomadVar \"{name}\" }}}}{{{{ .k }}}}{{{{ end }}}}"));
    let story = Story::begin(vec![template(&texts.concat(), "local/a")], &[]);
    check(
        &story.told(1).await,
        expect![[
            r#"Template: Missing: nomad.var.block(a@default.global), nomad.var.block(b@default.global), nomad.var.block(c@default.global), and 1 more"#
        ]],
    );
    ["a", "b", "c", "d"].iter().for_each(|name| story.fake.put(name, name));
    assert!(story.vars().await.is_some());
    assert_eq!(story.file("local/a"), "abcd");
}

#[tokio::test(start_paused = true)]
async fn servers_that_refuse_again_and_again_fail_the_task() {
    let text = "{{ with nomadVar \"app\" }}{{ .k }}{{ end }}";
    let story = Story::begin(vec![template(text, "local/a")], &[("app", "denied")]);
    assert!(story.vars().await.is_none());
    check(
        story.told(2).await.lines().last().unwrap_or_default(),
        expect![[
            r#"Killing: Template failed: nomad.var.block(app@default.global): Unexpected response code: 403 (Permission denied)"#
        ]],
    );
}

#[test]
fn paths_outside_of_the_allocation_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = AllocDir::new(root.path(), &AllocId::from_bytes([7; 16]));
    dir.build().unwrap();
    dir.build_task("web", None).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.task("web").join("local/link")).unwrap();
    let dirs = Dirs { alloc: dir.root().to_owned(), task: "web".into() };
    let one = |template: Template| {
        let task = songline_model::Task { templates: Some(vec![template]), ..songline_model::Task::default() };
        let planned = plan(&task, &dirs, &TaskEnv::default(), &TemplateSettings::default());
        match planned {
            Ok(plans) => plans.iter().map(|plan| format!("{} {:o}", plan.destination.display(), plan.mode)).collect(),
            Err(error) => error.replace(&dir.root().display().to_string(), "ALLOC"),
        }
    };
    let from = |source: &str| Template { source_path: source.into(), ..template("", "local/out") };
    let shared = dir.shared().join("data/x").display().to_string();
    let lines: Vec<String> = [
        template("", "local/a"),
        template("", "/local/a"),
        template("", &shared),
        template("", "../alloc/data/x"),
        template("", "../../x"),
        Template { perms: "0000".into(), ..template("", "local/a") },
        Template { perms: "4755".into(), ..template("", "local/a") },
        from("local/none"),
        from("../../x"),
        from("local/link"),
    ]
    .into_iter()
    .map(one)
    .collect();
    check(
        &lines.join("\n"),
        expect![[r#"
            web/local/a 640
            web/local/a 640
            alloc/data/x 640
            alloc/data/x 640
            template destination path escapes alloc directory
            web/local/a 644
            web/local/a 755
            failed to read template: open ALLOC/web/local/none: no such file or directory
            template source path escapes alloc directory
            template source path escapes alloc directory"#]],
    );
}

#[test]
fn environment_files_have_comments_exports_quotes_and_line_numbers() {
    let text = "# c\n\nA=plain\nB=\"double q\"\nC='single q'\nexport D=exported\nE=\nF = spaced \nG=a=b\nH=a # tail\nA_=1\n\
                I=\"with \\\"esc\\\" \\n nl\"\nJ=$A ${A}\n K=indented\nlower.case=1\n";
    let vars = env_file::parse(text).unwrap();
    let lines: Vec<String> = vars.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    check(
        &lines.join("\n"),
        expect![[r#"
        A="plain"
        A_="1"
        B="double q"
        C="single q"
        D="exported"
        E=""
        F="spaced"
        G="a=b"
        H="a"
        I="with \"esc\" \n nl"
        J="$A ${A}"
        K="indented"
        lower.case="1""#]],
    );
    let wrong = ["no equal sign", "=novalue", "A=\"unclosed", "1A=x", "A B=x", "A=1\nA-B=x"];
    let errors: Vec<String> = wrong.iter().map(|text| env_file::parse(text).unwrap_err()).collect();
    check(
        &errors.join("\n"),
        expect![[r#"
        error on line 1: missing =
        error on line 1: empty key
        error on line 1: unmatched "
        error on line 1: key must start with [A-Za-z_] but found '1'
        error on line 1: key characters must be [A-Za-z0-9_.] but found ' '
        error on line 2: key characters must be [A-Za-z0-9_.] but found '-'"#]],
    );
}

#[test]
fn restart_outdoes_signals_and_scripts_and_signals_come_once() {
    use super::change::Change;
    let with = |mode: &str, signal: &str| Template {
        change_mode: mode.into(),
        change_signal: signal.into(),
        change_script: (mode == "script").then(ChangeScript::default),
        ..Template::default()
    };
    let all = [with("signal", "SIGHUP"), with("script", ""), with("signal", "SIGHUP"), with("noop", "")];
    let change = Change::of(&all);
    assert_eq!((change.restart, change.signals.len(), change.scripts.len()), (false, 1, 1));
    let restart = Change::of(all.iter().chain([&with("restart", "")]));
    assert_eq!(restart, Change { restart: true, ..Change::default() });
}
