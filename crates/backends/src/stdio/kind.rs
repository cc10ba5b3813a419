//! The kind `stdio`: how its settings become a running backend.

use std::sync::Arc;

use sentinel_config::{ChildLimits, Secret, Start, StdioBackend as Settings};
use sentinel_core::Backend;

use super::supervisor::Policy;
use super::{Config, TYPE};
use crate::child::{self, ShimProgram, StopTimeouts};
use crate::kind::{BackendKind, Context, StartError, revision};

impl BackendKind for Settings {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn target(&self) -> String {
        let args = self.args.iter().map(Secret::shown);
        let words: Vec<String> = std::iter::once(self.command.clone()).chain(args).collect();
        words.join(" ")
    }

    fn start(&self, context: Context) -> Result<Arc<dyn Backend>, StartError> {
        let nonzero = |time: std::time::Duration| (!time.is_zero()).then_some(time);
        let env = self.env.iter().map(|(name, value)| (name, value.expose()));
        let command = child::Command {
            label: context.name.clone(),
            program: self.command.clone().into(),
            args: self.args.iter().map(|arg| arg.expose().into()).collect(),
            env: child::environment(self.inherit_env, env),
            cwd: self.cwd.clone(),
            bounds: bounds(&self.limits),
            pid_namespace: self.pid_namespace,
            shim: ShimProgram::ThisProgram,
        };
        let policy = Policy {
            restart_on_exit: self.restart_on_exit,
            max_restarts: (self.max_restarts > 0).then_some(self.max_restarts),
            lazy: self.start == Start::Lazy && !context.keep_running,
            idle_stop: nonzero(self.idle_stop).filter(|_| !context.keep_running),
            ping_interval: nonzero(context.health_interval),
            unhealthy_after: context.unhealthy_after,
        };
        let config = Config {
            target: self.target(),
            name: context.name,
            command,
            policy,
            timeout: context.timeout,
            line_max: context.limits.line,
            isolation: self.isolation,
            interactive: self.interactive,
            max_children: self.max_children as usize,
            revision: revision(self.revision),
            timeouts: StopTimeouts::default(),
        };
        let _inside = context.runtime.enter();
        Ok(config.build(context.publisher))
    }

    fn advice(&self, problem: &str, stderr: &[String]) -> String {
        super::advice::advice(problem, stderr, &self.command)
    }

    fn weakened(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.inherit_env {
            found.push("inherit_env = true gives the program every variable of the gateway, credentials included".into());
        }
        if self.max_restarts == 0 && self.restart_on_exit {
            found.push("max_restarts = 0 restarts a failing program forever".into());
        }
        found
    }
}

fn bounds(limits: &ChildLimits) -> child::Bounds {
    let mebibytes = |n: u32| u64::from(n) << 20;
    child::Bounds {
        memory_bytes: mebibytes(limits.memory_mb),
        address_space_bytes: mebibytes(limits.address_space_mb),
        processes: limits.processes.into(),
        open_files: limits.open_files.into(),
        cpu_seconds: limits.cpu_seconds.into(),
    }
}
