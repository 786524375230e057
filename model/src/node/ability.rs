//! Abilities of node agents. An agent of Songline lists what it can run; an agent of the reference can run everything
//! that its attributes and drivers do not rule out.

use super::Node;

/// Attribute of nodes whose agent is Songline's: the agent's version.
pub const AGENT_VERSION: &str = "songline.version";
/// Prefix of the attributes that list an agent's abilities, each with the value `true`.
pub const ABILITY_PREFIX: &str = "songline.ability.";

impl Node {
    /// Whether the node's agent can run groups that need this ability.
    pub fn has_ability(&self, name: &str) -> bool {
        self.attribute(AGENT_VERSION).is_none()
            || self.attribute(&format!("{ABILITY_PREFIX}{name}")).is_some_and(|value| *value == "true")
    }
}
