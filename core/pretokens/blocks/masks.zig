//! 64 bytes → one bit a byte for each class of character.
//!
//! A character of several bytes has its class on all of them, so that runs of a class are runs of
//! bits whatever their script. What the bit algebra of a scheme cannot decide ends the block: the
//! bytes from there on are not `valid`, and the scalar scanner takes the pretoken over.

const std = @import("std");
const unicode = @import("../../unicode.zig");

pub const len = 64;
pub const Bytes = @Vector(len, u8);
const Flags = @Vector(len, bool);

/// Which of the letters' and marks' properties a scheme needs.
pub const Letters = enum { plain, cased };

pub const Masks = struct {
    letter: u64,
    /// Only [U] and only [L] of o200k; a letter in neither is in both.
    upper: u64,
    lower: u64,
    number: u64,
    /// White space, newlines included.
    space: u64,
    newline: u64,
    /// [^\s\p{L}\p{N}]
    other: u64,
    blank: u64,
    apostrophe: u64,
    slash: u64,
    /// First bytes of characters of 2, 3 and 4 bytes in `other`.
    other_leads: [3]u64,
    /// How many bytes the masks hold; bits from there on are zero.
    valid: u7,

    /// Which of the first `count` bytes at `text` are of characters of several bytes.
    pub inline fn nonAscii(text: [*]const u8, count: u7) u64 {
        const bytes: Bytes = text[0..len].*;
        return bits(bytes >= splat(0x80)) & low(count);
    }

    /// The masks of the 64 bytes at `text`, of which the first `count` are text, without the
    /// characters of several bytes.
    pub inline fn ofAscii(text: [*]const u8, count: u7, comptime letters: Letters) Masks {
        const bytes: Bytes = text[0..len].*;
        // Bytes behind the text are whatever they are.
        const known = low(count);
        const letter = bits((bytes | splat(0x20)) -% splat('a') < splat(26)) & known;
        const number = bits(bytes -% splat('0') < splat(10)) & known;
        const blank = bits(bytes == splat(' ')) & known;
        const space = (bits(bytes -% splat('\t') < splat(5)) & known) | blank;
        const lower = if (letters == .cased) letter & bits(bytes & splat(0x20) != splat(0)) else 0;
        return .{
            .letter = letter,
            .upper = if (letters == .cased) letter & ~lower else 0,
            .lower = lower,
            .number = number,
            .space = space,
            .newline = bits((bytes == splat('\n')) | (bytes == splat('\r'))) & known,
            .other = known & ~(letter | number | space | bits(bytes >= splat(0x80))),
            .blank = blank,
            .apostrophe = bits(bytes == splat('\'')) & known,
            .slash = if (letters == .cased) bits(bytes == splat('/')) & known else 0,
            .other_leads = @splat(0),
            .valid = count,
        };
    }

    /// Adds the characters of several bytes.
    pub fn addMultibyte(self: *Masks, text: [*]const u8, comptime letters: Letters) void {
        const wide = wideLetters(text) & low(self.valid -| 2);
        const wide_bytes = wide | wide << 1 | wide << 2;
        self.letter |= wide_bytes;
        var rest = nonAscii(text, self.valid) & ~wide_bytes;
        while (rest != 0) {
            const at: u6 = @intCast(@ctz(rest));
            const char = unicode.decode(text[at..self.valid], 0);
            if (char.len == 1 or char.code_point == unicode.replacement) return self.end(at);
            const ones = ((@as(u64, 1) << char.len) - 1) << at;
            rest &= ~ones;
            const class = unicode.class(char.code_point);
            if (class.letter) {
                self.letter |= ones;
                if (letters == .cased) {
                    if (!class.lower) self.upper |= ones;
                    if (!class.upper) self.lower |= ones;
                }
            } else if (letters == .cased and class.mark) {
                // A mark may also stand before a word or among symbols; only behind a letter it
                // can be nothing else than a part of the word.
                if (self.letter << 1 >> at & 1 == 0) return self.end(at);
                self.letter |= ones;
            } else if (class.number or class.space) {
                return self.end(at);
            } else {
                self.other |= ones;
                self.other_leads[char.len - 2] |= @as(u64, 1) << at;
            }
        }
    }

    /// Forgets everything from byte `at` on.
    fn end(self: *Masks, at: u6) void {
        self.valid = at;
        const known = low(at);
        inline for (.{
            "letter", "upper",   "lower", "number",     "space",
            "blank",  "newline", "other", "apostrophe", "slash",
        }) |name| @field(self, name) &= known;
    }
};

/// The first bytes of Han, Kana and Hangul letters, which are in both of o200k's sets. Those few
/// that are left out are found one by one like all others.
inline fn wideLetters(text: [*]const u8) u64 {
    const first: Bytes = text[0..len].*;
    const second: Bytes = text[1..][0..len].*;
    const third: Bytes = text[2..][0..len].*;
    const continued = bits((second ^ splat(0x80)) | (third ^ splat(0x80)) < splat(0x40));
    // U+4E00 to U+9FFF, but of E4 only from B8 on
    const han = bits(first -% splat(0xE5) < splat(5)) |
        (bits(first == splat(0xE4)) & bits(second >= splat(0xB8)));
    // U+3041 to U+3096, U+30A1 to U+30FA
    const hiragana = (bits(second == splat(0x81)) & bits(third > splat(0x80))) |
        (bits(second == splat(0x82)) & bits(third < splat(0x97)));
    const katakana = (bits(second == splat(0x82)) & bits(third > splat(0xA0))) |
        (bits(second == splat(0x83)) & bits(third != splat(0xBB)));
    const kana = bits(first == splat(0xE3)) & (hiragana | katakana);
    // U+AC00 to U+D77F
    const hangul = bits(first -% splat(0xEB) < splat(2)) |
        (bits(first == splat(0xEA)) & bits(second >= splat(0xB0))) |
        (bits(first == splat(0xED)) & bits(second < splat(0x9E)));
    return (han | kana | hangul) & continued;
}

inline fn splat(byte: u8) Bytes {
    return @splat(byte);
}

inline fn bits(flags: Flags) u64 {
    return @bitCast(flags);
}

/// The lowest `count` bits, up to all 64.
pub inline fn low(count: u7) u64 {
    return if (count >= 64) ~@as(u64, 0) else (@as(u64, 1) << @intCast(count)) - 1;
}

/// All bits of `run` that are reached from `seeds` by going up through `run`. Seeds lie in `run`.
pub inline fn flood(seeds: u64, run: u64) u64 {
    return run & ((run ^ (run +% seeds)) | seeds);
}
