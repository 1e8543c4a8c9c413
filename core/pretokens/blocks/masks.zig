//! 64 bytes → one bit per byte for each character class.
//!
//! All bytes of a character have its class, so runs of a class are runs of bits in any script. A
//! character that the bit operations of a pre-tokenizer cannot handle ends the block. The bytes
//! from there on are not `valid`, and the scalar scanner finds the pretoken.

const Bytes = vector.Bytes;
const bits = vector.bits;
const splat = vector.splat;
const platform = @import("../../platform.zig");
const vector = platform.vector;
const pages = @import("pages.zig");
const Leads = pages.Leads;

pub const len = vector.len;
pub const low = vector.low;
pub const flood = vector.flood;

/// Returns the bytes at `text` that are not continuation bytes.
pub inline fn firsts(text: [*]const u8) u64 {
    const bytes: Bytes = vector.load(text);
    return bits(bytes & splat(0xC0) != splat(0x80));
}

pub const Letters = pages.Letters;

pub const Masks = struct {
    letter: u64,
    /// Only [U] and only [L] of o200k. A letter in neither mask is in both sets.
    upper: u64,
    lower: u64,
    number: u64,
    /// Whitespace, including newlines.
    space: u64,
    newline: u64,
    /// [^\s\p{L}\p{N}]
    other: u64,
    /// Hugging Face's punctuation, a subset of `other`.
    point: u64,
    blank: u64,
    apostrophe: u64,
    slash: u64,
    /// First bytes of characters of 2, 3 and 4 bytes in `other`.
    other_leads: [3]u64,
    /// Number of bytes that the masks describe. Bits from there on are zero.
    valid: u7,

    /// Returns the non-ASCII bytes among the first `count` bytes at `text`.
    pub inline fn nonAscii(text: [*]const u8, count: u7) u64 {
        const bytes: Bytes = vector.load(text);
        return bits(bytes >= splat(0x80)) & low(count);
    }

    /// Returns the masks of the 64 bytes at `text`, of which the first `count` are text, without
    /// multi-byte characters.
    pub inline fn ofAscii(text: [*]const u8, count: u7, comptime letters: Letters) Masks {
        const bytes: Bytes = vector.load(text);
        // Bytes after the text are arbitrary.
        const known = low(count);
        const letter = bits((bytes | splat(0x20)) -% splat('a') < splat(26)) & known;
        const number = bits(bytes -% splat('0') < splat(10)) & known;
        const blank = bits(bytes == splat(' ')) & known;
        const space = (bits(bytes -% splat('\t') < splat(5)) & known) | blank;
        const other = known & ~(letter | number | space | bits(bytes >= splat(0x80)));
        const control = if (letters == .strict or letters == .pointed)
            other & (bits(bytes < splat(' ')) | bits(bytes == splat(0x7F)))
        else
            0;
        const lower = if (letters == .cased) letter & bits(bytes & splat(0x20) != splat(0)) else 0;
        var self: Masks = .{
            .letter = letter,
            .upper = if (letters == .cased) letter & ~lower else 0,
            .lower = lower,
            .number = number,
            .space = space,
            .newline = bits((bytes == splat('\n')) | (bytes == splat('\r'))) & known,
            .other = other,
            .point = if (letters == .pointed) other & ~control else 0,
            .blank = blank,
            .apostrophe = bits(bytes == splat('\'')) & known,
            .slash = if (letters == .cased) bits(bytes == splat('/')) & known else 0,
            .other_leads = @splat(0),
            .valid = count,
        };
        if (letters == .strict and control != 0) self.end(@intCast(@ctz(control)));
        return self;
    }

    /// Adds the multi-byte characters. If `in_word`, a letter precedes the block.
    pub inline fn addMultibyte(
        self: *Masks,
        text: [*]const u8,
        in_word: bool,
        comptime letters: Letters,
    ) void {
        const cased = letters == .cased or letters == .strict;
        const leads: Leads = .of(text, self.valid, letters);
        var stops = leads.stop | (nonAscii(text, self.valid) & ~leads.whole(leads.all));
        self.letter |= leads.whole(leads.letter);
        if (letters == .pointed) self.point |= leads.whole(leads.upper);
        const mark_leads = leads.upper & leads.lower;
        if (cased) {
            self.upper |= leads.whole(leads.upper & ~mark_leads);
            self.lower |= leads.whole(leads.lower & ~mark_leads);
            // A mark can also precede a word or follow a symbol. Only after a letter it always
            // belongs to the word.
            const marks = leads.whole(mark_leads);
            const joined = flood(marks & (self.letter << 1 | @intFromBool(in_word)), marks);
            self.letter |= joined;
            stops |= marks & ~joined;
        }
        const others = leads.all & ~(leads.letter | leads.stop | mark_leads);
        self.other |= leads.whole(others);
        self.other_leads = .{
            others & ~leads.three, others & leads.three & ~leads.four, others & leads.four,
        };
        if (stops != 0) self.end(@intCast(@ctz(stops)));
    }

    /// Clears all bits from byte `at` on.
    fn end(self: *Masks, at: u6) void {
        self.valid = at;
        const known = low(at);
        inline for (.{
            "letter", "upper",   "lower", "number",     "space",
            "blank",  "newline", "other", "apostrophe", "slash",
            "point",
        }) |name| @field(self, name) &= known;
    }
};
