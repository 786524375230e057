//! The `ui` block of an agent's configuration: whether the web page is served, its label and links, and its content
//! policy. Serving the page is in `http::ui`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Directives of the page's content policy: nothing but the page's own files runs, and nothing is asked but this server.
/// Text of a job or of a log that reached the page as markup by mistake would be inert. `base-uri` cannot be changed.
const POLICY: [(&str, &str); 8] = [
    ("default-src", "'none'"),
    ("script-src", "'self'"),
    ("style-src", "'self'"),
    ("connect-src", "'self'"),
    ("img-src", "'self' data:"),
    ("base-uri", "'none'"),
    ("form-action", "'none'"),
    ("frame-ancestors", "'none'"),
];

/// Settings of the web page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UiSettings {
    /// Whether the page is served.
    pub enabled: bool,
    /// Label beside the name of the page, such as the name of the cluster.
    pub label: UiLabel,
    /// Address of Consul's page; empty shows no link.
    pub consul_url: String,
    /// Address of Vault's page; empty shows no link.
    pub vault_url: String,
    /// Directives of the content policy that replace those of the page, such as `img-src`, with their sources.
    pub policy: BTreeMap<String, Vec<String>>,
}

/// Label of the page. Empty fields take the page's own colours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UiLabel {
    /// Text; empty shows no label.
    pub text: String,
    /// Colour behind the text, as in CSS.
    pub background_color: String,
    /// Colour of the text, as in CSS.
    pub text_color: String,
}

impl Default for UiSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            label: UiLabel::default(),
            consul_url: String::new(),
            vault_url: String::new(),
            policy: BTreeMap::new(),
        }
    }
}

impl UiSettings {
    /// The content policy, as a header's value.
    pub fn content_security_policy(&self) -> String {
        let directive = |(name, own): &(&str, &str)| match self.policy.get(*name) {
            Some(sources) => format!("{name} {}", sources.join(" ")),
            None => format!("{name} {own}"),
        };
        POLICY.iter().map(directive).collect::<Vec<_>>().join("; ")
    }

    /// Settings that the page shows, in the shape of the block in `agent/self`. It is answered to every caller.
    pub fn shown(&self) -> Value {
        json!({
            "Consul": { "BaseUIURL": self.consul_url },
            "Label": {
                "BackgroundColor": self.label.background_color,
                "Text": self.label.text,
                "TextColor": self.label.text_color,
            },
            "Vault": { "BaseUIURL": self.vault_url },
        })
    }
}
