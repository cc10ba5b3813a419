//! Maps that every call looks into.

use std::collections::HashMap;

/// Fast hashing with a seed of this process. The keys are short and every table is bounded, so a hash that resists an
/// attacker who observes timings is not needed.
pub type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
