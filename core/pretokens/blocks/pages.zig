//! Multi-byte characters → their classes, at once for all characters of a block on the same page.
//!
//! A page is the 64 characters with the same bytes except the last. Most blocks contain one to
//! three pages in any script: an alphabet has one or two, and its punctuation one more. A class is
//! looked up by the last byte, for all positions of the block in the same few instructions. Han,
//! Kana and Hangul, which fill hundreds of pages with letters, are detected by their ranges
//! instead. Characters on rare pages are decoded one at a time.
//!
//! **Invariant**: only complete, valid UTF-8 characters in the block are found. An invalid or
//! incomplete character, and all multi-byte characters after it, are in no mask.

const std = @import("std");
const platform = @import("../../platform.zig");
const vector = platform.vector;
const sets = @import("../sets.zig");
const unicode = @import("../../unicode.zig");
const Bytes = vector.Bytes;
const bits = vector.bits;
const splat = vector.splat;
const low = vector.low;

/// The properties of letters, marks and symbols that a pre-tokenizer needs. `cased`: marks after
/// letters are letters. `strict`: `other` contains only symbols, [\p{P}\p{S}]. `pointed`:
/// punctuation is distinguished, and pretokens may be split inside characters.
pub const Letters = enum {
    plain,
    cased,
    strict,
    pointed,

    /// `plain` shares the pages of `cased` and uses half of them.
    fn paged(comptime self: Letters) Letters {
        return if (self == .plain) .cased else self;
    }
};

/// The first bytes of a block's characters, by class. Characters in no class are symbols.
pub const Leads = struct {
    all: u64 = 0,
    letter: u64 = 0,
    /// Only [U] and only [L] of o200k. A mark, which is in both sets and not a letter, has both
    /// bits. With `pointed`, `upper` is punctuation and `lower` is empty.
    upper: u64 = 0,
    lower: u64 = 0,
    /// Numbers and whitespace, which the bit operations support only as single bytes. With
    /// `strict`, also all characters other than letters, marks and symbols.
    stop: u64 = 0,
    /// Characters of at least three bytes, and of four.
    three: u64 = 0,
    four: u64 = 0,

    /// Returns the multi-byte characters in the first `count` bytes at `text`, up to an invalid or
    /// incomplete one. With `plain`, case is left out.
    pub inline fn of(text: [*]const u8, count: u7, comptime letters: Letters) Leads {
        const cased = letters != .plain;
        const first: Bytes = vector.load(text);
        var leads: Leads = .{};
        if (bits(first -% splat(0xE3) < splat(0xEE - 0xE3)) != 0) {
            leads.letter = wideLetters(text) & low(count -| 2);
            leads.all = leads.letter;
            leads.three = leads.letter;
        }
        var rest = bits(first >= splat(0xC0)) & low(count) & ~leads.all;
        while (rest != 0) {
            const at: u6 = @intCast(@ctz(rest));
            // Also for a single character. Branching on the number of characters is hard to predict
            // and makes German text 15 % slower.
            const found = if (Pages(letters.paged()).at(text + at)) |page|
                leads.addPage(page, text, at, count, cased)
            else
                leads.addOne(.at(text + at, count - at, letters.paged()), at, cased);
            if (found >> at & 1 == 0) break;
            rest &= ~found;
        }
        return leads;
    }

    /// Returns all bytes of the characters whose first bytes are in `mask`.
    pub inline fn whole(self: *const Leads, mask: u64) u64 {
        return mask | mask << 1 | (mask & self.three) << 2 | (mask & self.four) << 3;
    }

    /// Adds the characters on the same page as the one at `at`. Returns their first bytes.
    inline fn addPage(
        self: *Leads,
        page: *const Page,
        text: [*]const u8,
        at: u6,
        count: u7,
        comptime cased: bool,
    ) u64 {
        const first: Bytes = vector.load(text);
        const second: Bytes = vector.load(text + 1);
        const same = bits(first == splat(text[at]));
        if (text[at] < 0xE0) return self.add(page, second, same & low(count -| 1), cased);
        const third: Bytes = vector.load(text + 2);
        const both = same & bits(second == splat((text + at)[1])) & low(count -| 2);
        const found = self.add(page, third, both, cased);
        self.three |= found;
        return found;
    }

    /// Adds those characters at `candidates` whose last byte is a continuation byte.
    inline fn add(
        self: *Leads,
        page: *const Page,
        last: Bytes,
        candidates: u64,
        comptime cased: bool,
    ) u64 {
        // The high nibble of a continuation byte is 8 to B, and selects one of four bits.
        const picks: vector.Table = .{ 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 0, 0, 0, 0 };
        const pick = vector.lookup(picks, last >> @splat(4));
        const pick_high = pick << @splat(4);
        const nibble = last & splat(0x0F);
        const found = candidates & bits(pick != splat(0));
        self.all |= found;
        const words = vector.lookup(page.words, nibble);
        self.letter |= found & bits(words & pick != splat(0));
        self.stop |= found & bits(words & pick_high != splat(0));
        if (!cased) return found;
        const cases = vector.lookup(page.cases, nibble);
        self.upper |= found & bits(cases & pick != splat(0));
        self.lower |= found & bits(cases & pick_high != splat(0));
        return found;
    }

    /// Adds the character at `at` and returns its bit, or 0 if it is invalid or incomplete.
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

/// The class of a character in terms of `Leads`.
const BlockClass = packed struct(u8) {
    letter: bool = false,
    stop: bool = false,
    upper: bool = false,
    lower: bool = false,
    /// Length of the character in bytes; 0 if it is invalid.
    len: u4 = 0,

    fn of(code_point: u21, comptime letters: Letters) BlockClass {
        const class = unicode.class(code_point);
        // Numbers missing in the tables are left to the scalar scanner too.
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

    /// Not inline: few blocks have a character without a page.
    noinline fn at(text: [*]const u8, count: u7, comptime letters: Letters) BlockClass {
        const char = unicode.decode(text[0..count], 0);
        if (char.len == 1 or char.code_point == unicode.replacement) return .{};
        var class: BlockClass = .of(char.code_point, letters);
        class.len = char.len;
        return class;
    }
};

/// The classes of 64 characters. There is an entry for each low nibble of the last byte, with two
/// bits for each of the four high nibbles.
const Page = struct {
    /// Letters in the low four bits, stops in the high four.
    words: vector.Table = @splat(0),
    /// [U] in the low four bits, [L] in the high four.
    cases: vector.Table = @splat(0),
};

fn Pages(comptime letters: Letters) type {
    return struct {
        /// U+0000 to U+3FFF: all widely used scripts except those of `wideLetters`.
        const low_ones = pagesFrom(0, 256, letters);
        /// U+F000 to U+FFFF: full-width and half-width forms.
        const forms = pagesFrom(0xF000, 64, letters);

        /// Returns the page of the multi-byte character at `text`, if it has one.
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

/// Returns the first bytes of Han, Kana and Hangul letters, which are in both sets of o200k. The
/// few missing ones are found like all other characters.
inline fn wideLetters(text: [*]const u8) u64 {
    const first: Bytes = vector.load(text);
    const second: Bytes = vector.load(text + 1);
    const third: Bytes = vector.load(text + 2);
    const continued = bits((second ^ splat(0x80)) | (third ^ splat(0x80)) < splat(0x40));
    // U+4E00 to U+9FFF; for E4 only from B8 on
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

test "pages: characters have their class and length, and an incomplete one has none" {
    inline for (.{ .cased, .strict, .pointed }) |letters| try expectClasses(letters);
}

fn expectClasses(comptime letters: Letters) !void {
    var start: u21 = 0x80;
    // All characters on pages, and a sample of the others.
    while (start <= 0x10FFFF) : (start += if (start < 0x4000 or start >> 12 == 0xF) 15 else 500) {
        var text: [vector.len + 4]u8 = @splat(0);
        var classes: [vector.len]BlockClass = @splat(.{});
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
