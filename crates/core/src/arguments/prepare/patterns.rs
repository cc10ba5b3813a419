//! What a regular expression costs, by its text.

/// Whether a pattern needs more than one pass over a text; when in doubt it does.
pub(super) fn may_backtrack(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    bytes.windows(2).enumerate().any(|(at, pair)| match pair {
        b"(?" => bytes.get(at + 2) != Some(&b':'),
        [b'\\', after] => matches!(after, b'1'..=b'9' | b'k' | b'g' | b'G' | b'K' | b'Z'),
        [b'*' | b'+' | b'?' | b'}', b'+'] => true,
        _ => false,
    })
}

/// About how large a pattern is once its repeats are written out.
pub(super) fn atoms(pattern: &str) -> u64 {
    let mut outer: Vec<u64> = Vec::new();
    let (mut sum, mut last) = (0_u64, 0_u64);
    let mut chars = pattern.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let atom = match char {
            '(' => {
                outer.push(sum);
                (sum, last) = (0, 0);
                continue;
            }
            ')' => {
                let inner = sum;
                sum = outer.pop().unwrap_or(0);
                inner + 1
            }
            '{' => {
                let times = repeats(&pattern[at + 1..]);
                sum = sum.saturating_add(last.saturating_mul(times.saturating_sub(1)));
                last = last.saturating_mul(times.max(1));
                continue;
            }
            '[' => class(&mut chars),
            '\\' => match chars.next() {
                // Classes of Unicode are long lists.
                Some((_, 'p' | 'P')) => 100,
                Some((_, 'D' | 'S' | 'W')) => 8,
                _ => 1,
            },
            '.' => 8,
            _ => 1,
        };
        sum = sum.saturating_add(atom);
        last = atom;
    }
    outer.into_iter().fold(sum, u64::saturating_add)
}

fn class(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>) -> u64 {
    let mut size = 2;
    while let Some((_, char)) = chars.next() {
        match char {
            ']' => break,
            '^' => size += 8,
            '\\' => match chars.next() {
                Some((_, 'p' | 'P')) => size += 100,
                _ => size += 1,
            },
            _ if char.is_ascii() => {}
            _ => size += 1,
        }
    }
    size
}

/// The most that `{n}`, `{n,}` or `{n,m}` asks for; 1 if this is none of them.
fn repeats(after: &str) -> u64 {
    let Some((inside, _)) = after.split_once('}') else {
        return 1;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (number(least), number(most)) {
        (_, Some(most)) => most.max(1),
        (Some(least), None) => least.max(1),
        (None, None) => 1,
    }
}
