//! `job init`.

use clap::Args;

use super::lists::items;
use crate::client::{escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, General, Run, outln};

/// Path of the variables with templates of job files.
const TEMPLATES: &str = "nomad/job-templates";

/// Arguments of `job init`.
#[derive(Args)]
pub(crate) struct Init {
    #[command(flatten)]
    general: General,
    /// Leave comments out.
    #[arg(long)]
    short: bool,
    /// Write an example with Consul service mesh.
    #[arg(long)]
    connect: bool,
    /// Write the template of this name, which operators keep in the variable `nomad/job-templates/NAME`.
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Show the names of the templates that operators keep.
    #[arg(long)]
    list_templates: bool,
    /// The file; by default `example.nomad.hcl`.
    file: Option<String>,
}

impl Run for Init {
    async fn run(self, _: &Context) -> Outcome {
        if self.list_templates {
            return self.list().await;
        }
        let file = self.file.clone().unwrap_or_else(|| "example.nomad.hcl".to_owned());
        if std::path::Path::new(&file).exists() {
            return Err(Failure::new(format!("Job '{file}' already exists")));
        }
        let content = match &self.template {
            Some(name) => self.of_variable(name).await?,
            None if self.short => without_comments(self.example()),
            None => self.example().to_owned(),
        };
        std::fs::write(&file, content).tried(&format!("Failed to write '{file}'"))?;
        outln!("Example job file written to {file}");
        Ok(Exit::DONE)
    }
}

impl Init {
    fn example(&self) -> &'static str {
        if self.connect { CONNECT } else { EXAMPLE }
    }

    async fn of_variable(&self, name: &str) -> Result<String, Failure> {
        let path = format!("/v1/var/{TEMPLATES}/{}", escape(name));
        let variable = self.general.client()?.get(&path).await.tried("Error retrieving job template")?;
        match &variable["Items"]["template"] {
            serde_json::Value::String(template) => Ok(template.clone()),
            _ => Err(Failure::new(format!("The variable {TEMPLATES}/{name} has no item \"template\""))),
        }
    }

    async fn list(&self) -> Outcome {
        let prefix = format!("{TEMPLATES}/");
        let path = with_query("/v1/vars", &[("prefix", &prefix)]);
        let found = self.general.client()?.get(&path).await.tried("Error retrieving job templates")?;
        let names: Vec<&str> =
            items(&found).iter().filter_map(|one| text(&one["Path"]).strip_prefix(prefix.as_str())).collect();
        if names.is_empty() {
            outln!("No templates found in the variables below {TEMPLATES:?}");
        } else {
            outln!("{}", names.join("\n"));
        }
        Ok(Exit::DONE)
    }
}

/// The text without lines that are comments only, and without the empty lines that would be doubled by that.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if line.is_empty() && (out.is_empty() || out.ends_with("\n\n")) {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

const EXAMPLE: &str = r#"# A service that is kept running. "job plan" shows what this file would change, "job run" registers it.
job "example" {
  # "service" is kept running, "batch" runs until it succeeds, "system" runs on every node.
  type = "service"

  # How a new version replaces the one that runs.
  update {
    max_parallel     = 1
    min_healthy_time = "10s"
    auto_revert      = true
  }

  # The tasks of a group run on the same node.
  group "cache" {
    count = 1

    network {
      # A port of the node that is mapped to the port 6379 of the task.
      port "db" {
        to = 6379
      }
    }

    # Other jobs find the service by its name.
    service {
      name     = "redis-cache"
      port     = "db"
      provider = "nomad"
    }

    # What happens when a task ends.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "redis" {
      driver = "docker"

      config {
        image = "redis:7"
        ports = ["db"]
      }

      # In MHz and MiB.
      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
"#;

const CONNECT: &str = r#"# A service behind a sidecar of Consul's service mesh, and another one that reaches it.
job "example" {
  group "api" {
    network {
      mode = "bridge"
    }

    service {
      name = "count-api"
      port = "9001"

      # Other services reach this one through its sidecar only.
      connect {
        sidecar_service {}
      }
    }

    task "web" {
      driver = "docker"

      config {
        image = "hashicorpdev/counter-api:v3"
      }
    }
  }

  group "dashboard" {
    network {
      mode = "bridge"

      port "http" {
        static = 9002
        to     = 9002
      }
    }

    service {
      name = "count-dashboard"
      port = "9002"

      connect {
        sidecar_service {
          proxy {
            # The task finds the address in NOMAD_UPSTREAM_ADDR_count_api.
            upstreams {
              destination_name = "count-api"
              local_bind_port  = 8080
            }
          }
        }
      }
    }

    task "dashboard" {
      driver = "docker"

      env {
        COUNTING_SERVICE_URL = "http://${NOMAD_UPSTREAM_ADDR_count_api}"
      }

      config {
        image = "hashicorpdev/counter-dashboard:v3"
      }
    }
  }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_job_files_with_and_without_comments() {
        for example in [EXAMPLE, CONNECT] {
            for text in [example.to_owned(), without_comments(example)] {
                songline_lang::jobspec::parse(&text, &Default::default()).expect("is a job file");
            }
        }
        assert!(!without_comments(EXAMPLE).contains('#') && !without_comments(EXAMPLE).contains("\n\n\n"));
    }
}
