//! What a check may cost. The validator reads arguments through [`Metered`], and every look has a price: when the
//! allowance is spent the check unwinds to [`run`], whatever the schema was about to do next.
//!
//! The work is counted where it is done rather than foretold from schema and arguments: a forecast has to know how the
//! validator shortens, remembers and repeats its work, and is wrong on one side or the other when it does not.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, SerdeJson, cmp};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Number, Value, map};
use smallvec::SmallVec;

/// Bytes of text that are one look.
const BYTES_PER_LOOK: usize = 8;
/// An error is a few hundred bytes, and is kept until all are found.
const ERROR_PRICE: u64 = 50;
/// A worker has 2 MiB of stack.
const STACK_MAX: usize = 1 << 20;
/// The cycle guard compares a value with all that are being looked at, which is about as many as there are of these.
const STACK_PER_LOOK: usize = 1 << 10;
/// With a [`CostHints::Careful`] schema: the longest text that meets a pattern, and the time all of them may take.
const CAREFUL_BYTES_MAX: usize = 16 * 1024;
const CAREFUL_NANOS_MAX: u64 = 50_000_000;
/// Shorter arrays are compared pair by pair.
const PAIRS_MAX: usize = 15;

/// What is to be known of a schema while it is used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CostHints {
    /// It has a pattern whose steps cannot be told from the length of a text.
    pub careful: bool,
    /// Names of members meet this many patterns.
    pub name_patterns: u64,
    /// Numbers are divided, by such.
    pub fractions: Fractions,
    /// Its errors print what they are about, however large.
    pub prints: bool,
}

/// `multipleOf` divides fractions with all their digits, some hundreds at the ends of the range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fractions {
    #[default]
    None,
    Short,
    Long,
}

impl Fractions {
    pub(super) fn of(number: &Number) -> Self {
        let size = number.as_f64().unwrap_or(0.0).abs();
        match size == 0.0 || (1e-9..1e18).contains(&size) {
            true => Self::Short,
            false => Self::Long,
        }
    }

    fn price(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Short => 4,
            Self::Long => 100,
        }
    }
}

/// The allowance was not enough.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AllowanceExceeded;

struct Meter {
    left: Cell<u64>,
    /// Where the stack was when the check began.
    stack: Cell<usize>,
    deadline: Cell<u64>,
    hints: Cell<CostHints>,
}

thread_local! {
    static METER: Meter = const {
        Meter {
            left: Cell::new(u64::MAX),
            stack: Cell::new(usize::MAX),
            deadline: Cell::new(u64::MAX),
            hints: Cell::new(CostHints {
                careful: false,
                name_patterns: 0,
                fractions: Fractions::None,
                prints: false,
            }),
        }
    };
}

/// Runs a check within an allowance; also says how much of it was spent.
pub(super) fn run<T>(
    allowance: u64,
    hints: CostHints,
    check: impl FnOnce() -> T,
) -> (Result<T, AllowanceExceeded>, u64) {
    METER.with(|meter| {
        meter.left.set(allowance);
        meter.stack.set(here());
        meter.hints.set(hints);
        if hints.careful {
            meter.deadline.set(cpu_nanos() + CAREFUL_NANOS_MAX);
        }
    });
    let outcome = catch_unwind(AssertUnwindSafe(check));
    let left = METER.with(|meter| {
        meter.stack.set(usize::MAX);
        meter.left.replace(u64::MAX)
    });
    let outcome = match outcome {
        Ok(outcome) => Ok(outcome),
        Err(payload) if payload.is::<AllowanceExceeded>() => Err(AllowanceExceeded),
        Err(payload) => resume_unwind(payload),
    };
    (outcome, allowance - left)
}

#[inline]
fn spend(looks: u64) {
    METER.with(|meter| {
        let deep = meter.stack.get().saturating_sub(here()) > STACK_MAX;
        match meter.left.get().checked_sub(looks) {
            Some(left) if !deep => meter.left.set(left),
            _ => give_up(meter),
        }
    });
}

#[cold]
fn give_up(meter: &Meter) -> ! {
    meter.left.set(0);
    // Unwinding without a panic: nothing is reported, nobody's hook is called.
    resume_unwind(Box::new(AllowanceExceeded))
}

fn spend_text(text: &str, patterns: u64) {
    spend(patterns.saturating_mul(1 + (text.len() / BYTES_PER_LOOK) as u64));
    METER.with(|meter| {
        if meter.hints.get().careful
            && (text.len() > CAREFUL_BYTES_MAX || cpu_nanos() > meter.deadline.get())
        {
            give_up(meter);
        }
    });
}

fn spend_for_cycle_guard() {
    let depth = METER.with(|meter| meter.stack.get().saturating_sub(here()));
    spend(1 + (depth / STACK_PER_LOOK) as u64);
}

/// A value with all that it holds: what comparing or printing it costs.
fn spend_whole(value: &Value) {
    match value {
        Value::String(text) => spend(1 + (text.len() / BYTES_PER_LOOK) as u64),
        Value::Array(items) => {
            spend(1);
            items.iter().for_each(spend_whole);
        }
        Value::Object(members) => {
            for (name, value) in members {
                spend(1 + (name.len() / BYTES_PER_LOOK) as u64);
                spend_whole(value);
            }
        }
        _ => spend(1),
    }
}

/// Where the stack is.
#[inline]
fn here() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Time that this thread has worked: it does not matter who else uses the machine.
fn cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// `serde_json` as the validator knows it, at a price.
pub(super) struct MeteredJson;

#[derive(Clone, Copy)]
pub(super) struct Metered<'a>(pub &'a Value);

#[derive(Clone, Copy)]
pub(super) struct Members<'a>(&'a Map<String, Value>);

#[derive(Clone, Copy)]
pub(super) struct Items<'a>(&'a [Value]);

impl Json for MeteredJson {
    type Node<'a> = Metered<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    const KEYS_PER_LOOKUP: usize = SerdeJson::KEYS_PER_LOOKUP;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(Metered<'_>) -> T,
    ) -> T {
        SerdeJson::with_string_node(buffer, string, |node| f(Metered(node)))
    }
}

impl<'a> Node<'a, MeteredJson> for Metered<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        spend(1);
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        spend(1);
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let Some(text) = self.0.as_str() else {
            spend(1);
            return None;
        };
        spend_text(text, 1);
        Some(Cow::Borrowed(text))
    }

    fn as_number(&self) -> Option<&'a Number> {
        let number = self.0.as_number();
        let divided = METER.with(|meter| meter.hints.get().fractions);
        match number {
            Some(number) if divided != Fractions::None => {
                spend(divided.max(Fractions::of(number)).price());
            }
            _ => spend(1),
        }
        number
    }

    fn as_boolean(&self) -> Option<bool> {
        spend(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        spend(1);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        spend(1);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        let text = self.0.as_str();
        spend(1 + text.map_or(0, |text| text.len() / BYTES_PER_LOOK) as u64);
        text.map(|text| text.chars().count() as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        // What is not of one size differs at the first look.
        match (self.0, expected) {
            (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
                spend_whole(expected);
            }
            (Value::Object(ours), Value::Object(theirs)) if ours.len() == theirs.len() => {
                spend_whole(expected);
            }
            (Value::String(ours), Value::String(theirs)) if ours.len() == theirs.len() => {
                spend_whole(expected);
            }
            _ => spend(1),
        }
        cmp::equal(self.0, expected)
    }

    /// Only errors ask for it.
    fn to_value(&self) -> Cow<'a, Value> {
        spend(ERROR_PRICE);
        if METER.with(|meter| meter.hints.get().prints) {
            spend_whole(self.0);
        }
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        spend_for_cycle_guard();
        Some(NodeIdentity::new(std::ptr::from_ref(self.0).addr()))
    }
}

impl<'a> Object<'a, MeteredJson> for Members<'a> {
    type Node = Metered<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Metered<'a>> {
        spend(1);
        self.0.get(key.as_str()).map(Metered)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.0.iter())
    }
}

pub(super) struct MembersIter<'a>(map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Metered<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        match METER.with(|meter| meter.hints.get().name_patterns) {
            0 => spend(1),
            patterns => spend_text(name, patterns),
        }
        Some((name, Metered(value)))
    }
}

impl<'a> Array<'a, MeteredJson> for Items<'a> {
    type Node = Metered<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        if self.0.len() > PAIRS_MAX {
            return DuplicateFinder::default().are_unique(self.0);
        }
        self.0.iter().enumerate().all(|(at, item)| {
            let others = &self.0[at + 1..];
            !others.iter().any(|other| Metered(item).equals_value(other))
        })
    }
}

pub(super) struct ItemsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Metered<'a>;

    fn next(&mut self) -> Option<Metered<'a>> {
        let item = self.0.next()?;
        spend(1);
        Some(Metered(item))
    }
}

/// Finds duplicates by hashes with a secret of their own. Those of the crate can be made to collide (empty arrays, large
/// integers), and then each item is compared with each.
#[derive(Default)]
struct DuplicateFinder {
    secret: RandomState,
}

impl DuplicateFinder {
    fn are_unique(&self, items: &[Value]) -> bool {
        let mut seen: HashMap<u64, SmallVec<[usize; 1]>> = HashMap::with_capacity(items.len());
        items.iter().enumerate().all(|(at, item)| {
            let alike = seen.entry(self.mark(item)).or_default();
            let mut others = alike.iter().map(|at| &items[*at]);
            let known = others.any(|other| Metered(item).equals_value(other));
            alike.push(at);
            !known
        })
    }

    fn mark(&self, value: &Value) -> u64 {
        spend(2);
        let mut hasher = self.secret.build_hasher();
        std::mem::discriminant(value).hash(&mut hasher);
        match value {
            Value::Null => {}
            Value::Bool(value) => value.hash(&mut hasher),
            Value::Number(number) => hash_number(number, &mut hasher),
            Value::String(text) => {
                spend((text.len() / BYTES_PER_LOOK) as u64);
                text.hash(&mut hasher);
            }
            Value::Array(items) => {
                items.len().hash(&mut hasher);
                for item in items {
                    self.mark(item).hash(&mut hasher);
                }
            }
            Value::Object(members) => {
                // In whatever order they come.
                let sum = members.iter().fold(0_u64, |sum, (name, value)| {
                    spend((name.len() / BYTES_PER_LOOK) as u64);
                    sum.wrapping_add(self.secret.hash_one((name, self.mark(value))))
                });
                (members.len(), sum).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// 1 and 1.0 are one number.
fn hash_number(number: &Number, hasher: &mut impl Hasher) {
    let whole = match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(whole), _, _) => Some(i128::from(whole)),
        (_, Some(whole), _) => Some(i128::from(whole)),
        // Beyond 64 bits nothing is equal to it but the same float.
        (_, _, Some(float)) if float.fract() == 0.0 => Some(float as i128),
        _ => None,
    };
    match whole {
        Some(whole) => whole.hash(hasher),
        None => number.as_f64().map(f64::to_bits).hash(hasher),
    }
}
