//! 64 bytes → one bit a byte for each class of character.
//!
//! A character of several bytes has its class on all of them, so that runs of a class are runs of
//! bits whatever their script. What the bit algebra of a scheme cannot decide ends the block: the
//! bytes from there on are not `valid`, and the scalar scanner takes the pretoken over.

const bytes_ = @import("bytes.zig");
const Bytes = bytes_.Bytes;
const bits = bytes_.bits;
const splat = bytes_.splat;
const pages = @import("pages.zig");
const Leads = pages.Leads;

pub const len = bytes_.len;
pub const low = bytes_.low;
pub const flood = bytes_.flood;

/// The bytes at `text` that continue no character.
pub inline fn firsts(text: [*]const u8) u64 {
    const bytes: Bytes = bytes_.load(text);
    return bits(bytes & splat(0xC0) != splat(0x80));
}

pub const Letters = pages.Letters;

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
    /// Hugging Face's punctuation, which is `other`.
    point: u64,
    blank: u64,
    apostrophe: u64,
    slash: u64,
    /// First bytes of characters of 2, 3 and 4 bytes in `other`.
    other_leads: [3]u64,
    /// How many bytes the masks hold; bits from there on are zero.
    valid: u7,

    /// Which of the first `count` bytes at `text` are of characters of several bytes.
    pub inline fn nonAscii(text: [*]const u8, count: u7) u64 {
        const bytes: Bytes = bytes_.load(text);
        return bits(bytes >= splat(0x80)) & low(count);
    }

    /// The masks of the 64 bytes at `text`, of which the first `count` are text, without the
    /// characters of several bytes.
    pub inline fn ofAscii(text: [*]const u8, count: u7, comptime letters: Letters) Masks {
        const bytes: Bytes = bytes_.load(text);
        // Bytes behind the text are whatever they are.
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

    /// Adds the characters of several bytes. In the middle of a word there is a letter before the
    /// first of them.
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
            // A mark may also stand before a word or among symbols; only behind a letter it can
            // be nothing else than a part of the word.
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

    /// Forgets everything from byte `at` on.
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
