//! Rules of this tree that the compiler does not check: which folder imports which, that the core stays pure, how files look, and that
//! lists for people agree with the code. Not here: what the code does.

mod defects;
mod files;
mod layers;
mod lists;
mod paths;
mod purity;
mod tree;
