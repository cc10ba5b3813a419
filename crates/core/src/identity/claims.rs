//! Validates the claims of a token.

use std::sync::Arc;

use sentinel_wire::json::{self, Kind, Object};

use super::jws::Signed;
use super::{ANONYMOUS, KEY_PREFIX, LOCAL, Reject};

const DEPTH_MAX: u32 = 16;
/// Longest subject, role or tenant; these are used as table keys and in records.
const NAME_BYTES_MAX: usize = 256;
const SCOPES_MAX: usize = 256;
/// The last second of the year 9999: a later date is a mistake.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// Requirements on claims.
#[derive(Clone, Debug)]
pub struct Rules {
    pub issuer: String,
    /// One of these must be among the token's audiences.
    pub audiences: Vec<String>,
    pub role_claim: String,
    /// The role of tokens without that claim; empty rejects them.
    pub default_role: String,
    pub tenant_claim: String,
    /// Allowed clock difference in seconds.
    pub leeway: u64,
}

/// The claims of a valid token.
#[derive(Debug, PartialEq, Eq)]
pub struct Claims {
    pub subject: Arc<str>,
    pub role: Arc<str>,
    pub tenant: Option<Arc<str>>,
    pub scopes: Arc<[Arc<str>]>,
    /// Only if the issuer does not say that it is unverified.
    pub email: Option<Box<str>>,
    /// The second from which it is rejected, leeway included.
    pub until: u64,
}

impl Rules {
    pub fn read(&self, signed: &Signed, now: u64) -> Result<Claims, Reject> {
        check_type(signed.typ.as_deref())?;
        let text = signed.payload.as_slice();
        let object = Object::parse(text, json::Rules::caller(DEPTH_MAX))
            .map_err(|_| Reject::Claims("they are no JSON object, or repeat a name"))?;
        let get = |name: &str| object.get(text, name).map(|span| span.of(text));

        let until = date(get("exp"), "`exp` is no date")?
            .ok_or(Reject::Claims("`exp` is missing"))?
            .saturating_add(self.leeway);
        if now >= until {
            return Err(Reject::Expired);
        }
        let latest = now.saturating_add(self.leeway);
        let begins = date(get("nbf"), "`nbf` is no date")?;
        let issued = date(get("iat"), "`iat` is no date")?;
        if begins.is_some_and(|at| at > latest) || issued.is_some_and(|at| at > latest) {
            return Err(Reject::TooEarly);
        }
        let issuer = string(get("iss"), "`iss` is no string")?.ok_or(Reject::Issuer)?;
        if issuer != self.issuer {
            return Err(Reject::Issuer);
        }
        let audiences = strings(
            get("aud"),
            "`aud` is neither a string nor an array of strings",
        )?;
        if !audiences.iter().any(|a| self.audiences.contains(a)) {
            return Err(Reject::Audience);
        }
        let subject = name(get("sub"), "`sub` is no usable name")?
            .ok_or(Reject::Claims("`sub` is missing"))?;
        if subject == LOCAL || subject == ANONYMOUS || subject.starts_with(KEY_PREFIX) {
            return Err(Reject::Claims("`sub` is a name of this gateway's own"));
        }
        let role = match name(get(&self.role_claim), "the role is no usable name")? {
            Some(role) => role,
            None if !self.default_role.is_empty() => self.default_role.clone(),
            None => return Err(Reject::NoRole),
        };
        let tenant = name(get(&self.tenant_claim), "the tenant is no usable name")?;
        let email = name(get("email"), "`email` is no usable name")?
            .filter(|_| get("email_verified") != Some(b"false"));
        Ok(Claims {
            subject: subject.into(),
            role: role.into(),
            tenant: tenant.map(Into::into),
            scopes: scopes(get("scope"), get("scp"))?,
            email: email.map(Into::into),
            until,
        })
    }
}

/// Rejects other kinds of token signed with the same keys: assertions, proofs, logout tokens.
fn check_type(typ: Option<&str>) -> Result<(), Reject> {
    const GOOD: [&str; 4] = ["JWT", "at+jwt", "application/at+jwt", "application/jwt"];
    match typ {
        None => Ok(()),
        Some(typ) if GOOD.iter().any(|good| good.eq_ignore_ascii_case(typ)) => Ok(()),
        Some(_) => Err(Reject::Header("`typ` is no access token")),
    }
}

/// A number of seconds; other types and out-of-range numbers are rejected.
fn date(value: Option<&[u8]>, wrong: &'static str) -> Result<Option<u64>, Reject> {
    let Some(value) = value else { return Ok(None) };
    let number = match Kind::of(value) {
        Some(Kind::Number) => std::str::from_utf8(value).ok().and_then(|t| t.parse().ok()),
        _ => None,
    };
    let seconds: f64 = number.ok_or(Reject::Claims(wrong))?;
    if !(0.0..=LAST_SECOND).contains(&seconds) {
        return Err(Reject::Claims(wrong));
    }
    Ok(Some(seconds as u64))
}

fn string(value: Option<&[u8]>, wrong: &'static str) -> Result<Option<String>, Reject> {
    let Some(value) = value else { return Ok(None) };
    json::decode_string(value)
        .map(|text| Some(text.into_owned()))
        .ok_or(Reject::Claims(wrong))
}

/// A string that is safe in a table, a header and a log line.
fn name(value: Option<&[u8]>, wrong: &'static str) -> Result<Option<String>, Reject> {
    let Some(text) = string(value, wrong)? else {
        return Ok(None);
    };
    let odd = |c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER;
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(odd) || text.trim() != text {
        return Err(Reject::Claims(wrong));
    }
    Ok(Some(text))
}

/// A string or an array of strings.
fn strings(value: Option<&[u8]>, wrong: &'static str) -> Result<Vec<String>, Reject> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    if Kind::of(value) != Some(Kind::Array) {
        return Ok(string(Some(value), wrong)?.into_iter().collect());
    }
    json::elements(value, json::Rules::caller(DEPTH_MAX))
        .map_err(|_| Reject::Claims(wrong))?
        .into_iter()
        .map(|span| {
            json::decode_string(span.of(value))
                .map(|text| text.into_owned())
                .ok_or(Reject::Claims(wrong))
        })
        .collect()
}

/// `scope` is a string of words; `scp` is that or an array.
fn scopes(scope: Option<&[u8]>, scp: Option<&[u8]>) -> Result<Arc<[Arc<str>]>, Reject> {
    const WRONG: &str = "`scope` is no text, or `scp` neither text nor a list of it";
    let mut words: Vec<Arc<str>> = Vec::new();
    let listed = string(scope, WRONG)?.into_iter();
    for text in listed.chain(strings(scp, WRONG)?) {
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !words.iter().any(|known| **known == *word) {
                words.push(word.into());
            }
        }
    }
    if words.len() > SCOPES_MAX {
        return Err(Reject::Claims("there are too many scopes"));
    }
    Ok(words.into())
}
