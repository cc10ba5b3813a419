//! How a section of the file is declared: each key once, with its meaning, its default and its reload rule.
//!
//! `section!` makes of one declaration the type that decodes the file, the defaults, the schema (doc comments are
//! descriptions, range attributes are checked), and the comparison of two configurations that a reload needs. Where the
//! program needs another type than the file (an address, a secret), the section names a second type that its module builds.
//!
//! Not here: the sections themselves (`sections`).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// When a changed key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// By a reload, without interrupting anything.
    Live,
    /// By a reload, which starts the backend anew.
    Replace,
    /// When the program starts again; a reload names the key in `restart_needed`.
    Restart,
}

/// A key and its reload rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    pub reload: Reload,
}

/// A section as the program uses it.
pub trait Section: Clone + PartialEq {
    const KEYS: &'static [Key];

    /// The keys whose values differ.
    fn changed(&self, other: &Self) -> Vec<&'static Key>;

    /// Takes the values of all keys that only a restart changes from the configuration of the start.
    fn keep_startup_only(&mut self, first: &Self);
}

/// A section that may be absent; whether it is there is decided by its keys' rule.
impl<T: Section> Section for Option<T> {
    const KEYS: &'static [Key] = T::KEYS;

    fn changed(&self, other: &Self) -> Vec<&'static Key> {
        match (self, other) {
            (None, None) => Vec::new(),
            (Some(this), Some(other)) => this.changed(other),
            _ => T::KEYS.iter().collect(),
        }
    }

    fn keep_startup_only(&mut self, first: &Self) {
        match (self, first) {
            (Some(this), Some(first)) => this.keep_startup_only(first),
            (this, first) if T::KEYS.iter().all(|key| key.reload == Reload::Restart) => {
                this.clone_from(first);
            }
            _ => {}
        }
    }
}

/// Tables of one kind, compared as a whole; only a restart changes them.
impl<T: Section> Section for Vec<T> {
    const KEYS: &'static [Key] = T::KEYS;

    fn changed(&self, other: &Self) -> Vec<&'static Key> {
        if self.len() != other.len() {
            return T::KEYS.iter().collect();
        }
        let is_changed = |key: &&'static Key| {
            let mut pairs = self.iter().zip(other);
            pairs.any(|(this, other)| this.changed(other).contains(key))
        };
        T::KEYS.iter().filter(is_changed).collect()
    }

    fn keep_startup_only(&mut self, first: &Self) {
        self.clone_from(first);
    }
}

/// Declares a section: `Rule key: type = default;` for each key. `Raw => Built` names the type that the module
/// builds of it, whose fields have the same names, or those in parentheses.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident { $($keys:tt)* }) => {
        section!(@raw pub [Clone, PartialEq, serde::Serialize] $(#[$meta])* $name { $($keys)* });
        section!(@section $name { $($keys)* });
    };
    ($(#[$meta:meta])* $raw:ident => $built:ident { $($keys:tt)* }) => {
        section!(@raw pub(crate) [Clone] $(#[$meta])* $raw { $($keys)* });
        section!(@section $built { $($keys)* });
    };
    (@raw $vis:vis [$($derive:path),*] $(#[$meta:meta])* $name:ident {
        $($(#[$key_meta:meta])* $rule:ident $key:ident $(($field:ident))?: $type:ty = $default:expr;)*
    }) => {
        #[derive(Debug, serde::Deserialize, schemars::JsonSchema, $($derive),*)]
        #[serde(default, deny_unknown_fields)]
        $(#[$meta])*
        $vis struct $name {
            $($(#[$key_meta])* $vis $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
    (@section $built:ident {
        $($(#[$key_meta:meta])* $rule:ident $key:ident $(($field:ident))?: $type:ty = $default:expr;)*
    }) => {
        impl $crate::section::Section for $built {
            const KEYS: &'static [$crate::section::Key] = &[$($crate::section::Key {
                name: $crate::section::plain(stringify!($key)),
                reload: $crate::section::Reload::$rule,
            },)*];

            fn changed(&self, other: &Self) -> Vec<&'static $crate::section::Key> {
                let same = [$(section!(@same [$key $($field)?] self other),)*];
                let keys = Self::KEYS.iter().zip(same);
                keys.filter(|(_, same)| !same).map(|(key, _)| key).collect()
            }

            fn keep_startup_only(&mut self, first: &Self) {
                $(section!(@keep $rule [$key $($field)?] self first);)*
            }
        }
    };
    (@same [$key:ident] $this:ident $other:ident) => { $this.$key == $other.$key };
    (@same [$key:ident $field:ident] $this:ident $other:ident) => { $this.$field == $other.$field };
    (@keep Restart [$key:ident] $this:ident $first:ident) => { $this.$key = $first.$key.clone() };
    (@keep Restart [$key:ident $field:ident] $this:ident $first:ident) => { $this.$field = $first.$field.clone() };
    (@keep $rule:ident [$($names:ident)*] $this:ident $first:ident) => { let _ = $first; };
}
pub(crate) use section;

/// A key's name without the mark that Rust wants before its own words.
pub(crate) const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Declares the words that a key may have, the same for the file and for the program.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$doc])* $variant),+ }
    };
}
pub(crate) use words;

/// Durations in seconds, for `#[serde(with)]`.
pub(crate) mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        match time.subsec_nanos() {
            0 => to.serialize_u64(time.as_secs()),
            _ => to.serialize_f64(time.as_secs_f64()),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}

/// A size that the file gives in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Mebibytes(pub u32);

impl Mebibytes {
    pub fn bytes(self) -> u64 {
        u64::from(self.0) << 20
    }
}

/// A size that the file gives in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Kibibytes(pub u32);

impl Kibibytes {
    pub fn bytes(self) -> u64 {
        u64::from(self.0) << 10
    }
}

/// For keys where an empty string is an absent value.
pub(crate) fn shown_or_empty<T: ToString, S: Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.as_ref().map_or_else(String::new, T::to_string))
}

/// For addresses, where "off" is none.
pub(crate) fn shown_or_off<T: ToString, S: Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(
        &value
            .as_ref()
            .map_or_else(|| "off".to_owned(), T::to_string),
    )
}
