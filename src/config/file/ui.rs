//! The block `ui`: the web page's label, links and content policy.

use anyhow::bail;
use serde_json::Value;
use songline_api::{UiLabel, UiSettings};

use super::{each, flag, network, set, text};

/// Directives of the content policy that a file may replace, by key.
const DIRECTIVES: [(&str, &str); 7] = [
    ("connect_src", "connect-src"),
    ("default_src", "default-src"),
    ("form_action", "form-action"),
    ("frame_ancestors", "frame-ancestors"),
    ("img_src", "img-src"),
    ("script_src", "script-src"),
    ("style_src", "style-src"),
];

pub(super) fn block(value: &Value, told: &mut UiSettings) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "enabled" => told.enabled = flag(key, value)?,
            "label" => label(value, &mut told.label)?,
            "consul" => link("ui.consul", value, &mut told.consul_url)?,
            "vault" => link("ui.vault", value, &mut told.vault_url)?,
            "content_security_policy" => policy(value, told)?,
            other => bail!("ui unexpected keys {other}"),
        }
        Ok(())
    })
}

fn label(value: &Value, told: &mut UiLabel) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "text" => set(&mut told.text, text(key, value)?),
            "background_color" => set(&mut told.background_color, colour(key, value)?),
            "text_color" => set(&mut told.text_color, colour(key, value)?),
            other => bail!("ui.label unexpected keys {other}"),
        }
        Ok(())
    })
}

/// A colour as in CSS: a name, `#` and digits, or a function of numbers.
fn colour(key: &str, value: &Value) -> anyhow::Result<String> {
    let colour = text(key, value)?;
    if !colour.chars().all(|char| char.is_ascii_alphanumeric() || "#(),.%/ -".contains(char)) {
        bail!("ui.label.{key}: {colour:?} is no colour");
    }
    Ok(colour)
}

fn link(block: &str, value: &Value, told: &mut String) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "ui_url" => {
                let url = text(key, value)?;
                // The page offers it as a link: a scheme such as `javascript` would be code.
                if !url.is_empty() && !url.starts_with("https://") && !url.starts_with("http://") {
                    bail!("{block}.ui_url: {url:?} begins neither with http:// nor with https://");
                }
                set(told, url);
            }
            other => bail!("{block} unexpected keys {other}"),
        }
        Ok(())
    })
}

fn policy(value: &Value, told: &mut UiSettings) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        let Some((_, directive)) = DIRECTIVES.iter().find(|(name, _)| *name == key) else {
            bail!("ui.content_security_policy unexpected keys {key}");
        };
        let sources = network::texts(key, value)?;
        let is_source = |source: &String| source.chars().all(|char| char.is_ascii_graphic() && !";,".contains(char));
        if let Some(wrong) = sources.iter().find(|source| !is_source(source)) {
            bail!("ui.content_security_policy.{key}: {wrong:?} is no source");
        }
        if !sources.is_empty() {
            told.policy.insert((*directive).to_owned(), sources);
        }
        Ok(())
    })
}
