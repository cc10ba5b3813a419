//! Advice for operators about a child that cannot be started or used.
//!
//! Recognised by the messages of this crate (`crate::child::error`, `super::session`) and of common runtimes; any
//! other problem gets the advice to run the program by hand.

/// `command` is the program; arguments may hold secrets.
pub(super) fn advice(problem: &str, stderr: &[String], command: &str) -> String {
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
            "it prints something other than MCP messages on standard output, where nothing else belongs: is it an MCP server, and do its logs go to standard error? Run it by hand (`{command}`)"
        )
    } else if has("no answer within") || has("in time") {
        format!(
            "it runs but says nothing: is it an MCP server that speaks on standard output, and does it perhaps wait for a download or a login? Run it by hand (`{command}`), or raise `timeout`"
        )
    } else if said("EACCES") || said("Permission denied") {
        "it may not do what it tries: check permissions of the files it names".into()
    } else if said("ENOTFOUND") || said("ECONNREFUSED") || said("getaddrinfo") || said("network") {
        "it needs a network or a service that it cannot reach from here".into()
    } else if said("API_KEY") || said("TOKEN") || said("api key") || said("environment variable") {
        "it seems to miss a credential: give it by name in `env`, such as `env = { API_KEY_ENV = \"MY_KEY\" }`; backends do not inherit the shell's variables".into()
    } else {
        format!(
            "run it by hand and look at what it prints (`{command}`); backends get only PATH, HOME, locale and `env`, unless `inherit_env = true`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_problems_get_their_own_advice() {
        let check = |advice: String, words: &str| assert!(advice.contains(words), "{advice}");
        let key = ["Error: API_KEY is required".to_owned()];
        let missing = "cannot start `uvx`: there is no such program on PATH (/bin)";
        check(advice(missing, &[], "x"), "install it");
        check(advice("it exited with code 1", &key, "x"), "credential");
        check(advice("it exited with code 1", &[], "x"), "by hand");
    }
}
