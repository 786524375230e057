//! The catalogue `examples/jobs`: each file is run by the command line on an agent of its own, as its first lines tell
//! a reader to, until it does what they promise; and what users do with a task in a container, with each engine. Not
//! here: the rules behind single features.

#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod agent;
mod catalogue;
mod containers;
#[path = "../conformance/csi.rs"]
#[allow(dead_code, reason = "the catalogue has jobs of its own for the plugin")]
mod csi;
#[path = "../support/engine.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod engine;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
mod scene;
mod storage;
#[path = "../http/story.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod story;
