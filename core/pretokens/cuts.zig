//! Text → offsets at which it can be cut without changing its pretokens.
//!
//! In every hand-written pattern, a pretoken starts between certain kinds of characters in any
//! context: no alternative of a pattern continues from a word to a space. The pretoken before such
//! an offset does not depend on the text after it. So a long text is cut there, and its parts are
//! separate documents.

const std = @import("std");
const examples = @import("../examples.zig").examples;
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");
const vector = @import("../platform.zig").vector;

/// Whether `find` is valid for a scheme: for the families of patterns, but not for a program, and
/// not for `safe` and `metaspace`, which split at fewer offsets.
pub fn fits(scheme: *const pretokens.Scheme) bool {
    return scheme.* != .program and scheme.* != .stages and scheme.safely() == null;
}

/// Returns the first offset from `from` and before the end where a text can be cut for any such
/// scheme. Text of one kind of characters, such as a megabyte of digits, has none.
pub fn find(text: []const u8, from: usize) ?usize {
    var index = @max(1, from);
    while (index < text.len) : (index += 1) if (isCut(text, index)) return index;
    return null;
}

inline fn isCut(text: []const u8, index: usize) bool {
    const before_kind = kinds[text[index - 1]];
    // Two characters of a kind have no cut between them, and a text may be one run of a kind.
    if (before_kind == kinds[text[index]] and before_kind != .multibyte) return false;
    // A stray continuation byte is a character of its own only because of the bytes before it.
    if (text[index] & 0xC0 == 0x80) return false;
    const before = classOf(unicode.decodeBefore(text, index)) orelse return false;
    const behind = classOf(unicode.decode(text, index)) orelse return false;
    if (before.space) return false;
    if (behind.space) return !behind.newline or before.letter or before.number;
    if (behind.number) return !before.number and !before.mark;
    if (behind.letter) return before.number;
    // In some schemes a mark continues a word, and so does a possible contraction.
    if (behind.mark or text[index] == '\'') return false;
    return before.letter or before.number;
}

/// Whether `span`, the pretoken that contains `index`, can be cut there: a scan that starts at
/// `index` finds the rest of it, and then the same pretokens. It holds for any hand-written scheme
/// in a run of letters without case.
pub fn isInRun(text: []const u8, span: pretokens.Span, index: usize) bool {
    // The first character may be of another kind, such as the space before a word. In o200k, an
    // upper-case letter continues a word only if there is no lower-case letter before it.
    const first = unicode.decode(text, span.start);
    const class = unicode.class(first.code_point);
    if (class.lower and !class.upper) return false;
    var at = span.start + first.len;
    while (at <= index) {
        const char = unicode.decode(text, at);
        if (!isCaseless(unicode.class(char.code_point))) return false;
        at += char.len;
    }
    return true;
}

fn isCaseless(class: unicode.Class) bool {
    return class.letter and class.upper and class.lower;
}

/// Distance over which `probableStart` searches.
pub const search_len = 1024;

/// Returns an offset from `nominal` on that is probably the start of a pretoken of any scheme:
/// before a space that follows a word, or else at any character.
pub fn probableStart(text: []const u8, nominal: usize) usize {
    const last = @min(nominal + search_len, text.len);
    for (nominal..last) |index| {
        if (text[index] == ' ' and std.ascii.isAlphanumeric(text[index - 1])) return index;
    }
    for (nominal..last) |index| if (text[index] & 0xC0 != 0x80) return index;
    return last;
}

const Kind = enum(u8) { other, letter, number, space, multibyte };

const kinds: [256]Kind = blk: {
    var all: [256]Kind = @splat(.multibyte);
    for (all[0..128], 0..) |*kind, byte| {
        const class = unicode.class(byte);
        kind.* = if (class.letter) .letter else if (class.number) .number else .other;
        if (class.space) kind.* = .space;
    }
    break :blk all;
};

/// Returns the class of a character, or null for invalid bytes.
inline fn classOf(char: unicode.Char) ?unicode.Class {
    if (char.code_point == unicode.replacement) return null;
    return unicode.class(char.code_point);
}

/// Whether a block of text may be cut before `index`, for any such scheme, also after normalization
/// to NFC, NFD, NFKC or NFKD.
///
/// There are two kinds of cuts. One is before a space that follows a character which is not
/// whitespace. The other is after a newline between two characters that are not whitespace, of
/// which the second is not a slash: `.\n/` is one pretoken of o200k.
pub inline fn isBlockCut(text: []const u8, index: usize) bool {
    if (text[index] == ' ') return !endsWithSpace(text[0..index]);
    if (text[index - 1] != '\n' or text[index] == '/' or index < 2) return false;
    return !endsWithSpace(text[0 .. index - 1]) and !startsWithSpace(text[index..]);
}

/// Returns the offsets of the 64 bytes from `start` on for which `isBlockCut` may be true, as bits.
pub inline fn possibleBlockCuts(text: []const u8, start: usize) u64 {
    const before = vector.load(text.ptr + start - 1);
    const behind = vector.load(text.ptr + start);
    const spaces = equal(behind, ' ') & ~equal(before, ' ');
    return spaces | (equal(before, '\n') & ~equal(behind, '\n') & ~equal(behind, '\r'));
}

inline fn equal(bytes: vector.Bytes, byte: u8) u64 {
    return vector.bits(bytes == vector.splat(byte));
}

/// The whitespace characters of more than one byte.
const wide_spaces = [_][]const u8{
    "\u{85}",   "\u{a0}",   "\u{1680}", "\u{2000}", "\u{2001}", "\u{2002}", "\u{2003}",
    "\u{2004}", "\u{2005}", "\u{2006}", "\u{2007}", "\u{2008}", "\u{2009}", "\u{200a}",
    "\u{2028}", "\u{2029}", "\u{202f}", "\u{205f}", "\u{3000}",
};

/// U+001C to U+001F are not whitespace in Unicode. Python's `\s` has them, and a cut less is exact.
fn isNarrowSpace(byte: u8) bool {
    return byte == ' ' or (byte >= '\t' and byte <= '\r') or (byte >= 0x1c and byte <= 0x1f);
}

fn endsWithSpace(text: []const u8) bool {
    const last = text[text.len - 1];
    if (last < 0x80) return isNarrowSpace(last);
    for (wide_spaces) |space| if (std.mem.endsWith(u8, text, space)) return true;
    return false;
}

fn startsWithSpace(text: []const u8) bool {
    if (text[0] < 0x80) return isNarrowSpace(text[0]);
    for (wide_spaces) |space| if (std.mem.startsWith(u8, text, space)) return true;
    return false;
}

const hand_written = @import("schemes.zig").hand_written;

test "cuts: both sides of a cut have the pretokens of the whole" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{
        "a",        "B",    " ",        "'s",      "'",        "\n",      "\r",        "1",
        "!",        "/",    "\u{17f}",  "\u{301}", "\u{4f60}", "\xff",    "\u{1f642}", "\t",
        "  ",       "'re",  "LL",       "'LL",     "word",     "\u{e9}",  "\u{3000}",  "\u{a0}",
        "\u{201c}", "12",   "\xe4\xbd", "\u{e01}", "\u{e31}",  "\u{1c5}", "\u{661}",   "\x00",
        "\u{2b0}",  "\x80",
    };
    var buffer: [60]u8 = undefined;
    var cuts: usize = 0;
    for (0..examples(40_000)) |_| {
        var len: usize = 0;
        const limit = random.uintLessThan(usize, buffer.len - 8);
        while (len < limit) {
            const part = parts[random.uintLessThan(usize, parts.len)];
            @memcpy(buffer[len..][0..part.len], part);
            len += part.len;
        }
        const text = buffer[0..len];
        const cut = find(text, random.uintAtMost(usize, len)) orelse continue;
        cuts += 1;
        for (&hand_written) |*scheme| {
            var whole: pretokens.Pretokens = .init(std.testing.allocator, scheme, text);
            for ([_][2]usize{ .{ 0, cut }, .{ cut, len } }) |bounds| {
                const side = text[bounds[0]..bounds[1]];
                var pieces: pretokens.Pretokens = .init(std.testing.allocator, scheme, side);
                while (try pieces.next()) |span| {
                    const expected = (try whole.next()).?;
                    try std.testing.expectEqual(expected.start, bounds[0] + span.start);
                    try std.testing.expectEqual(expected.end, bounds[0] + span.end);
                }
            }
            try std.testing.expectEqual(null, try whole.next());
        }
    }
    try std.testing.expect(cuts > examples(20_000));
}

test "cuts: the text after a cut in a run has the pretokens of the whole" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const caseless = [_][]const u8{ "\u{4f60}", "\u{e01}", "\u{2b0}", "\u{5d0}", "\u{30a2}" };
    const others = [_][]const u8{
        "a", "B",  "Bc",      "\u{e9}",   "\u{1c5}", " ",         "'",        "'s", "1",
        "!", "\n", "\u{301}", "\u{3000}", "\xff",    "\u{1f642}", "\xe4\xbd", "LL", "\u{e31}",
    };
    const unscanned = [_]pretokens.Scheme{ .{ .safe = .whole }, .{ .metaspace = .blanks } };
    const schemes = hand_written ++ unscanned;
    var buffer: [80]u8 = undefined;
    var cuts: usize = 0;
    for (0..examples(40_000)) |_| {
        var len: usize = 0;
        for ([_]usize{ 2, 4, 3, 2 }, 0..) |parts_max, kind| {
            const parts: []const []const u8 = if (kind % 2 == 0) &others else &caseless;
            for (0..random.uintAtMost(usize, parts_max)) |_| {
                const part = parts[random.uintLessThan(usize, parts.len)];
                @memcpy(buffer[len..][0..part.len], part);
                len += part.len;
            }
        }
        if (len == 0) continue;
        const text = buffer[0..len];
        const index = random.uintLessThan(usize, len);
        if (text[index] & 0xC0 == 0x80) continue;
        for (&schemes) |*scheme| {
            var whole: pretokens.Pretokens = .init(std.testing.allocator, scheme, text);
            const span = while (try whole.next()) |span| {
                if (span.end > index) break span;
            } else unreachable;
            if (span.start >= index or !isInRun(text, span, index)) continue;
            cuts += 1;
            var rest: pretokens.Pretokens = .init(std.testing.allocator, scheme, text);
            rest.index = index;
            var expected: pretokens.Span = .{ .start = index, .end = span.end };
            while (try rest.next()) |found| {
                try std.testing.expectEqual(expected, found);
                expected = try whole.next() orelse break;
            }
            try std.testing.expectEqual(text.len, expected.end);
        }
    }
    try std.testing.expect(cuts > examples(20_000));
}
