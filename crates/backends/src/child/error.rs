//! Why a program could not be started, worded for the author of its configuration.
//!
//! Not here: what a started program does wrong (`crate::stdio`).

use std::io;

use super::Command;
use super::spec::Stage;

/// A program could not be started. The message names the command and the likely mistake.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}`: {failure}")]
pub struct StartError {
    pub program: String,
    pub failure: StartFailure,
    #[source]
    pub source: io::Error,
}

/// The cause of a failed start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartFailure {
    #[error("there is no such program on PATH ({path})")]
    NotOnPath { path: String },
    #[error("there is no such file, or the interpreter named in its first line is missing")]
    NoSuchFile,
    #[error("it is not an executable file")]
    NotExecutable,
    #[error("its working directory `{cwd}` is missing or not a directory we may enter")]
    Cwd { cwd: String },
    #[error("its limits cannot be set")]
    Bounds,
    #[error("the system refused to run it")]
    Refused,
    #[error("the process that was to guard it did not answer")]
    Shim,
    #[error("the gateway could not prepare its process")]
    Gateway,
}

impl StartError {
    pub(super) fn new(command: &Command, failure: StartFailure, source: io::Error) -> Self {
        Self {
            program: command.program.display().to_string(),
            failure,
            source,
        }
    }

    /// From what the shim reported.
    pub(super) fn reported(command: &Command, stage: Stage, source: io::Error) -> Self {
        let by_name = !command.program.as_encoded_bytes().contains(&b'/');
        let failure = match (stage, source.kind()) {
            (Stage::Shim, _) => StartFailure::Shim,
            (Stage::Cwd, _) => StartFailure::Cwd {
                cwd: shown(command.cwd.as_deref()),
            },
            (Stage::Bounds, _) => StartFailure::Bounds,
            (Stage::Program, io::ErrorKind::NotFound) if by_name => {
                let path = command.env.iter().find(|(name, _)| name == "PATH");
                StartFailure::NotOnPath {
                    path: shown(path.map(|(_, path)| path.as_ref())),
                }
            }
            (Stage::Program, io::ErrorKind::NotFound) => StartFailure::NoSuchFile,
            (Stage::Program, io::ErrorKind::PermissionDenied) => StartFailure::NotExecutable,
            (Stage::Program, _) => StartFailure::Refused,
        };
        Self::new(command, failure, source)
    }
}

fn shown(path: Option<&std::path::Path>) -> String {
    path.map_or_else(|| "not set".into(), |path| path.display().to_string())
}
