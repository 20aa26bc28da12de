//! The measuring engine of Tautline.

pub mod environment;
pub mod plan;
pub mod report;
pub mod run;
