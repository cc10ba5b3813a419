//! Maps that every call looks into.

use std::collections::HashMap;

/// Hashed quickly and with a seed of this process, which nobody outside learns. The keys are short and
/// every table is bounded, so a hash that also stands against somebody who can watch it is not needed.
pub type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
