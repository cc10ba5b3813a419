//! REST and RPC handlers: a request as a whole goes to a function of the database, whose answer is the answer.
//!
//! The database routes REST requests by itself. Policy decided on the handler that the gateway found, so the statement fails if the
//! database took another one: its transaction is rolled back.
//!
//! Not here: which requests come here (`pattern`, surfaces), transactions and their repetition (`database`).

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_core::{Fault, HttpAnswer, HttpCall, Kind, Reply};
use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::tokio_postgres::types::ToSql;
use sentinel_pg::{PgError, RowSink};

use super::super::database::{Answer, Work};
use super::super::failure::Failure;
use super::super::mode::Mode;
use super::super::operation::{Execute, Site};
use super::super::settings::Settings;
use super::errors::{self, Form};
use super::headers::{self, Person};
use super::policy::{self, Needs};
use super::{Shared, bad_reply, empty_reply};

/// In the error of a statement that took another handler than the gateway.
const OTHER_HANDLER: &str = "sentinel: the database took the handler";
/// Names the handler that answered.
const ROUTE_ID: &str = "x-route-id";
/// Names the method that answered.
const RPC_METHOD: &str = "x-rpc-method";
const CATALOG_VERSION: &str = "x-pgmi-catalog-version";

/// Carries out the requests of one handler.
pub(super) struct Whole {
    pub(super) shared: std::sync::Arc<Shared>,
    pub(super) id: String,
    pub(super) needs: Needs,
    pub(super) form: Form,
}

/// `$1` is the verb, `$2` the URL, `$3` and `$4` the headers, `$5` the body, `$6` the handler.
pub(super) fn rest_sql(hstore: &str) -> String {
    let answered = format!("((a.r).headers OPERATOR({hstore}.->) '{ROUTE_ID}'::text)");
    format!(
        "SELECT (a.r).status_code, {hstore}.hstore_to_array((a.r).headers), (a.r).content, \
         CASE WHEN coalesce({answered}, $6::text) <> $6::text \
         THEN ('{OTHER_HANDLER} ' || {answered})::boolean END \
         FROM (SELECT api.rest_invoke($1::text, $2::text, {hstore}.hstore($3::text[], $4::text[]), \
         $5::bytea) AS r OFFSET 0) a"
    )
}

/// `$1` is the handler, `$2` and `$3` the headers, `$4` the body.
pub(super) fn rpc_sql(hstore: &str) -> String {
    format!(
        "SELECT (a.r).status_code, {hstore}.hstore_to_array((a.r).headers), (a.r).content \
         FROM (SELECT api.rpc_invoke(($1::text)::uuid, {hstore}.hstore($2::text[], $3::text[]), \
         $4::bytea) AS r OFFSET 0) a"
    )
}

impl Execute for Whole {
    fn run<'a>(&'a self, site: Site<'a>) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            let Some(request) = site.call.extra.http.as_deref() else {
                let text = "this operation takes requests by its own route only";
                return Err(Failure::Refused(Fault::new(Kind::InvalidRequest, text)));
            };
            let answer = match self.mode(request) {
                Ok(mode) => self.answer(site, request, mode).await?,
                Err(answer) => answer,
            };
            request.answer(answer);
            Ok(empty_reply())
        })
    }
}

impl Whole {
    /// The mode of the transaction, or the answer to a request for one that there is not.
    fn mode(&self, request: &HttpCall) -> Result<Mode, HttpAnswer> {
        let requested = match headers::value(request, policy::HEADER) {
            None => None,
            Some(text) => {
                let level = policy::isolation(&text);
                Some(level.ok_or_else(|| self.form.unknown_isolation(request))?)
            }
        };
        Ok(self.needs.mode(self.shared.default_isolation, requested))
    }

    async fn answer(
        &self,
        site: Site<'_>,
        request: &HttpCall,
        mode: Mode,
    ) -> Result<HttpAnswer, Failure> {
        let person = Person::of(&site.call.caller, site.config);
        let (names, values) = headers::of_request(request, person);
        let body = (!request.body.is_empty()).then_some(&*request.body);
        let settings = Settings::of(&site.call.caller, site.fixed);
        let (verb, url) = (&*request.verb, &*request.url);
        let rest: [&(dyn ToSql + Sync); 6] = [&verb, &url, &names, &values, &body, &self.id];
        let rpc: [&(dyn ToSql + Sync); 4] = [&self.id, &names, &values, &body];
        let work = Work {
            mode,
            settings: &settings,
            timeout: site.config.statement_timeout,
            sql: match self.form {
                Form::Problem => &self.shared.rest_sql,
                Form::JsonRpc => &self.shared.rpc_sql,
            },
            params: match self.form {
                Form::Problem => &rest,
                Form::JsonRpc => &rpc,
            },
        };
        let mut response = Response::new(site.config.reply_bytes_max);
        match site.database.run(work, &mut response).await {
            Ok(()) => self.passed_on(site, request, response),
            Err(Failure::Conflict { attempts, error }) => {
                let sqlstate = error.code().code();
                Ok(self.form.conflict(request, sqlstate, attempts))
            }
            Err(failure) => Err(self.judged(site, failure)),
        }
    }

    /// The database's answer as the caller gets it.
    fn passed_on(
        &self,
        site: Site<'_>,
        request: &HttpCall,
        response: Response,
    ) -> Result<HttpAnswer, Failure> {
        let is_head = request.verb.eq_ignore_ascii_case("HEAD");
        let status = response
            .status
            .and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (200..600).contains(status));
        let status = status.ok_or_else(|| bad_reply("the answer has no status"))?;
        let headers = headers::of_answer(response.headers, is_head)
            .ok_or_else(|| bad_reply("the answer has too many headers"))?;
        let value = |name: &str| {
            let found = headers.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        // Not found, or opened in a way that its handler no longer takes.
        let is_stale = value(CATALOG_VERSION).is_some_and(|v| self.shared.is_other_version(v))
            || (matches!(status, 404 | 428) && value(ROUTE_ID).is_none());
        if is_stale {
            self.shared.note_stale(site.changed);
        }
        let is_of_handler = value(ROUTE_ID).or_else(|| value(RPC_METHOD)).is_some();
        let answer = HttpAnswer {
            status,
            headers,
            body: response.body,
        };
        match is_of_handler {
            true => Ok(answer),
            false => Ok(errors::without_details(self.form, answer, request, site)),
        }
    }

    /// A failure of the statement; whether the gateway's catalog is out of date.
    fn judged(&self, site: Site<'_>, failure: Failure) -> Failure {
        let is_other = matches!(&failure, Failure::Statement(error) if error.message().contains(OTHER_HANDLER));
        if !is_other {
            return failure;
        }
        self.shared.note_stale(site.changed);
        let text = "the database has another route for this request; try again";
        let fault = Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000);
        Failure::Refused(fault.uncounted())
    }
}

/// The one row of an answer.
struct Response {
    status: Option<i32>,
    headers: Vec<Option<String>>,
    body: Bytes,
    bytes_max: usize,
}

impl Response {
    fn new(bytes_max: usize) -> Self {
        Self {
            status: None,
            headers: Vec::new(),
            body: Bytes::new(),
            bytes_max,
        }
    }
}

impl RowSink for Response {
    type Error = Failure;

    async fn row(&mut self, row: Row) -> Result<(), Failure> {
        let unreadable = |error| Failure::of(PgError::from(error));
        self.status = row.try_get(0).map_err(unreadable)?;
        let headers: Option<Vec<Option<String>>> = row.try_get(1).map_err(unreadable)?;
        self.headers = headers.unwrap_or_default();
        let body: Option<&[u8]> = row.try_get(2).map_err(unreadable)?;
        let body = body.unwrap_or_default();
        if body.len() > self.bytes_max {
            return Err(Failure::TooLarge(self.bytes_max));
        }
        self.body = Bytes::copy_from_slice(body);
        Ok(())
    }
}

impl Answer for Response {
    fn restart(&mut self) -> bool {
        *self = Self::new(self.bytes_max);
        true
    }
}
