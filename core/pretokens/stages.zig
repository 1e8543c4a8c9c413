//! Document and stages → pretokens.
//!
//! Hugging Face's pre-tokenizers run in sequence: each stage splits every piece of the previous
//! stage as a text of its own, so look-arounds see the ends of the piece. A stage finds matches of
//! a pattern or of a character class, and the text between them; its behaviour decides how the two
//! are combined. `Split` in `tokenizers` collects all spans of a text and reduces them. Here each
//! behaviour looks at most one span ahead, so pieces are returned one by one without storing them.
//!
//! An empty match is not a piece but a split point: the text before it stays separate from the text
//! after it.

const std = @import("std");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const Matcher = @import("../pattern/matcher.zig").Matcher;
const Program = @import("../pattern/program.zig").Program;
const pretokens = @import("../pretokens.zig");
const sets = @import("sets.zig");
const unicode = @import("../unicode.zig");

const Span = pretokens.Span;
const Error = error{OutOfMemory};

pub const Class = enum {
    /// Rust's char::is_numeric
    digits,
    punctuation,
    /// White_Space
    space,
    /// Bytes that byte-level vocabularies display as digits (0xB2 as ²), as a stage after Hugging
    /// Face's ByteLevel sees them.
    spelled_digits,

    pub fn has(self: Class, code_point: u21) bool {
        return switch (self) {
            .digits, .spelled_digits => sets.Digits.has(code_point),
            .punctuation => sets.Punctuation.has(code_point),
            .space => unicode.class(code_point).space,
        };
    }
};

pub const Behaviour = enum {
    /// Matches and the text between them are pieces.
    isolated,
    /// Matches are dropped.
    removed,
    /// A match is joined to the text before it, unless that is a match too.
    merged_with_previous,
    /// A match is joined to the text after it, unless that is a match too.
    merged_with_next,
    /// Adjacent matches are one piece.
    contiguous,
};

pub const Stage = struct {
    match: union(enum) { program: Program, class: Class },
    behaviour: Behaviour,
    /// The text between matches counts as a match, and matches do not.
    invert: bool,

    pub fn deinit(self: *Stage, gpa: Allocator) void {
        switch (self.match) {
            .program => |*program| program.deinit(gpa),
            .class => {},
        }
    }
};

pub const Stages = struct {
    /// At least one.
    list: []Stage,

    pub fn deinit(self: *Stages, gpa: Allocator) void {
        for (self.list) |*stage| stage.deinit(gpa);
        gpa.free(self.list);
    }
};

/// A span: a match, or the text up to the next one.
const Found = struct { start: usize, end: usize, is_match: bool };

/// The state of one stage in one text.
const Level = struct {
    stage: *const Stage,
    /// For a program.
    matcher: ?Matcher,
    text: []const u8,
    /// Offset of the text in the document.
    base: usize,
    /// End of the last span, and start of the search for the next match. An empty match is skipped
    /// with the character after it.
    index: usize = 0,
    from: usize = 0,
    /// A match that was found and is returned after the text before it.
    match: ?Span = null,
    /// A span that is returned next.
    ahead: ?Found = null,
    /// One past the last byte of the text that was examined; more than its length if its end was.
    reach: usize = 0,
    /// End of the piece that was returned last.
    piece_end: usize = 0,

    fn init(gpa: Allocator, stage: *const Stage) Level {
        var self: Level = .{ .stage = stage, .matcher = null, .text = &.{}, .base = 0 };
        switch (stage.match) {
            .program => |*program| self.matcher = .init(gpa, program, &.{}),
            .class => return self,
        }
        self.matcher.?.takes_empty = true;
        return self;
    }

    fn deinit(self: *Level) void {
        if (self.matcher) |*matcher| matcher.deinit();
    }

    /// Starts another text, from `index`.
    fn start(self: *Level, text: []const u8, base: usize, index: usize) void {
        if (self.matcher) |*matcher| matcher.reset(text);
        self.text = text;
        self.base = base;
        self.index = index;
        self.from = index;
        self.match = null;
        self.ahead = null;
        self.reach = index;
        self.piece_end = index;
    }

    /// Returns the next piece, never empty.
    fn next(self: *Level) Error!?Span {
        const first = try self.takeKept() orelse return null;
        self.piece_end = first.end;
        // Whether it may be joined to the next span.
        const takes = switch (self.stage.behaviour) {
            .isolated, .removed => false,
            .merged_with_previous => !self.isMatch(first),
            .merged_with_next => self.isMatch(first),
            // Two spans between matches are adjacent only if an empty match separates them.
            .contiguous => first.is_match,
        };
        while (takes) {
            const span = try self.take() orelse break;
            const is_like = self.isMatch(first) == self.isMatch(span);
            if (is_like != (self.stage.behaviour == .contiguous)) {
                self.ahead = span;
                break;
            }
            self.piece_end = span.end;
            if (self.stage.behaviour != .contiguous) break;
        }
        return .{ .start = first.start, .end = self.piece_end };
    }

    fn isMatch(self: *const Level, span: Found) bool {
        return span.is_match != self.stage.invert;
    }

    /// Returns the next span that is not dropped.
    fn takeKept(self: *Level) Error!?Found {
        while (true) {
            const span = self.ahead orelse try self.take() orelse return null;
            self.ahead = null;
            if (self.stage.behaviour != .removed or !self.isMatch(span)) return span;
        }
    }

    /// Returns the next span.
    fn take(self: *Level) Error!?Found {
        if (self.match) |span| {
            self.match = null;
            self.index = span.end;
            self.from = span.end;
            return .{ .start = span.start, .end = span.end, .is_match = true };
        }
        const before = self.index;
        while (try self.find()) |span| {
            if (span.end > span.start) {
                self.match = span;
                if (span.start == before) return self.take();
                self.index = span.start;
                return .{ .start = before, .end = span.start, .is_match = false };
            }
            self.from = span.start + unicode.decode(self.text, span.start).len;
            if (span.start > before) {
                self.index = span.start;
                return .{ .start = before, .end = span.start, .is_match = false };
            }
        }
        self.index = self.text.len;
        self.from = self.text.len;
        self.reach = self.text.len + 1;
        if (before == self.text.len) return null;
        return .{ .start = before, .end = self.text.len, .is_match = false };
    }

    /// Returns the next match from `from`, which may be empty.
    fn find(self: *Level) Error!?Span {
        if (self.matcher) |*matcher| {
            const found = try matcher.next(self.from);
            self.reach = @max(self.reach, matcher.reach);
            const span = found orelse return null;
            return .{ .start = span.start, .end = span.end };
        }
        return switch (self.stage.match.class) {
            inline else => |class| self.findOf(class),
        };
    }

    /// Returns the next character or byte of a class.
    fn findOf(self: *Level, comptime class: Class) ?Span {
        var at = self.from;
        while (at < self.text.len) {
            if (class == .spelled_digits) {
                at += 1;
                if (!sets.spelled_digits[self.text[at - 1]]) continue;
                self.reach = @max(self.reach, at);
                return .{ .start = at - 1, .end = at };
            }
            const char = unicode.decode(self.text, at);
            const end = at + char.len;
            // An incomplete sequence is detected by the byte after it.
            const cut = @intFromBool(char.code_point == unicode.replacement);
            if (class.has(char.code_point)) {
                self.reach = @max(self.reach, end + cut);
                return .{ .start = at, .end = end };
            }
            at = end;
        }
        return null;
    }

    /// Whether a truncated piece stays the same up to the truncation, for any text after it.
    fn isLocal(self: *const Level) bool {
        return self.stage.match == .class;
    }
};

/// Scratch memory for one document, not to be shared between threads.
pub const Cutter = struct {
    gpa: Allocator,
    stages: *const Stages,
    text: []const u8,
    /// One per stage, allocated by the first `next`.
    levels: []Level = &.{},
    /// The index of the current level.
    depth: usize = 0,

    pub fn init(gpa: Allocator, stages: *const Stages, text: []const u8) Cutter {
        return .{ .gpa = gpa, .stages = stages, .text = text };
    }

    pub fn deinit(self: *Cutter) void {
        for (self.levels) |*level| level.deinit();
        self.gpa.free(self.levels);
        self.* = undefined;
    }

    /// Returns the next piece of the last stage. The first call begins at `start`, which is 0 or
    /// the `outerEnd` of another cutter of the same text. Later calls continue after the last
    /// piece.
    pub fn next(self: *Cutter, start: usize) Error!?Span {
        if (self.levels.len == 0) {
            const levels = try self.gpa.alloc(Level, self.stages.list.len);
            for (levels, self.stages.list) |*level, *stage| level.* = .init(self.gpa, stage);
            self.levels = levels;
            self.levels[0].start(self.text, 0, start);
        }
        while (true) {
            const level = &self.levels[self.depth];
            const piece = try level.next() orelse {
                if (self.depth == 0) return null;
                self.depth -= 1;
                continue;
            };
            const base = level.base;
            if (self.depth + 1 == self.levels.len) {
                return .{ .start = base + piece.start, .end = base + piece.end };
            }
            self.depth += 1;
            const text = level.text[piece.start..piece.end];
            self.levels[self.depth].start(text, base + piece.start, 0);
        }
    }

    /// Returns the end of the piece of the first stage that contains the last piece. Later pieces
    /// do not depend on the text before it.
    pub fn outerEnd(self: *const Cutter) usize {
        return self.levels[0].piece_end;
    }

    /// Returns one past the last byte on which the last piece depends.
    pub fn reach(self: *const Cutter) usize {
        var found: usize = 0;
        var depth = self.levels.len;
        // Whether a level depends on the end of its text, which the previous level found.
        var needs_end = true;
        while (depth > 0) {
            depth -= 1;
            const level = &self.levels[depth];
            if (needs_end) found = @max(found, level.base + @min(level.reach, level.text.len));
            if (needs_end and depth == 0) found = @max(found, level.reach);
            const sees_end = needs_end and level.reach > level.text.len;
            needs_end = sees_end or (depth > 0 and !self.levels[depth - 1].isLocal());
        }
        return found;
    }
};

test "stages: classes have the expected members" {
    try std.testing.expect(Class.digits.has('7') and Class.digits.has(0xBD));
    try std.testing.expect(!Class.digits.has('a') and !Class.digits.has(0x10FFFF));
    try std.testing.expect(Class.punctuation.has('$') and Class.punctuation.has(0x3002));
    try std.testing.expect(!Class.punctuation.has(' ') and !Class.punctuation.has(0x20AC));
    try std.testing.expect(Class.space.has(0x3000) and !Class.space.has(0x1C));
}

fn expectPieces(list: []const Stage, text: []const u8, expected: []const []const u8) !void {
    const gpa = std.testing.allocator;
    const stages: Stages = .{ .list = @constCast(list) };
    var cutter: Cutter = .init(gpa, &stages, text);
    defer cutter.deinit();
    for (expected) |piece| {
        const span = (try cutter.next(0)).?;
        try std.testing.expectEqualStrings(piece, text[span.start..span.end]);
        try std.testing.expect(cutter.outerEnd() >= span.end);
        try std.testing.expect(cutter.reach() >= span.end);
    }
    try std.testing.expectEqual(@as(?Span, null), try cutter.next(0));
}

fn stageOf(class: Class, behaviour: Behaviour, invert: bool) Stage {
    return .{ .match = .{ .class = class }, .behaviour = behaviour, .invert = invert };
}

test "stages: behaviours combine spans like Split" {
    const text = "--the-final--cd-";
    const cases = .{
        .{ Behaviour.isolated, false, .{ "-", "-", "the", "-", "final", "-", "-", "cd", "-" } },
        .{ Behaviour.removed, false, .{ "the", "final", "cd" } },
        .{ Behaviour.removed, true, .{ "-", "-", "-", "-", "-", "-" } },
        .{ Behaviour.merged_with_previous, false, .{ "-", "-", "the-", "final-", "-", "cd-" } },
        .{ Behaviour.merged_with_next, false, .{ "-", "-the", "-final", "-", "-cd", "-" } },
        .{ Behaviour.merged_with_previous, true, .{ "-", "-the", "-final", "-", "-cd", "-" } },
        .{ Behaviour.merged_with_next, true, .{ "-", "-", "the-", "final-", "-", "cd-" } },
        .{ Behaviour.contiguous, false, .{ "--", "the", "-", "final", "--", "cd", "-" } },
        .{ Behaviour.contiguous, true, .{ "--", "the", "-", "final", "--", "cd", "-" } },
    };
    inline for (cases) |case| {
        try expectPieces(&.{stageOf(.punctuation, case[0], case[1])}, text, &case[2]);
    }
}

test "stages: each stage splits the pieces of the previous one" {
    const list = [_]Stage{
        stageOf(.space, .merged_with_next, false),
        stageOf(.digits, .isolated, false),
        stageOf(.punctuation, .removed, false),
    };
    try expectPieces(&list, "a1, b22 .", &.{ "a", "1", " b", "2", "2", " " });
    try expectPieces(&list, ",.", &.{});
    try expectPieces(&list, "", &.{});
}

test "stages: text after the reach does not affect pieces before it" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const gpa = std.testing.allocator;
    const alphabet = "ab1 2.,\n\xc2\xb2\xe2\x80\x94\xff";
    for (0..examples(20_000)) |_| {
        var list: [3]Stage = undefined;
        for (&list) |*stage| stage.* = stageOf(
            random.enumValue(Class),
            random.enumValue(Behaviour),
            random.boolean(),
        );
        const stages: Stages = .{ .list = list[0..random.intRangeAtMost(usize, 1, 3)] };
        var texts: [2][24]u8 = undefined;
        for (&texts) |*text| for (text) |*byte| {
            byte.* = alphabet[random.uintLessThan(usize, alphabet.len)];
        };
        var one: Cutter = .init(gpa, &stages, &texts[0]);
        defer one.deinit();
        var reach: usize = 0;
        for (0..random.intRangeAtMost(usize, 1, 6)) |_| {
            _ = try one.next(0) orelse break;
            reach = @max(reach, one.reach());
        } else {
            const count = pieces: {
                var again: Cutter = .init(gpa, &stages, &texts[0]);
                defer again.deinit();
                var count: usize = 0;
                var far: usize = 0;
                while (try again.next(0)) |_| {
                    far = @max(far, again.reach());
                    if (far > reach) break;
                    count += 1;
                }
                break :pieces count;
            };
            if (reach > texts[0].len) continue;
            @memcpy(texts[1][0..reach], texts[0][0..reach]);
            const len = random.intRangeAtMost(usize, reach, texts[1].len);
            var old: Cutter = .init(gpa, &stages, &texts[0]);
            defer old.deinit();
            var new: Cutter = .init(gpa, &stages, texts[1][0..len]);
            defer new.deinit();
            for (0..count) |_| try std.testing.expectEqual(try old.next(0), try new.next(0));
        }
    }
}

test "stages: splitting can restart at the end of a piece of the first stage" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const gpa = std.testing.allocator;
    const alphabet = "ab1 2.,\n\xe2\x80\x94";
    for (0..examples(20_000)) |_| {
        var list: [2]Stage = undefined;
        for (&list) |*stage| stage.* = stageOf(
            random.enumValue(Class),
            random.enumValue(Behaviour),
            random.boolean(),
        );
        const stages: Stages = .{ .list = &list };
        var text: [24]u8 = undefined;
        for (&text) |*byte| byte.* = alphabet[random.uintLessThan(usize, alphabet.len)];
        var one: Cutter = .init(gpa, &stages, &text);
        defer one.deinit();
        for (0..random.intRangeAtMost(usize, 1, 6)) |_| _ = try one.next(0) orelse break;
        const start = one.outerEnd();
        var other: Cutter = .init(gpa, &stages, &text);
        defer other.deinit();
        while (try one.next(0)) |span| {
            if (span.start < start) continue;
            try std.testing.expectEqual(span, (try other.next(start)).?);
        }
        try std.testing.expectEqual(@as(?Span, null), try other.next(start));
    }
}
