//! The command that a shim is told to start, as bytes, and the shim's reports.
//!
//! The command travels over the shim's control socket instead of its arguments: arguments are readable by
//! every user of the machine (`ps`), and a backend's environment holds its secrets. Operating-system
//! strings cannot hold a NUL, so every field ends in one; values need not be UTF-8.
//!
//! Not here: sending or receiving them (`super`, `super::shim`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::Bounds;

/// More than any kernel accepts for arguments and environment together by default (2 MiB).
pub(super) const SPEC_LEN_MAX: usize = 4 * 1024 * 1024;

/// Commands the gateway sends after the specification, one byte each.
pub(super) const TERMINATE: u8 = b'T';
pub(super) const KILL: u8 = b'K';

/// One program to run, as the shim needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec {
    /// The gateway process; its end ends this tree.
    pub(super) gateway_pid: i32,
    pub(super) cwd: Option<OsString>,
    pub(super) bounds: Bounds,
    /// In a PID namespace of its own, where that is allowed.
    pub(super) pid_namespace: bool,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// A value of the command contains a NUL, which no program can be given.
#[derive(Debug, thiserror::Error)]
#[error("the command, its arguments and its environment may not contain a NUL character")]
pub(super) struct HasNul;

impl Spec {
    /// The bytes for the control socket: their length in four bytes, then the fields.
    pub(super) fn encode(&self) -> Result<Vec<u8>, HasNul> {
        let mut out = vec![0; 4];
        push(&mut out, OsStr::new(&self.gateway_pid.to_string()))?;
        push(&mut out, self.cwd.as_deref().unwrap_or_default())?;
        for bound in self.bounds.numbers() {
            push(&mut out, OsStr::new(&bound.to_string()))?;
        }
        push(
            &mut out,
            OsStr::new(if self.pid_namespace { "1" } else { "0" }),
        )?;
        push(&mut out, &self.program)?;
        push(&mut out, OsStr::new(&self.args.len().to_string()))?;
        for arg in &self.args {
            push(&mut out, arg)?;
        }
        for (name, value) in &self.env {
            push(&mut out, name)?;
            push(&mut out, value)?;
        }
        let len = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&len.to_le_bytes());
        Ok(out)
    }

    /// Reads what [`Spec::encode`] wrote, without the four bytes of length.
    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let mut fields = body.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let mut next = || fields.next().map(|f| OsString::from_vec(f.to_vec()));
        let gateway_pid = next()?.to_str()?.parse().ok()?;
        let cwd = Some(next()?).filter(|cwd| !cwd.is_empty());
        let mut numbers = [0; Bounds::COUNT];
        for number in &mut numbers {
            *number = next()?.to_str()?.parse().ok()?;
        }
        let pid_namespace = next()? == "1";
        let program = next()?;
        let count: usize = next()?.to_str()?.parse().ok()?;
        let args = (0..count).map(|_| next()).collect::<Option<Vec<_>>>()?;
        let mut env = Vec::new();
        while let Some(name) = next() {
            env.push((name, next()?));
        }
        Some(Self {
            gateway_pid,
            cwd,
            bounds: Bounds::of(numbers),
            pid_namespace,
            program,
            args,
            env,
        })
    }
}

impl Bounds {
    pub(super) const COUNT: usize = 5;

    pub(super) fn numbers(self) -> [u64; Self::COUNT] {
        [
            self.memory_bytes,
            self.address_space_bytes,
            self.processes,
            self.open_files,
            self.cpu_seconds,
        ]
    }

    fn of(numbers: [u64; Self::COUNT]) -> Self {
        let [
            memory_bytes,
            address_space_bytes,
            processes,
            open_files,
            cpu_seconds,
        ] = numbers;
        Self {
            memory_bytes,
            address_space_bytes,
            processes,
            open_files,
            cpu_seconds,
        }
    }
}

fn push(out: &mut Vec<u8>, field: &OsStr) -> Result<(), HasNul> {
    if field.as_bytes().contains(&0) {
        return Err(HasNul);
    }
    out.extend_from_slice(field.as_bytes());
    out.push(0);
    Ok(())
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The shim could not set itself up; starting the program would risk an orphan.
    Shim = 1,
    Cwd = 2,
    Program = 3,
    Bounds = 4,
}

/// What the shim tells the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    Started {
        pid: i32,
        /// Whether the requested PID namespace was set up.
        namespaced: bool,
    },
    Failed {
        stage: Stage,
        errno: i32,
    },
    /// The child ended and none of its processes is left.
    Exited {
        code: i32,
        signal: i32,
    },
}

impl Report {
    pub(super) const LEN: usize = 9;

    pub(super) fn encode(self) -> [u8; Self::LEN] {
        let (tag, a, b) = match self {
            Self::Started { pid, namespaced } => (b'S', pid, namespaced.into()),
            Self::Failed { stage, errno } => (b'F', stage as i32, errno),
            Self::Exited { code, signal } => (b'X', code, signal),
        };
        let mut out = [tag; Self::LEN];
        out[1..5].copy_from_slice(&a.to_le_bytes());
        out[5..].copy_from_slice(&b.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: [u8; Self::LEN]) -> Option<Self> {
        let [tag, a0, a1, a2, a3, b @ ..] = bytes;
        let (a, b) = (i32::from_le_bytes([a0, a1, a2, a3]), i32::from_le_bytes(b));
        match (tag, a) {
            (b'S', pid) => Some(Self::Started {
                pid,
                namespaced: b != 0,
            }),
            (b'F', 1) => Some(Self::Failed {
                stage: Stage::Shim,
                errno: b,
            }),
            (b'F', 2) => Some(Self::Failed {
                stage: Stage::Cwd,
                errno: b,
            }),
            (b'F', 3) => Some(Self::Failed {
                stage: Stage::Program,
                errno: b,
            }),
            (b'F', 4) => Some(Self::Failed {
                stage: Stage::Bounds,
                errno: b,
            }),
            (b'X', code) => Some(Self::Exited { code, signal: b }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn os() -> impl Strategy<Value = OsString> {
        prop::collection::vec(1u8..=255, 0..40).prop_map(OsString::from_vec)
    }

    proptest! {
        #[test]
        fn a_command_survives_the_way_to_the_shim(
            program in os(),
            args in prop::collection::vec(os(), 0..6),
            env in prop::collection::vec((os(), os()), 0..6),
            cwd in prop::option::of(os().prop_filter("empty means none", |c| !c.is_empty())),
            bounds in any::<[u64; Bounds::COUNT]>(),
            pid_namespace: bool,
        ) {
            let bounds = Bounds::of(bounds);
            let spec = Spec { gateway_pid: 77, cwd, bounds, pid_namespace, program, args, env };
            let bytes = spec.encode().unwrap();
            prop_assert_eq!(bytes.len() - 4, u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize);
            prop_assert_eq!(Spec::decode(&bytes[4..]), Some(spec));
        }

        #[test]
        fn no_bytes_make_the_shim_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Spec::decode(&body);
        }
    }

    #[test]
    fn a_nul_is_refused_rather_than_splitting_a_field() {
        let spec = Spec {
            gateway_pid: 1,
            cwd: None,
            bounds: Bounds::default(),
            pid_namespace: false,
            program: "sh".into(),
            args: vec!["a\0b".into()],
            env: vec![],
        };
        assert!(spec.encode().is_err());
    }

    #[test]
    fn reports_survive_the_way_back() {
        for report in [
            Report::Started {
                pid: 4242,
                namespaced: true,
            },
            Report::Failed {
                stage: Stage::Cwd,
                errno: 2,
            },
            Report::Failed {
                stage: Stage::Shim,
                errno: 1,
            },
            Report::Failed {
                stage: Stage::Program,
                errno: 13,
            },
            Report::Exited {
                code: -1,
                signal: 9,
            },
        ] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode([0; Report::LEN]), None);
    }
}
