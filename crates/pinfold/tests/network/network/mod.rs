//! The network door, used by real programs and attacked.
//!
//! A test makes a small internet of its own: namespaces whose loopback interface has public
//! addresses, with real servers, a resolver that writes down what it is asked, and a certificate
//! authority that only there is trusted. pinfold runs in it, and the program in pinfold.

mod apt;
mod attacks;
mod authorities;
mod clients;
mod dns;
mod faults;
mod git;
mod github;
mod grpc;
mod host_gh;
mod host_login;
mod isolation;
mod issues;
mod machine;
mod names;
mod ours;
mod protocols;
mod proxy;
mod publish;
mod question_attacks;
mod questions;
mod refusals;
mod registries;
mod secrets;
mod snapshot_host;
mod snapshots;
mod strangers;
mod world;

use world::World;
