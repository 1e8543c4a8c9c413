//! Tokens → pairs of character kinds that no token contains; text → pretokens split between those.
//!
//! Some tokenizers have no pre-tokenizer: those of Llama 2, Gemma and the first Mistral models.
//! Merging a text as one pretoken would be slow and could not be cached. But if no token contains
//! two characters next to each other, no merge crosses the boundary between them. The text can be
//! split there without changing its ids. Characters are grouped into a few kinds, and the text is
//! split between two kinds that no token has next to each other. For SentencePiece vocabularies
//! this yields words, numbers and symbols, with the spaces before them.
//!
//! Metaspace, whose pattern is ` ?[^ ]+| ` with a space for "▁", starts a pretoken at each space.
//! It is also split at safe split points: "word," becomes a word and a symbol, which are more
//! frequent than the combination.
//!
//! **Invariant** a split point depends only on the characters on both sides of it.
//! **Invariant** a character is never split.
//!
//! The result is exact for mergeable tokens. An unmergeable token, which matches only a whole
//! pretoken, must not be looked up in a chunk of the text. So either there are none, or whole
//! pretokens are not looked up. In addition, each character must have tokens. If characters are
//! dropped, their neighbours become adjacent across a split point. If they are unknown and runs of
//! unknown characters become one token, only `atBlanksOnly` is exact, provided that the space is a
//! token.

const std = @import("std");
const Known = @import("runs.zig").Known;

pub const Kind = enum(u3) {
    blank,
    newline,
    /// ASCII, like the next three.
    digit,
    letter,
    symbol,
    /// Symbols that some token has next to a letter or digit, or before a space.
    loud,
    /// Multi-byte characters, and invalid bytes.
    foreign,
    /// Characters in blocks of mostly punctuation: U+0080–BF, 2000–2FFF, 3000–303F, FF00–3F.
    punctuation,
};

pub const kind_count = @typeInfo(Kind).@"enum".fields.len;

/// A set of kinds.
const Kinds = std.EnumSet(Kind);

/// The kind of the character at an index, and the number of bytes that determine it.
const Step = struct { kind: Kind, len: u2 };

/// All bits or none, as the block scanner uses it.
const Flag = u64;
const yes = ~@as(Flag, 0);

pub const Safe = struct {
    /// Indexed by the kinds of two characters: whether a token has the second directly after the
    /// first.
    joins: [kind_count][kind_count]Flag,
    /// The bytes of the kind `loud`: an entry for each low nibble, with a bit for each high one.
    loud: [16]u8,

    /// Never splits.
    pub const whole: Safe = .{ .joins = @splat(@splat(yes)), .loud = @splat(0) };

    /// Splits before each space only.
    pub const blanks: Safe = whole.atEachBlank();

    /// Builds the table from the tokens that `tokens.next()` returns until null.
    pub fn fromTokens(tokens: anytype) Safe {
        var self: Safe = .{ .joins = @splat(@splat(0)), .loud = @splat(0) };
        var first = tokens;
        while (first.next()) |token| self.findLoud(token);
        var second = tokens;
        while (second.next()) |token| self.join(token);
        return self;
    }

    /// Also splits before each space. Tokens with a space after another character are then not
    /// found.
    pub fn atEachBlank(self: Safe) Safe {
        var more = self;
        for (&more.joins) |*behind| behind[@intFromEnum(Kind.blank)] = 0;
        return more;
    }

    /// Splits before spaces only.
    pub fn atBlanksOnly(self: Safe) Safe {
        var fewer = self;
        for (&fewer.joins) |*behind| {
            const blank = behind[@intFromEnum(Kind.blank)];
            behind.* = @splat(yes);
            behind[@intFromEnum(Kind.blank)] = blank;
        }
        return fewer;
    }

    fn findLoud(self: *Safe, token: []const u8) void {
        if (token.len < 2) return;
        for (token[0 .. token.len - 1], token[1..]) |left, right| {
            if (left >= 0x80 or right >= 0x80) continue;
            const kinds = .{ quiet_kinds[left], quiet_kinds[right] };
            const is_left = kinds[1] == .letter or kinds[1] == .digit or kinds[1] == .blank;
            if (kinds[0] == .symbol and is_left) self.loud[left & 15] |= bitOf(left);
            const is_right = kinds[0] == .letter or kinds[0] == .digit;
            if (kinds[1] == .symbol and is_right) self.loud[right & 15] |= bitOf(right);
        }
    }

    fn join(self: *Safe, token: []const u8) void {
        var before: Kinds = .initEmpty();
        var index: usize = 0;
        while (index < token.len) {
            const step = self.stepAt(token, index);
            var kinds: Kinds = .initOne(step.kind);
            // Part of a character may belong to either kind.
            if (isPartial(token, index)) kinds = .initMany(&.{ .foreign, .punctuation });
            if (!isContinuation(token[index])) {
                var each = before.iterator();
                while (each.next()) |left| {
                    var behind = kinds.iterator();
                    while (behind.next()) |right| {
                        self.joins[@intFromEnum(left)][@intFromEnum(right)] = yes;
                    }
                }
            }
            before = kinds;
            index += step.len;
        }
    }

    /// Returns the end of the pretoken at `start`, which must be below `text.len`.
    pub fn next(self: *const Safe, text: []const u8, start: usize, known: ?*Known) usize {
        var last = if (known) |some| some.uncutFrom(text, start) else start;
        var left = self.stepAt(text, last);
        var index = last + left.len;
        while (index < text.len) : (index += left.len) {
            const right = self.stepAt(text, index);
            const joined = self.joins[@intFromEnum(left.kind)][@intFromEnum(right.kind)];
            if (joined == 0 and !isContinuation(text[index])) break;
            last = index;
            left = right;
        }
        if (known) |some| some.keepUncut(text, start, last);
        return index;
    }

    fn stepAt(self: *const Safe, text: []const u8, index: usize) Step {
        const first = text[index];
        if (first < 0x80) {
            if (self.loud[first & 15] & bitOf(first) != 0) return .{ .kind = .loud, .len = 1 };
            return .{ .kind = quiet_kinds[first], .len = 1 };
        }
        const rest = text[index + 1 ..];
        const len: u2 = switch (first) {
            0xC2 => 2,
            0xE2 => 3,
            0xE3 => if (rest.len > 0 and rest[0] == 0x80) 3 else 1,
            0xEF => if (rest.len > 0 and rest[0] == 0xBC) 3 else 1,
            else => 1,
        };
        const foreign: Step = .{ .kind = .foreign, .len = 1 };
        if (len == 1 or rest.len < len - 1) return foreign;
        for (rest[0 .. len - 1]) |byte| if (!isContinuation(byte)) return foreign;
        return .{ .kind = .punctuation, .len = len };
    }
};

/// Whether the bytes at an index of a token may be part of a character that begins before them or
/// ends after them.
fn isPartial(token: []const u8, index: usize) bool {
    if (token[index] < 0x80) return false;
    for (token[0 .. index + 1]) |byte| {
        if (!isContinuation(byte)) break;
    } else return true;
    const rest = token[index + 1 ..];
    return rest.len == 0 or (rest.len == 1 and isContinuation(rest[0]) and token[index] >= 0xE0);
}

inline fn isContinuation(byte: u8) bool {
    return byte & 0xC0 == 0x80;
}

inline fn bitOf(byte: u8) u8 {
    return @as(u8, 1) << @intCast(byte >> 4);
}

/// The kinds of ASCII characters before any symbol is loud.
const quiet_kinds = blk: {
    var kinds: [128]Kind = @splat(.symbol);
    kinds[' '] = .blank;
    kinds['\n'] = .newline;
    for (&kinds, 0..) |*kind, byte| {
        if (std.ascii.isDigit(byte)) kind.* = .digit;
        if (std.ascii.isAlphabetic(byte)) kind.* = .letter;
    }
    break :blk kinds;
};

fn expectPretokens(safe: Safe, expected: []const []const u8) !void {
    const text = try std.mem.concat(std.testing.allocator, u8, expected);
    defer std.testing.allocator.free(text);
    var start: usize = 0;
    for (expected) |piece| {
        const end = safe.next(text, start, null);
        try std.testing.expectEqualStrings(piece, text[start..end]);
        start = end;
    }
}

pub const testing = struct {
    const List = struct {
        tokens: []const []const u8,

        fn next(self: *List) ?[]const u8 {
            if (self.tokens.len == 0) return null;
            defer self.tokens = self.tokens[1..];
            return self.tokens[0];
        }
    };

    pub fn fromList(tokens: []const []const u8) Safe {
        return .fromTokens(List{ .tokens = tokens });
    }
};

test "safe: text splits into words if tokens are words with leading spaces" {
    const tokens = [_][]const u8{
        " ", "  ", " a", "ab", "\u{e9}b", "b\u{e9}", "\u{e9}\u{e8}", "..", " .", ".\u{201d}",
    };
    const safe = testing.fromList(&tokens);
    try expectPretokens(safe, &.{
        "a", "  ba",      " b\u{e9}a\u{e8}", "...\u{201d}", "a", "\u{201d}", "\u{201d}", " .",
        "1", " ",         "1",               "2",           "a", "\n",       "\n",       "a",
        ".", "\u{4e00}a", "\u{3002}",        "   ",
    });
    try expectPretokens(safe.atBlanksOnly(), &.{ "a..b\n1", "  \u{e9}\u{3002}", " 12", "  " });
    try expectPretokens(safe.atEachBlank(), &.{ "ab", "..", " ", " a", " ", "1", " ", " " });
    try expectPretokens(.blanks, &.{ "ab..", " ", " \u{e9}\u{3002}\n1", " ", " " });
}

test "safe: a symbol that a token has next to letters is separate from other symbols" {
    const tokens = [_][]const u8{ "ab", "_a", "--", " -" };
    const safe = testing.fromList(&tokens);
    try expectPretokens(safe, &.{ "ab", "_ab", "--", "a", " -", "_", "_a", "--" });
}

test "safe: a token that crosses a space prevents splits in all similar text" {
    try expectPretokens(testing.fromList(&.{"a b"}), &.{ "a b a", "1", "2", " a", "." });
    try expectPretokens(testing.fromList(&.{}), &.{ "a", "b", " ", " ", "\u{4e00}", "." });
    // Half of a curly quote may be the end of any character with the same bytes.
    const behind = testing.fromList(&.{"\x80\x9d."});
    try expectPretokens(behind, &.{ "\u{201d}.", "\u{4e00}.", "." });
    const before = testing.fromList(&.{".\xe2"});
    try expectPretokens(before, &.{ ".\u{201d}", ".\u{4e00}", ".\u{a0}", "." });
}
