//! How the transaction of one operation is opened.

/// An isolation level that can be asked for, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// Reads the name as SQL has it, in any case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match () {
            () if is("read committed") => Some(Self::ReadCommitted),
            () if is("repeatable read") => Some(Self::RepeatableRead),
            () if is("serializable") => Some(Self::Serializable),
            () => None,
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// The mode of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mode {
    /// `None`: the server's default.
    pub(super) isolation: Option<Isolation>,
    pub(super) is_read_only: bool,
    /// Waits for a snapshot that cannot fail. Means something for serializable read-only transactions only.
    pub(super) is_deferrable: bool,
}

impl Mode {
    /// The statement that opens it.
    pub(super) fn begin(self) -> String {
        let mut sql = String::from("BEGIN");
        if let Some(isolation) = self.isolation {
            sql.push_str(" ISOLATION LEVEL ");
            sql.push_str(isolation.sql());
        }
        if self.is_read_only {
            sql.push_str(" READ ONLY");
        }
        if self.is_deferrable {
            sql.push_str(" DEFERRABLE");
        }
        sql
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_sql() {
        assert_eq!(Mode::default().begin(), "BEGIN");
        let mode = Mode {
            isolation: Isolation::parse("Serializable"),
            is_read_only: true,
            is_deferrable: true,
        };
        let sql = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE";
        assert_eq!(mode.begin(), sql);
        assert_eq!(Isolation::parse("chaos"), None);
        assert!(Isolation::ReadCommitted < Isolation::Serializable);
    }
}
