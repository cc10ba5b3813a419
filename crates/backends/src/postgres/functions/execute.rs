//! Carries out the calls of a function.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use sentinel_core::{Fault, Kind, Reply, RowSender};
use sentinel_pg::tokio_postgres::Row;
use sentinel_pg::tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use sentinel_pg::{BoxError, PgError, RowSink};
use sentinel_wire::json::{Object, Rules};

use super::super::database::{self, Texts, Work};
use super::super::failure::Failure;
use super::super::mode::Mode;
use super::super::operation::{Execute, Site};
use super::super::settings::Settings;
use super::answer::{Answer, Rows};
use super::statement::Callable;

/// Statements of one function that are kept; each combination of optional arguments has its own.
const STATEMENTS_MAX: usize = 64;

/// What the answer is for.
#[derive(Clone, Debug)]
pub(super) enum Surface {
    Tool,
    Resource,
    Prompt { description: String },
}

#[derive(Debug)]
pub(super) struct Executor {
    pub(super) callable: Callable,
    pub(super) answer: Answer,
    pub(super) surface: Surface,
    pub(super) mode: Mode,
    /// Shorter than the configured one.
    pub(super) timeout: Option<Duration>,
    /// Fewer than configured.
    pub(super) max_rows: Option<usize>,
    pub(super) statements: Statements,
}

/// The arguments that were given, and the bound of the number of rows.
type StatementKey = (Vec<bool>, Option<usize>);

/// The statements of the calls so far.
#[derive(Debug, Default)]
pub(super) struct Statements(RwLock<HashMap<StatementKey, Arc<str>>>);

impl Statements {
    fn find(&self, callable: &Callable, given: Vec<bool>, limit: Option<usize>) -> Arc<str> {
        let key = (given, limit);
        if let Some(known) = self.0.read().get(&key) {
            return known.clone();
        }
        let sql: Arc<str> = callable.sql(&key.0, limit).into();
        let mut known = self.0.write();
        if known.len() < STATEMENTS_MAX {
            known.insert(key, sql.clone());
        }
        sql
    }
}

impl Execute for Executor {
    fn run<'a>(&'a self, site: Site<'a>) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(self.call(site))
    }
}

impl Executor {
    async fn call(&self, site: Site<'_>) -> Result<Reply, Failure> {
        let found = self.rows(site).await?;
        match &self.surface {
            Surface::Tool => Ok(self.answer.tool(&found)),
            Surface::Prompt { description } => self.answer.prompt(description, &found),
            Surface::Resource => {
                let uri = site.call.params.string("uri").unwrap_or_default();
                self.answer.resource(&uri, &found)
            }
        }
    }

    async fn rows(&self, site: Site<'_>) -> Result<Rows, Failure> {
        let config = site.config;
        let given = given(&self.callable, site.arguments).map_err(Failure::Refused)?;
        let timeout = self.timeout.map_or(config.statement_timeout, |own| {
            own.min(config.statement_timeout)
        });
        let settings = Settings::of(&site.call.caller, site.fixed);
        let rows_max = self
            .max_rows
            .map_or(config.rows_max, |own| own.min(config.rows_max));
        let sender = site
            .call
            .extra
            .rows
            .as_ref()
            .filter(|_| self.callable.is_set);
        // One more than are shown says that there are more.
        let limit = sender.is_none().then_some(rows_max.saturating_add(1));
        let takes_arguments = self.callable.takes_arguments(&given);
        let sql = self.statements.find(&self.callable, given, limit);
        let arguments = RawJson(site.arguments);
        let params: [&(dyn ToSql + Sync); 1] = [&arguments];
        let work = Work {
            mode: self.mode,
            settings: &settings,
            timeout,
            sql: &sql,
            params: match takes_arguments {
                true => &params,
                false => &[],
            },
        };
        let Some(sender) = sender else {
            let mut texts = Texts::new(rows_max, config.reply_bytes_max);
            site.database.run(work, &mut texts).await?;
            return Ok(Rows {
                rows: texts.rows,
                is_cut: texts.is_cut,
                sent: None,
            });
        };
        let mut stream = Stream(sender.clone());
        site.database.run(work, &mut stream).await?;
        stream.0.flush().await.map_err(Failure::Refused)?;
        Ok(Rows {
            sent: Some(stream.0.count()),
            ..Rows::default()
        })
    }
}

/// Which parameters the arguments name. Tools were checked by their schema, resources and prompts have none.
fn given(callable: &Callable, arguments: &[u8]) -> Result<Vec<bool>, Fault> {
    let refused = |text: String| Err(Fault::new(Kind::InvalidParams, text));
    let Ok(object) = Object::parse(arguments, Rules::backend()) else {
        return refused("`arguments` must be an object".to_owned());
    };
    let mut given = vec![false; callable.parameters.len()];
    for member in &object.members {
        let is_it = |name: &str| member.key.is(arguments, name);
        let mut parameters = callable.parameters.iter();
        match parameters.position(|one| one.bound.is_none() && is_it(&one.name)) {
            Some(at) => given[at] = true,
            None => {
                let name = member.key.decode(arguments);
                return refused(format!("there is no argument {name:?}"));
            }
        }
    }
    let mut parameters = callable.parameters.iter().zip(&given);
    match parameters.find(|(one, given)| one.is_required() && !**given) {
        Some((missing, _)) => refused(format!("the argument {:?} is missing", missing.name)),
        None => Ok(given),
    }
}

/// JSON as it came.
#[derive(Debug)]
pub(in crate::postgres) struct RawJson<'a>(pub(in crate::postgres) &'a [u8]);

impl ToSql for RawJson<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON
    }

    to_sql_checked!();
}

/// Rows that go to the caller as they come.
struct Stream(RowSender);

impl RowSink for Stream {
    type Error = Failure;

    async fn row(&mut self, row: Row) -> Result<(), Failure> {
        let text: Option<&str> = row.try_get(0).map_err(|e| Failure::of(PgError::from(e)))?;
        let text = text.unwrap_or("null");
        give_line(&mut self.0, text).await
    }
}

/// Gives a row to the caller as one line: a `json` value keeps the line breaks that it was written with.
pub(in crate::postgres) async fn give_line(rows: &mut RowSender, row: &str) -> Result<(), Failure> {
    // In JSON, line breaks only stand where spaces may.
    let given = match row.contains(['\n', '\r']) {
        true => rows.give(&row.replace(['\n', '\r'], " ")).await,
        false => rows.give(row).await,
    };
    given.map_err(Failure::Refused)
}

impl database::Answer for Stream {
    fn is_streamed(&self) -> bool {
        true
    }

    fn restart(&mut self) -> bool {
        self.0.count() == 0
    }
}
