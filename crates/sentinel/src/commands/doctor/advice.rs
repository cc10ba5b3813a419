//! What to do about a backend's problem.
//!
//! Recognised by the words that the backends room uses; whatever is not recognised gets the advice that
//! always helps: run it by hand.

use crate::config::{Backend, BackendKind};

pub(super) fn on(backend: &Backend, problem: &str, stderr: &[String]) -> String {
    match &backend.kind {
        BackendKind::Stdio(program) => {
            let asked_for = config_command(backend, &program.command);
            stdio(problem, stderr, &asked_for)
        }
        _ => http(problem),
    }
}

fn config_command(backend: &Backend, command: &str) -> String {
    format!("backend `{}`, command `{command}`", backend.name)
}

fn stdio(problem: &str, stderr: &[String], asked_for: &str) -> String {
    let has = |words: &str| problem.contains(words);
    let said = |words: &str| stderr.iter().any(|line| line.contains(words));
    if has("no such program") {
        "install it, or give `command` as a full path; the backend sees the PATH shown above".into()
    } else if has("no such file") {
        "correct the path in `command`, or install the interpreter named in the script's first line"
            .into()
    } else if has("not an executable") {
        "make it executable (chmod +x), or name its interpreter as `command` and it as the first of `args`".into()
    } else if has("working directory") {
        "correct `cwd`; a relative one starts at the configuration file".into()
    } else if said("its standard output has a line that is no message") {
        format!(
            "it prints something other than MCP messages on standard output, where nothing else belongs: is it an MCP server, and do its logs go to standard error? Run it by hand ({asked_for})"
        )
    } else if has("no answer within") || has("in time") {
        format!(
            "it runs but says nothing: is it an MCP server that speaks on standard output, and does it perhaps wait for a download or a login? Run it by hand ({asked_for}), or raise `timeout`"
        )
    } else if said("EACCES") || said("Permission denied") {
        "it may not do what it tries: check permissions of the files it names".into()
    } else if said("ENOTFOUND") || said("ECONNREFUSED") || said("getaddrinfo") || said("network") {
        "it needs a network or a service that it cannot reach from here".into()
    } else if said("API_KEY") || said("TOKEN") || said("api key") || said("environment variable") {
        "it seems to miss a credential: give it by name in `env`, such as `env = { API_KEY_ENV = \"MY_KEY\" }`; backends do not inherit the shell's variables".into()
    } else {
        format!(
            "run it by hand and look at what it prints ({asked_for}); backends get only PATH, HOME, locale and `env`, unless `inherit_env = true`"
        )
    }
}

fn http(problem: &str) -> String {
    let has = |words: &str| problem.contains(words);
    if has("credentials") {
        "check the credential: `headers = { Authorization_ENV = \"NAME\" }` sends the value of NAME, which must include \"Bearer \" where the server wants it".into()
    } else if has("refused") && has("onnection") {
        "nothing listens there: start the server, or correct `url`".into()
    } else if has("lookup") || has("resolve") || has("Name or service") {
        "the host name of `url` is unknown here".into()
    } else if has("certificate") || has("tls") || has("TLS") {
        "the server's certificate is not trusted by this system: install its authority, or correct the host in `url`".into()
    } else if has("404") || has("405") {
        "the server is there but not its MCP endpoint: correct the path of `url` (often /mcp)"
            .into()
    } else if has("overloaded") {
        "the server is busy or limits its callers: try later".into()
    } else if has("in time") || has("no answer") || has("too long") {
        "the server takes the connection but does not answer: look at its log, or raise `timeout`"
            .into()
    } else {
        "look at the server's log; `--log-level debug` shows what is exchanged".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_problems_get_their_own_advice() {
        let check = |advice: String, words: &str| assert!(advice.contains(words), "{advice}");
        let key = ["Error: API_KEY is required".to_owned()];
        check(
            stdio(
                "cannot start `uvx`: there is no such program on PATH (/bin)",
                &[],
                "x",
            ),
            "install it",
        );
        check(stdio("it exited with code 1", &key, "x"), "credential");
        check(
            stdio("it exited with code 1", &[], "backend `x`"),
            "by hand",
        );
        check(
            http("the backend cannot be reached: Connection refused (os error 111)"),
            "nothing listens",
        );
        check(
            http("backend `x` refused the gateway's credentials: 401"),
            "Authorization_ENV",
        );
        check(http("backend `x` answered with HTTP status 404"), "/mcp");
    }
}
