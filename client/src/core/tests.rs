//! Tests of the agent's state machines as scripts: each line is an input, its answer the effects. No process, no
//! clock.

mod alloc;
mod checks;
mod health;
mod orders;
mod restore;
mod services;
mod small;
mod stage;
mod sync;
mod templates;
