//! Rules of this tree that the compiler does not check: imports between folders, purity of the core, the form of
//! files, and lists in documents that agree with the code. Not here: the code's behaviour.

mod defects;
mod files;
mod layers;
mod lists;
mod paths;
mod purity;
mod tree;
mod words;
