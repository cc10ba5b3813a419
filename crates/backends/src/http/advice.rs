//! Advice for operators about an unreachable or refusing server, recognised by the messages of this crate.

pub(super) fn advice(problem: &str) -> String {
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
        let check = |problem: &str, words: &str| {
            let advice = advice(problem);
            assert!(advice.contains(words), "{advice}");
        };
        check(
            "the backend cannot be reached: Connection refused (os error 111)",
            "nothing listens",
        );
        check(
            "backend `x` refused the gateway's credentials: 401",
            "Authorization_ENV",
        );
        check("backend `x` answered with HTTP status 404", "/mcp");
    }
}
