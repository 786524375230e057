//! A strict parser of Prometheus' text form, version 0.0.4: refuses everything that the specification does not allow.
//! Written from the specification; shares no code with the encoder.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// A parsed text.
#[derive(Debug, Default)]
pub struct Exposition {
    /// Type of each family.
    pub families: BTreeMap<String, String>,
    /// Value of each sample, by its name and labels.
    pub samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Exposition {
    /// Parses a text. The error names the first invalid line.
    pub fn read(text: &str) -> Result<Self> {
        ensure!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
        let mut reader = Reader::default();
        for (at, line) in text.lines().enumerate() {
            reader.line(line).with_context(|| format!("line {}: {line}", at + 1))?;
        }
        reader.end_family()?;
        Ok(reader.read)
    }

    /// The value of a sample with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }
}

#[derive(Debug, Default)]
struct Reader {
    read: Exposition,
    /// Family of the samples that are being read.
    current: Option<String>,
    helped: BTreeSet<String>,
    /// Whether the current family has a sample yet.
    sampled: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').context("help has a name and a text")?;
            check_name(name, true)?;
            check_help(help)?;
            ensure!(self.helped.insert(name.to_owned()), "{name} has help twice");
            self.begin(name)
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').context("a type has a name and a word")?;
            check_name(name, true)?;
            ensure!(["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind), "there is no type {kind}");
            self.begin(name)?;
            ensure!(!self.sampled, "the type comes after a sample");
            ensure!(self.read.families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} has two types");
            Ok(())
        } else if line.starts_with('#') || line.trim().is_empty() {
            bail!("nobody writes comments or empty lines here")
        } else {
            self.sample(line)
        }
    }

    fn begin(&mut self, name: &str) -> Result<()> {
        if self.current.as_deref() == Some(name) {
            return Ok(());
        }
        self.end_family()?;
        ensure!(!self.read.families.contains_key(name), "{name} was there before: its samples stand apart");
        self.current = Some(name.to_owned());
        self.sampled = false;
        Ok(())
    }

    fn end_family(&mut self) -> Result<()> {
        if let Some(name) = self.current.take() {
            ensure!(self.read.families.contains_key(&name), "{name} has no type");
            ensure!(self.helped.contains(&name), "{name} has no help");
            ensure!(self.sampled, "{name} has no sample");
        }
        Ok(())
    }

    fn sample(&mut self, line: &str) -> Result<()> {
        let family = self.current.clone().context("a sample without a family")?;
        let kind = self.read.families.get(&family).cloned().context("a sample before its type")?;
        let name_end = line.find(['{', ' ']).context("a sample has a name and a value")?;
        let (name, mut rest) = line.split_at(name_end);
        check_name(name, true)?;
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = read_labels(inner, &mut labels)?;
        }
        let value = number(rest.strip_prefix(' ').context("a blank before the value")?)?;
        match kind.as_str() {
            "summary" if name == family => {
                let quantile: f64 = labels.get("quantile").context("a quantile of a summary")?.parse()?;
                ensure!((0.0..=1.0).contains(&quantile), "a quantile is a share");
            }
            "summary" => {
                let part = name.strip_prefix(&family).context("another family's sample")?;
                ensure!(part == "_sum" || part == "_count", "a summary has no {part}");
                ensure!(!labels.contains_key("quantile"), "only quantiles have quantiles");
            }
            _ => ensure!(name == family, "another family's sample"),
        }
        let counts = kind == "counter" || name.ends_with("_count") && kind == "summary";
        ensure!(!counts || value >= 0.0, "a count is not negative");
        self.sampled = true;
        let twice = self.read.samples.insert((name.to_owned(), labels), value);
        ensure!(twice.is_none(), "the sample is there twice");
        Ok(())
    }
}

/// Reads labels up to and with their closing bracket. Returns the rest of the line.
fn read_labels<'t>(mut rest: &'t str, labels: &mut BTreeMap<String, String>) -> Result<&'t str> {
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Ok(after);
        }
        let (name, after) = rest.split_once('=').context("a label has a value")?;
        check_name(name, false)?;
        let mut characters = after.strip_prefix('"').context("a label's value has quotes")?.char_indices();
        let mut value = String::new();
        let end = loop {
            match characters.next().context("a label's value ends")? {
                (at, '"') => break at,
                (_, '\\') => match characters.next().context("an escape has a character")?.1 {
                    '\\' => value.push('\\'),
                    '"' => value.push('"'),
                    'n' => value.push('\n'),
                    other => bail!("there is no escape \\{other}"),
                },
                (_, other) => value.push(other),
            }
        };
        ensure!(labels.insert(name.to_owned(), value).is_none(), "label {name} twice");
        rest = &after[end + 2..];
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
        } else {
            ensure!(rest.starts_with('}'), "a comma or the end after a label");
        }
    }
}

fn check_name(name: &str, of_metric: bool) -> Result<()> {
    let legal = |(at, c): (usize, char)| {
        c.is_ascii_alphabetic() || c == '_' || (of_metric && c == ':') || (at > 0 && c.is_ascii_digit())
    };
    ensure!(!name.is_empty() && name.chars().enumerate().all(legal), "{name:?} is no name");
    ensure!(of_metric || !name.starts_with("__"), "{name} is reserved");
    Ok(())
}

fn check_help(help: &str) -> Result<()> {
    ensure!(!help.trim().is_empty(), "the help says nothing");
    let mut characters = help.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            ensure!(matches!(characters.next(), Some('\\' | 'n')), "an escape that help does not have");
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<f64> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        // Rust parses more spellings of infinity and NaN than the form allows.
        other if other.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) => {
            other.parse().context("a value is a number")
        }
        other => bail!("{other:?} is no value"),
    }
}
