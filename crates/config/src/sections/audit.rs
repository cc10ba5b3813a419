//! `[audit]`: what the audit log keeps and how surely.

use crate::section::{Mebibytes, section, words};

section! {
    /// What the audit log keeps and how surely.
    Audit {
        /// How surely a record survives.
        Live guarantee: Guarantee = Guarantee::Spool;
        /// Largest size of the spool, in MiB.
        #[schemars(range(min = 1, max = 1_048_576))]
        Restart spool_max_mb: Mebibytes = Mebibytes(256);
        /// Records kept in memory with the guarantee "memory".
        #[schemars(range(min = 1, max = 16_777_216))]
        Restart buffer: u32 = 65_536;
        /// Days after which records are deleted; 0 keeps them.
        #[schemars(range(min = 0, max = 36_500))]
        Restart retention_days: u32 = 30;
        /// What of a call's arguments is recorded.
        Live arguments: AuditArguments = AuditArguments::Digest;
    }
}

words! {
    /// How surely an audit record survives.
    Guarantee {
        /// Kept in memory until written; lost when the process dies.
        Memory,
        /// In a local file before the answer leaves; survives the process.
        #[default] Spool,
        /// On disk before the answer leaves; may delay or refuse a call.
        Sync,
    }
}
words! {
    /// What of a call's arguments is recorded.
    AuditArguments {
        /// A digest.
        #[default] Digest,
        /// The arguments, with what looks like a credential taken out.
        Redacted,
        /// The arguments as they came.
        Full,
        /// Nothing.
        Off,
    }
}
