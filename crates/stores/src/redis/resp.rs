//! The part of Redis' protocol (RESP 2) in use: commands, and answers of one line or one text. Pure.

/// Much longer than any answer of our commands.
const REPLY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Number(i64),
    Text(String),
    /// The server's error, beginning with a word in capitals.
    Error(String),
}

/// Not an answer to any of our commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError;

/// Appends a command.
pub(super) fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let head = |out: &mut Vec<u8>, mark: u8, n: usize| {
        out.push(mark);
        out.extend_from_slice(n.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    head(out, b'*', parts.len());
    for part in parts {
        head(out, b'$', part.len());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first answer and its length; `None` if it is incomplete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
    let Some((line, rest)) = line(input) else {
        return match input.len() > REPLY_BYTES_MAX {
            true => Err(ProtocolError),
            false => Ok(None),
        };
    };
    let (mark, said) = line.split_first().ok_or(ProtocolError)?;
    let said = std::str::from_utf8(said).map_err(|_| ProtocolError)?;
    let used = input.len() - rest.len();
    match mark {
        b'+' => Ok(Some((Reply::Text(said.to_owned()), used))),
        b'-' => Ok(Some((Reply::Error(said.to_owned()), used))),
        b':' => {
            let number = said.parse().map_err(|_| ProtocolError)?;
            Ok(Some((Reply::Number(number), used)))
        }
        b'$' => {
            let len: usize = said.parse().map_err(|_| ProtocolError)?;
            if len > REPLY_BYTES_MAX {
                return Err(ProtocolError);
            }
            let (Some(text), Some(end)) = (rest.get(..len), rest.get(len..len + 2)) else {
                return Ok(None);
            };
            let text = std::str::from_utf8(text).map_err(|_| ProtocolError)?;
            match end {
                b"\r\n" => Ok(Some((Reply::Text(text.to_owned()), used + len + 2))),
                _ => Err(ProtocolError),
            }
        }
        _ => Err(ProtocolError),
    }
}

/// The first line without its end, and the rest.
fn line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    Some((&input[..end], &input[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_texts() {
        let mut out = b"before".to_vec();
        command(&mut out, &[b"GET", b"a\r\nb", b""]);
        assert_eq!(out, b"before*3\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
    }

    #[test]
    fn any_part_of_an_answer_waits_for_the_rest() {
        let text = |text: &str| Reply::Text(text.to_owned());
        for (bytes, reply) in [
            (&b"+OK\r\n"[..], text("OK")),
            (b":-17\r\n", Reply::Number(-17)),
            (b"-NOSCRIPT no\r\n", Reply::Error("NOSCRIPT no".to_owned())),
            (b"$3\r\na\r\n\r\n", text("a\r\n")),
            (b"$0\r\n\r\n", text("")),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{bytes:?} cut at {cut}");
            }
            let more = [bytes, b":1\r\n"].concat();
            assert_eq!(parse(&more), Ok(Some((reply, bytes.len()))));
        }
    }

    #[test]
    fn what_we_never_ask_for_is_garbled() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b":1x\r\n",
            b"$-1\r\n",
            b"$99999999\r\n",
            b"$1\r\nabc",
            b"*1\r\n:1\r\n",
            b"+\xff\r\n",
            &[b'+'; REPLY_BYTES_MAX + 1],
        ] {
            assert_eq!(parse(bytes), Err(ProtocolError));
        }
    }
}
