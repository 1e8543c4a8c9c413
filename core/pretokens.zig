//! Document → pretokens: the pieces of text that are merged separately.
//!
//! A pre-tokenizer is a hand-written scanner, whose pattern covers every byte, or a compiled
//! program for any other pattern. Text that such a pattern does not match is dropped, as in
//! tiktoken. Several nested pre-tokenizers are stages.

const std = @import("std");
const platform = @import("platform.zig");
const examples = @import("examples.zig").examples;
const Allocator = std.mem.Allocator;

const schemes = @import("pretokens/schemes.zig");
const runs = @import("pretokens/runs.zig");
pub const Known = runs.Known;
pub const blocks = @import("pretokens/blocks.zig");
pub const levels = @import("pretokens/levels.zig");
pub const Sweep = @import("pretokens/sweep.zig").Sweep;
pub const Batch = @import("pretokens/sweep.zig").Batch;
pub const piece_len_max = @import("pretokens/sweep.zig").piece_len_max;
pub const Program = @import("pattern/program.zig").Program;
pub const Matcher = @import("pattern/matcher.zig").Matcher;
pub const stages = @import("pretokens/stages.zig");

const safe_room = @import("pretokens/safe.zig");
pub const Safe = safe_room.Safe;

pub const Span = struct { start: usize, end: usize };

pub const Scheme = schemes.Scheme;

/// Returns the end of the pretoken at `start`, which must be below `text.len`, with a hand-written
/// scanner. For a growing text, `known` contains the runs of earlier scans.
pub fn endFrom(scheme: *const Scheme, text: []const u8, start: usize, known: ?*Known) usize {
    return switch (scheme.*) {
        .program, .stages => unreachable,
        .metaspace, .safe => |*safe| safe.next(text, start, known),
        inline else => |_, tag| schemes.Scanner(tag).next(text, start, known),
    };
}

/// Returns one past the last byte on which the pretokens up to `end` depend, for a hand-written
/// scanner. After a pretoken it looks at the rest of a run of whitespace, or of [U] where o200k's
/// family backtracks by one character, at one more character, and at a contraction.
pub fn reachOf(scheme: *const Scheme, text: []const u8, end: usize, known: ?*Known) usize {
    const family = schemes.familyOf(scheme.*);
    // These depend only on the characters on both sides of a split point.
    if (family == .safe) return end + 8;
    const space_end = runs.runEnd(text, end, .space, known);
    const run_end = if (family == .o200k) runs.runEnd(text, end, .upper, known) else end;
    return @max(space_end, run_end) + 8;
}

/// Iterates over the pretokens of one document, in order.
pub const Pretokens = struct {
    text: []const u8,
    index: usize,
    scheme: *const Scheme,
    matcher: ?Matcher,
    cutter: ?stages.Cutter,

    pub fn init(gpa: Allocator, scheme: *const Scheme, text: []const u8) Pretokens {
        return .{
            .text = text,
            .index = 0,
            .scheme = scheme,
            .matcher = switch (scheme.*) {
                .program => |*program| .init(gpa, program, text),
                else => null,
            },
            .cutter = switch (scheme.*) {
                .stages => |*several| .init(gpa, several, text),
                else => null,
            },
        };
    }

    pub fn deinit(self: *Pretokens) void {
        if (self.matcher) |*matcher| matcher.deinit();
        if (self.cutter) |*cutter| cutter.deinit();
    }

    pub fn next(self: *Pretokens) error{OutOfMemory}!?Span {
        if (self.index >= self.text.len) return null;
        const start = self.index;
        switch (self.scheme.*) {
            .program => {
                const match = try self.matcher.?.next(start) orelse {
                    self.index = self.text.len;
                    return null;
                };
                self.index = match.end;
                return .{ .start = match.start, .end = match.end };
            },
            .stages => {
                const piece = try self.cutter.?.next(start) orelse {
                    self.index = self.text.len;
                    return null;
                };
                self.index = piece.end;
                return .{ .start = piece.start, .end = piece.end };
            },
            else => self.index = endFrom(self.scheme, self.text, start, null),
        }
        return .{ .start = start, .end = self.index };
    }
};

test {
    _ = @import("pattern/program.zig");
    _ = @import("pattern/matcher.zig");
    _ = @import("pretokens/stages.zig");
    _ = @import("pretokens/sets.zig");
    _ = @import("pretokens/known.zig");
    _ = @import("pretokens/safe.zig");
    _ = @import("pretokens/cuts.zig");
    _ = @import("pretokens/blocks/pages.zig");
    _ = @import("pretokens/serialized.zig");
}

/// The hand-written pre-tokenizers, and `safe` for various vocabularies.
fn testedSchemes(random: std.Random) [schemes.hand_written.len + 4]Scheme {
    const tokens = [_][]const u8{
        " a",      "ab",        "  ",               "B1",        "!!",
        " !",      "a'",        "\u{e9}a",          "!\xe2",     "a b",
        ". ",      "\n\n",      "11",               "\u{201c}!", "\u{e01}\u{e31}",
        "a\u{e9}", " \u{4f60}", "\u{4f60}\u{4f60}", "\x9c\n",    "a1",
    };
    var chosen: [8][]const u8 = undefined;
    for (&chosen) |*token| token.* = tokens[random.uintLessThan(usize, tokens.len)];
    const any = safe_room.testing.fromList(&chosen);
    return schemes.hand_written ++ .{
        Scheme{ .metaspace = .blanks },
        Scheme{ .metaspace = any.atEachBlank() },
        Scheme{ .safe = safe_room.testing.fromList(tokens[0..9]) },
        Scheme{ .safe = if (random.boolean()) any else any.atBlanksOnly() },
    };
}

fn expectSweep(scheme: Scheme, text: []const u8) !void {
    var pretokens: Pretokens = .init(std.testing.allocator, &scheme, text);
    defer pretokens.deinit();
    var sweep: Sweep = undefined;
    sweep.init(std.testing.allocator, &scheme, text);
    defer sweep.deinit();
    while (try sweep.next()) |batch| {
        var start: usize = 0;
        if (batch.ends.len == 0) {
            const span = (try pretokens.next()).?;
            try std.testing.expectEqual(batch.start, span.start);
            try std.testing.expectEqual(batch.len, span.end - span.start);
            continue;
        }
        for (batch.ends) |end| {
            const span = (try pretokens.next()).?;
            const piece = text[batch.start + start .. batch.start + end];
            try std.testing.expectEqualStrings(text[span.start..span.end], piece);
            try std.testing.expectEqualStrings(piece, batch.bytes[start..end]);
            // Cache keys of short pretokens are padded with 0xFF.
            const has_filler = std.mem.indexOfScalar(u8, piece, 0xFF) != null;
            try std.testing.expect(piece.len > 16 or !has_filler);
            start = end;
        }
        try std.testing.expectEqual(batch.len, start);
    }
    try std.testing.expectEqual(@as(?Span, null), try pretokens.next());
}

test "pretokens: block scanners split like the scalar scanners" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const parts = [_][]const u8{
        "a",        "B",         " ",         "'s",       "'",        "\n",
        "\r",       "1",         "!",         "/",        "\u{17f}",  "\u{301}",
        "\u{4f60}", "\xff",      "\u{1f642}", "\t",       "  ",       "'re",
        "LL",       "'LL",       "word",      "\u{e9}",   "\u{3000}", "\u{a0}",
        "\u{201c}", "12",        "\xe4\xbd",  "\u{e01}",  "\u{e31}",  "\u{1c5}",
        "\u{661}",  "\x00",      "\u{30fb}",  "\u{200b}", "\u{9fa6}", "\u{3042}",
        "\u{3099}", "\u{11de0}", "\x01",      "-",
    };
    var text: [600]u8 = undefined;
    for (0..examples(20000)) |_| {
        // A few kinds of fragments at a time, so that long runs occur too.
        var kinds: [6][]const u8 = undefined;
        for (&kinds) |*kind| kind.* = parts[random.random().uintLessThan(usize, parts.len)];
        const limit = random.random().uintLessThan(usize, text.len - 8);
        var len: usize = 0;
        while (len < limit) {
            const part = kinds[random.random().uintLessThan(usize, kinds.len)];
            @memcpy(text[len..][0..part.len], part);
            len += part.len;
        }
        for (testedSchemes(random.random())) |scheme| {
            if (!levels.use(random.random().enumValue(platform.cpu.Level))) continue;
            expectSweep(scheme, text[0..len]) catch |failure| {
                std.debug.print("{s}: {any} {f}\n", .{
                    @tagName(scheme), failure, std.ascii.hexEscape(text[0..len], .lower),
                });
                return failure;
            };
        }
    }
}

/// Writes text of a few scripts: characters of the same pages, mixed with significant others.
fn writeScripts(random: std.Random, text: []u8) []u8 {
    const between = [_][]const u8{
        " ",        "'",       "'s",       "a",       "B",    "\n",       "1",
        "!",        "\u{301}", "\u{e31}",  "\u{661}", "\xe0", "\xed\xa0", "\xf4\x90\x80",
        "\x80",     "/",       "\u{3000}", "\u{a0}",  "\xff", "\u{4f60}", "\u{30fb}",
        "\u{200b}", "\x00",    "-",
    };
    // Pages that the block scanner decodes one by one, some at the end of the code space.
    const rare_pages = [_]u21{ 0x80, 0xF900, 0x1D400, 0x1E900, 0x1F600, 0x20000, 0x10FFC0 };
    var pages: [3]u21 = undefined;
    for (&pages) |*page| page.* = switch (random.uintLessThan(u8, 4)) {
        0 => rare_pages[random.uintLessThan(usize, rare_pages.len)],
        1 => random.intRangeLessThan(u21, 2, 1024) << 6,
        else => random.intRangeLessThan(u21, 2, 256) << 6,
    };
    // Only a few characters per page, so that long words occur too.
    var chars: [6]u21 = undefined;
    for (&chars) |*char| char.* = pages[random.uintLessThan(usize, pages.len)] |
        random.uintLessThan(u21, 64);
    const between_share = random.uintLessThan(u8, 60);
    var len: usize = 0;
    while (text.len - len >= 4) {
        if (random.uintLessThan(u8, 100) < between_share) {
            const part = between[random.uintLessThan(usize, between.len)];
            @memcpy(text[len..][0..part.len], part);
            len += part.len;
        } else {
            const char = chars[random.uintLessThan(usize, chars.len)];
            // A surrogate is three invalid bytes.
            len += std.unicode.wtf8Encode(char, text[len..][0..4]) catch unreachable;
        }
    }
    return text[0..len];
}

test "pretokens: block scanners split any script like the scalar scanners, at any text end" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var buffer: [2000]u8 = undefined;
    for (0..examples(600)) |round| {
        const limit = random.intRangeAtMost(usize, 4, if (round % 10 == 0) buffer.len else 700);
        const text = writeScripts(random, buffer[0..limit]);
        // The tail is scanned in blocks too. Truncated at each length, it ends at every offset of
        // one.
        const cuts: usize = if (round % 50 == 0) @min(text.len, 140) else 1;
        for (0..cuts) |cut| for (testedSchemes(random)) |scheme| {
            if (!levels.use(random.enumValue(platform.cpu.Level))) continue;
            const part = text[0 .. text.len - cut];
            expectSweep(scheme, part) catch |failure| {
                std.debug.print("{s}: {any} {f}\n", .{
                    @tagName(scheme), failure, std.ascii.hexEscape(part, .lower),
                });
                return failure;
            };
        };
    }
}

test "pretokens: text after the reach does not affect pretokens before it" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const parts = [_][]const u8{
        "a", "B", "b",   " ",   "     ",    "\n",       "'",       "l",    "1", "!", "/", "\u{301}",
        "s", "e", "'LL", "BBB", "\u{4f60}", "\xe4\xbd", "\u{17f}", "\xff",
    };
    var texts: [2][80]u8 = undefined;
    for (0..examples(60_000)) |_| {
        for (&texts) |*text| {
            var len: usize = 0;
            while (len < text.len) {
                const part = parts[random.random().uintLessThan(usize, parts.len)];
                const fits = part[0..@min(part.len, text.len - len)];
                @memcpy(text[len..][0..fits.len], fits);
                len += fits.len;
            }
        }
        for (testedSchemes(random.random())) |scheme| {
            var pretokens: Pretokens = .init(std.testing.allocator, &scheme, &texts[0]);
            var end: usize = 0;
            for (0..1 + random.random().uintLessThan(usize, 8)) |_| {
                end = (try pretokens.next() orelse break).end;
            }
            const reach = reachOf(&scheme, &texts[0], end, null);
            if (reach > texts[0].len) continue;
            var changed = texts[1];
            @memcpy(changed[0..reach], texts[0][0..reach]);
            // The text may also end there.
            const len = if (random.random().boolean()) reach else changed.len;
            var others: Pretokens = .init(std.testing.allocator, &scheme, changed[0..len]);
            pretokens.index = 0;
            while (pretokens.index < end) {
                try std.testing.expectEqualDeep(try pretokens.next(), try others.next());
            }
        }
    }
}

fn expectPretokens(scheme: Scheme, text: []const u8, expected: []const []const u8) !void {
    var pretokens: Pretokens = .init(std.testing.allocator, &scheme, text);
    defer pretokens.deinit();
    for (expected) |piece| {
        const span = (try pretokens.next()).?;
        try std.testing.expectEqualStrings(piece, text[span.start..span.end]);
    }
    try std.testing.expectEqual(@as(?Span, null), try pretokens.next());
}

test "pretokens: the scanners split a text like their patterns" {
    const text = "I'LL  don't\n\n x!!\n12345 \u{e9}\u{301}A";
    try expectPretokens(.r50k, text, &.{
        "I",  "'",  "LL", " ",     " don",    "'t",      "\n\n",
        " x", "!!", "\n", "12345", " \u{e9}", "\u{301}", "A",
    });
    try expectPretokens(.cl100k, text, &.{
        "I", "'LL", " ", " don", "'t", "\n\n", " x", "!!\n", "123", "45", " \u{e9}", "\u{301}A",
    });
    try expectPretokens(.o200k, text, &.{
        "I'LL", " ", " don't", "\n\n", " x", "!!\n", "123", "45", " \u{e9}\u{301}", "A",
    });
}

test "pretokens: scanners of a family differ in numbers, marks, contractions and text ends" {
    const text = "a'S 1234!!\u{301}B \n ";
    try expectPretokens(.cl100k, text, &.{
        "a", "'S", " ", "123", "4", "!!\u{301}", "B", " \n ",
    });
    try expectPretokens(.llama3, text, &.{
        "a", "'S", " ", "123", "4", "!!\u{301}", "B", " \n", " ",
    });
    try expectPretokens(.nanochat, text, &.{
        "a", "'S", " ", "12", "34", "!!\u{301}", "B", " \n", " ",
    });
    try expectPretokens(.qwen2, text, &.{
        "a", "'S", " ", "1", "2", "3", "4", "!!\u{301}", "B", " \n", " ",
    });
    try expectPretokens(.qwen35, text, &.{
        "a", "'S", " ", "1", "2", "3", "4", "!!", "\u{301}B", " \n", " ",
    });
    try expectPretokens(.o200k, text, &.{
        "a'S", " ", "123", "4", "!!\u{301}", "B", " \n", " ",
    });
    try expectPretokens(.tekken, text, &.{
        "a", "'S", " ", "1", "2", "3", "4", "!!\u{301}", "B", " \n", " ",
    });
}

test "pretokens: concatenation restores any bytes" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const alphabet = "aB 's\n\r1!/\xc5\xbf\xcc\x81\xe4\xbd\xa0\xff\xf0\x9f\x99\x82\t";
    var text: [200]u8 = undefined;
    for (0..examples(3000)) |_| {
        const len = random.random().uintLessThan(usize, text.len);
        for (text[0..len]) |*byte| {
            byte.* = alphabet[random.random().uintLessThan(usize, alphabet.len)];
        }
        for (testedSchemes(random.random())) |scheme| {
            var pretokens: Pretokens = .init(std.testing.allocator, &scheme, text[0..len]);
            var end: usize = 0;
            while (try pretokens.next()) |span| {
                try std.testing.expectEqual(end, span.start);
                try std.testing.expect(span.end > span.start);
                end = span.end;
            }
            try std.testing.expectEqual(len, end);
        }
    }
}
