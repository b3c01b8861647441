//! Agents' container images, built by engines of the tests' own from images that no registry has.

mod bases;
mod building;
mod debian;
mod faults;
mod layers;
mod running;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use pinfold_testkit::{Stage, people};

use pinfold_testkit::engines::Room;

/// A day long ago, and one that no test will see.
const OLD: &str = "2020-01-01T00:00:00Z";
const NEW: &str = "2999-01-01T00:00:00Z";

/// A Dockerfile that says at its end what it was given.
const DOCKERFILE: &str = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY . /context\n\
                          RUN cd /context && find . -type f | sort > /list && cat /list /mark\n";

/// A user with an engine and an agent's files.
struct Scene<'r> {
    stage: Stage,
    room: &'r Room,
}

impl<'r> Scene<'r> {
    fn new(room: &'r Room) -> Self {
        let stage = Stage::new(people().remove(0));
        room.load("base:1", NEW, "one");
        stage.write("files/Dockerfile", DOCKERFILE);
        stage.write("files/settings.json", "{}");
        Self { stage, room }
    }

    fn path(&self, name: &str) -> String {
        self.stage.path(name).display().to_string()
    }

    /// `pinfold image COMMAND pi`, with the files and without what a build could reach.
    fn image(&self, command: &str, options: &[&str]) -> Command {
        let (name, files) = (self.room.name, self.path("files"));
        let mut args = vec!["image", command, "pi", "--engine", name, "--files", &files];
        if command == "build" {
            args.extend(["--network", "none"]);
        }
        args.extend(options);
        let mut command = self.stage.pinfold(&args);
        self.room.open(&mut command);
        command
    }

    fn build(&self, options: &[&str]) -> Output {
        let mut all = vec!["--base-image", "base:1"];
        all.extend(options);
        self.image("build", &all).output().unwrap()
    }

    fn tag(&self, options: &[&str]) -> Output {
        self.image("tag", options).output().unwrap()
    }

    /// What is left of contexts.
    fn contexts(&self) -> Vec<PathBuf> {
        let directory = self.stage.path("home/.cache/pinfold/images/contexts");
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// What it gave, if it succeeded.
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

/// What it said, if it failed.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    said(output)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
