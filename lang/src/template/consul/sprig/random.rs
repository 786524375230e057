//! Random values. A template that is rendered again draws the same ones (`World::random`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Called, Worldly, arg, math};
use crate::template::consul::Functions;
use crate::template::{Type, Value};

/// Largest number of characters or bytes.
const COUNT_MAX: usize = 1 << 16;

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &[u8] = b"0123456789";

pub(super) const WORLDLY: &[Worldly] = &[
    ("randAlpha", &[Type::Int], None, |functions, args| text(functions, args, LETTERS)),
    ("randAlphaNum", &[Type::Int], None, |functions, args| text(functions, args, &[LETTERS, DIGITS].concat())),
    ("randAscii", &[Type::Int], None, |functions, args| text(functions, args, &(b' '..=b'~').collect::<Vec<u8>>())),
    ("randBytes", &[Type::Int], None, |functions, args| {
        let mut drawn = Drawn::new(functions);
        let bytes: Vec<u8> = (0..count(args)?).map(|_| drawn.byte()).collect();
        Ok(Value::text(STANDARD.encode(bytes)))
    }),
    ("randInt", &[Type::Int, Type::Int], None, |functions, args| {
        let (from, to) = (math::whole(&args[0]), math::whole(&args[1]));
        let range = to.checked_sub(from).and_then(|range| u64::try_from(range).ok()).filter(|range| *range > 0);
        let range = range.ok_or("invalid argument to Intn")?;
        let below = Drawn::new(functions).below(range);
        Ok(Value::Int(from.wrapping_add_unsigned(below)))
    }),
    ("randNumeric", &[Type::Int], None, |functions, args| text(functions, args, DIGITS)),
    ("shuffle", &[Type::Text], None, |functions, args| {
        let mut drawn = Drawn::new(functions);
        let mut letters: Vec<char> = arg(args, 0).chars().collect();
        for at in (1..letters.len()).rev() {
            let with = usize::try_from(drawn.below(at as u64 + 1)).unwrap_or_default();
            letters.swap(at, with);
        }
        Ok(Value::text(letters.into_iter().collect::<String>()))
    }),
    ("uuidv4", &[], None, |functions, _| {
        let drawn = functions.draw();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&drawn[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Ok(Value::text(parts.join("-")))
    }),
];

fn count(args: &[Value]) -> Result<usize, String> {
    let count = usize::try_from(math::whole(&args[0])).ok().filter(|count| *count <= COUNT_MAX);
    count.ok_or_else(|| format!("the count is not from 0 to {COUNT_MAX}"))
}

fn text(functions: &Functions<'_>, args: &[Value], letters: &[u8]) -> Called {
    let mut drawn = Drawn::new(functions);
    let among = letters.len() as u64;
    let one = |_| usize::try_from(drawn.below(among)).ok().and_then(|at| letters.get(at)).map(|byte| char::from(*byte));
    Ok(Value::text((0..count(args)?).filter_map(one).collect::<String>()))
}

/// Random bytes one after another.
struct Drawn<'f, 'w> {
    functions: &'f Functions<'w>,
    bytes: [u8; 32],
    used: usize,
}

impl<'f, 'w> Drawn<'f, 'w> {
    fn new(functions: &'f Functions<'w>) -> Self {
        Self { functions, bytes: functions.draw(), used: 0 }
    }

    fn byte(&mut self) -> u8 {
        if self.used == self.bytes.len() {
            (self.bytes, self.used) = (self.functions.draw(), 0);
        }
        self.used += 1;
        self.bytes[self.used - 1]
    }

    /// A number below a bound, each as likely as the others.
    fn below(&mut self, bound: u64) -> u64 {
        // The smallest number of bytes that hold the bound; numbers above its last multiple would favour small results.
        let bytes = (u64::BITS - bound.saturating_sub(1).leading_zeros()).div_ceil(8).max(1);
        let most = u64::MAX >> (u64::BITS - 8 * bytes);
        let uneven = (most % bound + 1) % bound;
        loop {
            let number = (0..bytes).fold(0, |number: u64, _| number << 8 | u64::from(self.byte()));
            if number <= most - uneven {
                return number % bound;
            }
        }
    }
}
