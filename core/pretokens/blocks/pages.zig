//! Characters of several bytes → their classes, for all of a block that share a page at once.
//!
//! A page is the 64 characters that have all bytes but the last in common. Most blocks hold one to
//! three of them, whatever the script: an alphabet is a page or two, and so is the punctuation
//! beside it. The class of a character is looked up by its last byte, for all places of the block
//! in the same few instructions. Han, Kana and Hangul, hundreds of pages of nothing but letters,
//! are found by their ranges instead, and the rare pages one character at a time.
//!
//! **Invariant**: what is found is valid UTF-8 and lies in the block. What is not, and all bytes
//! of several bytes behind it, are in no mask.

const std = @import("std");
const sets = @import("../sets.zig");
const unicode = @import("../../unicode.zig");
const bytes_ = @import("bytes.zig");
const Bytes = bytes_.Bytes;
const bits = bytes_.bits;
const splat = bytes_.splat;
const low = bytes_.low;

/// Which properties of letters, marks and symbols a scheme needs. With case, marks behind letters
/// are letters. If it is strict, `other` has symbols only, [\p{P}\p{S}]. If it is pointed,
/// punctuation is told apart, and pretokens may be cut inside of characters.
pub const Letters = enum {
    plain,
    cased,
    strict,
    pointed,

    /// Plain ones have the pages of those with case, of which they use a half.
    fn paged(comptime self: Letters) Letters {
        return if (self == .plain) .cased else self;
    }
};

/// The first bytes of a block's characters, by class; what is in none of them is a symbol.
pub const Leads = struct {
    all: u64 = 0,
    letter: u64 = 0,
    /// Only [U] and only [L] of o200k. A mark, which is in both and no letter, has both bits. If it
    /// is pointed, punctuation is `upper`, and nothing `lower`.
    upper: u64 = 0,
    lower: u64 = 0,
    /// Numbers and white space, which the schemes' bit algebra takes for single bytes. If it is
    /// strict, also what is neither letter nor mark nor symbol.
    stop: u64 = 0,
    /// Characters of at least three bytes, and of four.
    three: u64 = 0,
    four: u64 = 0,

    /// The characters of several bytes in the first `count` bytes at `text`, up to one that is
    /// invalid or cut off. Those that are plain have no case.
    pub inline fn of(text: [*]const u8, count: u7, comptime letters: Letters) Leads {
        const cased = letters != .plain;
        const first: Bytes = bytes_.load(text);
        var leads: Leads = .{};
        if (bits(first -% splat(0xE3) < splat(0xEE - 0xE3)) != 0) {
            leads.letter = wideLetters(text) & low(count -| 2);
            leads.all = leads.letter;
            leads.three = leads.letter;
        }
        var rest = bits(first >= splat(0xC0)) & low(count) & ~leads.all;
        while (rest != 0) {
            const at: u6 = @intCast(@ctz(rest));
            // Also where it is the only one: a choice by their number is hard to predict, and
            // German takes 15 % longer.
            const found = if (Pages(letters.paged()).at(text + at)) |page|
                leads.addPage(page, text, at, count, cased)
            else
                leads.addOne(.at(text + at, count - at, letters.paged()), at, cased);
            if (found >> at & 1 == 0) break;
            rest &= ~found;
        }
        return leads;
    }

    /// All bytes of the characters whose first bytes are in `mask`.
    pub inline fn whole(self: *const Leads, mask: u64) u64 {
        return mask | mask << 1 | (mask & self.three) << 2 | (mask & self.four) << 3;
    }

    /// Adds the characters of the page that the one at `at` lies in; their first bytes.
    inline fn addPage(
        self: *Leads,
        page: *const Page,
        text: [*]const u8,
        at: u6,
        count: u7,
        comptime cased: bool,
    ) u64 {
        const first: Bytes = bytes_.load(text);
        const second: Bytes = bytes_.load(text + 1);
        const same = bits(first == splat(text[at]));
        if (text[at] < 0xE0) return self.add(page, second, same & low(count -| 1), cased);
        const third: Bytes = bytes_.load(text + 2);
        const both = same & bits(second == splat((text + at)[1])) & low(count -| 2);
        const found = self.add(page, third, both, cased);
        self.three |= found;
        return found;
    }

    /// Adds those of the characters at `candidates` whose last byte is one.
    inline fn add(
        self: *Leads,
        page: *const Page,
        last: Bytes,
        candidates: u64,
        comptime cased: bool,
    ) u64 {
        // The high nibble is 8 to B in a continuation byte, and picks one of four bits.
        const picks: bytes_.Table = .{ 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 0, 0, 0, 0 };
        const pick = bytes_.lookup(picks, last >> @splat(4));
        const pick_high = pick << @splat(4);
        const nibble = last & splat(0x0F);
        const found = candidates & bits(pick != splat(0));
        self.all |= found;
        const words = bytes_.lookup(page.words, nibble);
        self.letter |= found & bits(words & pick != splat(0));
        self.stop |= found & bits(words & pick_high != splat(0));
        if (!cased) return found;
        const cases = bytes_.lookup(page.cases, nibble);
        self.upper |= found & bits(cases & pick != splat(0));
        self.lower |= found & bits(cases & pick_high != splat(0));
        return found;
    }

    /// Adds the character at `at`, and gives its bit, or none where it is invalid or cut off.
    inline fn addOne(self: *Leads, class: BlockClass, at: u6, comptime cased: bool) u64 {
        const bit = @as(u64, @intFromBool(class.len != 0)) << at;
        self.all |= bit;
        if (class.letter) self.letter |= bit;
        if (class.stop) self.stop |= bit;
        if (cased and class.upper) self.upper |= bit;
        if (cased and class.lower) self.lower |= bit;
        if (class.len >= 3) self.three |= bit;
        if (class.len == 4) self.four |= bit;
        return bit;
    }
};

/// A character's class as `Leads` has it.
const BlockClass = packed struct(u8) {
    letter: bool = false,
    stop: bool = false,
    upper: bool = false,
    lower: bool = false,
    /// Of the character in bytes; 0 if it is invalid.
    len: u4 = 0,

    fn of(code_point: u21, comptime letters: Letters) BlockClass {
        const class = unicode.class(code_point);
        // One that the tables do not know is left to the scalar scanner too.
        const is_number = class.number or unicode.isNumberOf17(code_point);
        const is_rest = !class.letter and !class.mark and !class.symbol;
        const is_stop = is_number or class.space or (letters == .strict and is_rest);
        if (letters == .pointed) return .{
            .letter = class.letter,
            .stop = is_stop,
            .upper = sets.Punctuation.has(code_point),
        };
        return .{
            .letter = class.letter,
            .stop = is_stop,
            .upper = class.mark or (class.letter and !class.lower),
            .lower = class.mark or (class.letter and !class.upper),
        };
    }

    /// Not inline: few blocks have a character that is on no page.
    noinline fn at(text: [*]const u8, count: u7, comptime letters: Letters) BlockClass {
        const char = unicode.decode(text[0..count], 0);
        if (char.len == 1 or char.code_point == unicode.replacement) return .{};
        var class: BlockClass = .of(char.code_point, letters);
        class.len = char.len;
        return class;
    }
};

/// The classes of 64 characters: an entry for each low nibble of the last byte, which has a bit for
/// each of the four high nibbles, twice.
const Page = struct {
    /// Letters in the low four bits, stops in the high ones.
    words: bytes_.Table = @splat(0),
    /// [U] in the low four bits, [L] in the high ones.
    cases: bytes_.Table = @splat(0),
};

fn Pages(comptime letters: Letters) type {
    return struct {
        /// U+0000 to U+3FFF: all scripts in wide use but those of `wideLetters`.
        const low_ones = pagesFrom(0, 256, letters);
        /// U+F000 to U+FFFF: wide and narrow forms.
        const forms = pagesFrom(0xF000, 64, letters);

        /// The page of the character of several bytes at `text`, if it has one.
        inline fn at(text: [*]const u8) ?*const Page {
            switch (text[0]) {
                0xC2...0xDF => |first| return &low_ones[first & 0x1F],
                0xE0 => if (text[1] -% 0xA0 < 0x20) return &low_ones[text[1] & 0x3F],
                0xE1...0xE3 => |first| if (text[1] -% 0x80 < 0x40) {
                    return &low_ones[@as(usize, first & 0x0F) << 6 | (text[1] & 0x3F)];
                },
                0xEF => if (text[1] -% 0x80 < 0x40) return &forms[text[1] & 0x3F],
                else => {},
            }
            return null;
        }
    };
}

fn pagesFrom(
    comptime start: u21,
    comptime count: usize,
    comptime letters: Letters,
) [count]Page {
    @setEvalBranchQuota(count * 64 * 30);
    var list: [count]Page = @splat(.{});
    for (0..count * 64) |offset| {
        const class: BlockClass = .of(start + offset, letters);
        const page = &list[offset >> 6];
        const bit = 1 << (offset >> 4 & 3);
        if (class.letter) page.words[offset & 15] |= bit;
        if (class.stop) page.words[offset & 15] |= bit << 4;
        if (class.upper) page.cases[offset & 15] |= bit;
        if (class.lower) page.cases[offset & 15] |= bit << 4;
    }
    return list;
}

/// The first bytes of Han, Kana and Hangul letters, which are in both of o200k's sets. Those few
/// that are left out are found one by one like all others.
inline fn wideLetters(text: [*]const u8) u64 {
    const first: Bytes = bytes_.load(text);
    const second: Bytes = bytes_.load(text + 1);
    const third: Bytes = bytes_.load(text + 2);
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

test "pages: characters have their class and length, the last one is cut off" {
    inline for (.{ .cased, .strict, .pointed }) |letters| try expectClasses(letters);
}

fn expectClasses(comptime letters: Letters) !void {
    var start: u21 = 0x80;
    // All that are on pages, and some of the others.
    while (start <= 0x10FFFF) : (start += if (start < 0x4000 or start >> 12 == 0xF) 15 else 500) {
        var text: [bytes_.len + 4]u8 = @splat(0);
        var classes: [bytes_.len]BlockClass = @splat(.{});
        var at: u7 = 0;
        for (start..start + 16) |code_point| {
            if (code_point > 0x10FFFF or (code_point >= 0xD800 and code_point <= 0xDFFF)) break;
            classes[at] = .of(@intCast(code_point), letters);
            classes[at].len = try std.unicode.utf8Encode(@intCast(code_point), text[at..][0..4]);
            at += classes[at].len;
        }
        const count = at -| 1;
        for (&classes, 0..) |*class, place| {
            if (place + class.len > count) class.* = .{};
        }
        const leads: Leads = .of(&text, count, letters);
        for (classes, 0..) |class, place| {
            const found: BlockClass = .{
                .letter = leads.letter >> @intCast(place) & 1 != 0,
                .stop = leads.stop >> @intCast(place) & 1 != 0,
                .upper = leads.upper >> @intCast(place) & 1 != 0,
                .lower = leads.lower >> @intCast(place) & 1 != 0,
                .len = lengthIn(leads, @intCast(place)),
            };
            try std.testing.expectEqual(class, found);
        }
    }
}

fn lengthIn(leads: Leads, place: u6) u4 {
    if (leads.all >> place & 1 == 0) return 0;
    return @intCast(2 + (leads.three >> place & 1) + (leads.four >> place & 1));
}
