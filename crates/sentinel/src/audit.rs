//! The audit of this process: the destination of records, and the flush at the end.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sentinel_core::audit::{Arguments, AuditSettings, AuditStore, Auditor, Guarantee};
use sentinel_core::metrics::Metrics;
use sentinel_core::{Fault, Kind};
use sentinel_stores::audit::{Ingest, verify};
use sentinel_stores::spool::{Limits, Recorder};
use sentinel_surfaces::http::admin::audit::verify::{BrokenRecord, Verified};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::config::{self, AuditArguments, Config};
use crate::data_dir;
use crate::database::Database;
use crate::spans::Exporter;
use crate::workers;

/// Longest wait for the store at the end; remaining records stay in the spool.
const FLUSH_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Audit {
    pub(crate) auditor: Arc<Auditor>,
    /// The store of records and reviews.
    pub(crate) db: Option<Database>,
    ingest: Option<Ingest>,
    exporter: Option<Exporter>,
}

impl Audit {
    /// Records nothing.
    pub(crate) fn off() -> Self {
        Self {
            auditor: Auditor::off(),
            db: None,
            ingest: None,
            exporter: None,
        }
    }

    /// Starts recording and tracing as configured. Called within a runtime.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let mut this = Self::record(config)?;
        if let Some(endpoint) = &config.telemetry.otlp_endpoint {
            let exporter = Exporter::start(endpoint, this.auditor.metrics.clone())?;
            this.auditor.trace_to(exporter.spans());
            this.exporter = Some(exporter);
        }
        Ok(this)
    }

    fn record(config: &Config) -> anyhow::Result<Self> {
        let metrics = Arc::<Metrics>::default();
        let guarantees = config.backends.iter().filter(|b| b.enabled);
        let by_backend = guarantees.map(|b| Some(guarantee(b.guarantee))).collect();
        let settings = settings(config, by_backend);
        if !config.gateway.audit_enabled {
            let auditor = Auditor::new(metrics, None, settings);
            return Ok(Self {
                auditor,
                db: None,
                ingest: None,
                exporter: None,
            });
        }
        let data_dir = &config.gateway.data_dir;
        let recorder = recorder(config, metrics.clone())?;
        let days = u64::from(config.audit.retention_days);
        let retention = (days > 0).then(|| Duration::from_secs(days * 86_400));
        let db = Database::open(config)?;
        let ingest = Ingest::start(recorder.clone(), db.records(), data_dir, retention)
            .context("starting the audit")?;
        let auditor = Auditor::new(metrics, Some(recorder), settings);
        Ok(Self {
            auditor,
            db: Some(db),
            ingest: Some(ingest),
            exporter: None,
        })
    }

    /// Flushes the remaining records to the store, within bounds.
    pub(crate) async fn finish(self) {
        self.auditor.close();
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
        let Some(ingest) = self.ingest else { return };
        let left = ingest.finish(FLUSH_MAX).await;
        if left > 0 {
            tracing::warn!(
                records = left,
                "the audit store did not take everything in time; the next gateway of this data directory will bring it"
            );
        }
    }
}

/// Longest verification for the admin API; `sentinel audit verify` takes as long as it needs.
const VERIFY_MAX: Duration = Duration::from_secs(300);

/// Verifies the chains of all records. Hashing would hold up a worker, so it is done on a thread of its own, which ends
/// when the future is dropped.
pub(crate) async fn verified(
    store: Arc<dyn AuditStore>,
    data_dir: PathBuf,
) -> Result<Verified, Fault> {
    let began = Instant::now();
    let (left, gone) = oneshot::channel::<Infallible>();
    let runtime = Handle::current();
    let work = move || {
        runtime.block_on(async {
            let verifying = timeout(VERIFY_MAX, verify(&*store, &data_dir));
            tokio::select! {
                verdict = verifying => Some(verdict),
                // The one who asked has left.
                _ = gone => None,
            }
        })
    };
    let done = tokio::task::spawn_blocking(work).await;
    drop(left);
    let verdict = match done {
        Ok(Some(Ok(Ok(verdict)))) => verdict,
        Ok(Some(Ok(Err(error)))) => {
            let text = "the audit store does not answer";
            return Err(Fault::new(Kind::AuditUnavailable, text).because(error));
        }
        Ok(Some(Err(_))) => {
            let text = "there are too many records: run `sentinel audit verify` on this machine";
            return Err(Fault::new(Kind::AuditUnavailable, text));
        }
        Ok(None) | Err(_) => return Err(Fault::new(Kind::Internal, "it failed: see the log")),
    };
    let first = verdict.broken.first().map(|broken| BrokenRecord {
        key: broken.key.to_string(),
        reason: broken.reason.clone(),
    });
    Ok(Verified {
        ok: verdict.broken.is_empty(),
        lanes: verdict.lanes,
        records: verdict.records,
        announced: verdict.announced,
        elsewhere: verdict.elsewhere,
        broken: first,
        broken_lanes: verdict.broken.len() as u64,
        took_ms: began.elapsed().as_millis() as u64,
    })
}

pub(crate) fn recorder(config: &Config, metrics: Arc<Metrics>) -> anyhow::Result<Arc<Recorder>> {
    let limits = Limits {
        spool_bytes_max: config.audit.spool_max_mb.bytes(),
        memory_len_max: config.audit.buffer as usize,
        writers: workers::count(),
    };
    let data_dir = &config.gateway.data_dir;
    let made = data_dir::make(data_dir);
    let recorder = made.and_then(|()| Recorder::start(data_dir, limits, metrics));
    recorder.with_context(|| {
        format!(
            "the audit cannot write to {} (gateway.audit_enabled = false goes without)",
            data_dir.display()
        )
    })
}

/// The settings for records; `by_backend` are the backends' own guarantees, by slot.
pub(crate) fn settings(config: &Config, by_backend: Vec<Option<Guarantee>>) -> AuditSettings {
    AuditSettings {
        arguments: match config.audit.arguments {
            AuditArguments::Off => Arguments::Off,
            AuditArguments::Digest => Arguments::Digest,
            AuditArguments::Redacted => Arguments::Redacted,
            AuditArguments::Full => Arguments::Full,
        },
        guarantee: guarantee(config.audit.guarantee),
        by_backend,
    }
}

pub(crate) fn guarantee(word: config::Guarantee) -> Guarantee {
    match word {
        config::Guarantee::Memory => Guarantee::Memory,
        config::Guarantee::Spool => Guarantee::Spool,
        config::Guarantee::Sync => Guarantee::Sync,
    }
}
