//! Byte spans in a text → character spans.

const std = @import("std");
const platform = @import("../platform.zig");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const normal = @import("../normalize.zig");
const unicode = @import("../unicode.zig");
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Converts byte offsets in a text, which must not be empty, to character offsets. A token that
/// begins or ends inside a character covers the whole character.
///
/// It keeps a position and the number of characters before it. Spans are mostly contiguous, so
/// little text is counted for each. An index is built for the first span that is elsewhere.
pub const CharacterCursor = struct {
    gpa: Allocator,
    text: []const u8,
    at: u32 = 0,
    before: u32 = 0,
    index: ?Index = null,

    pub fn deinit(self: *CharacterCursor) void {
        if (self.index) |*index| index.deinit(self.gpa);
    }

    /// Computes the character spans of contiguous tokens from byte `first`. It combines `measure`
    /// and `count` in half their time.
    pub fn follow(
        self: *CharacterCursor,
        vocabulary: *const Vocabulary,
        fresh: []const u32,
        first: u32,
        spans: []normal.Place,
    ) Allocator.Error!void {
        if (first != self.at) _ = try self.seek(.{ .start = first, .end = first });
        const text = self.text;
        var at, var before = .{ self.at, self.before };
        var index: usize = 0;
        while (index < fresh.len) : (index += 1) {
            const len = vocabulary.tokenLen(fresh[index]);
            if (len > near or @as(usize, at) + near > text.len) {
                self.at, self.before = .{ at, before };
                spans[index] = try self.seek(.{ .start = at, .end = at + len });
                at, before = .{ self.at, self.before };
                continue;
            }
            const firsts = firstsAt(text[at..]);
            const start = before + (firsts & 1) - 1;
            before += @popCount(firsts & masks[len]);
            at += len;
            spans[index] = .{ .start = start, .end = before };
            if (firsts != masks[near]) continue;
            // In a run of ASCII, character and byte offsets differ by a constant.
            const more = at - before;
            const ascii_end = asciiEnd(text, at);
            for (fresh[index + 1 ..], spans[index + 1 ..]) |id, *span| {
                const end = at +% vocabulary.tokenLen(id);
                if (end > ascii_end) break;
                span.* = .{ .start = at - more, .end = end - more };
                at = end;
                index += 1;
            }
            before = at - more;
        }
        self.at, self.before = .{ at, before };
    }

    /// Returns an offset up to which the text from `start` is ASCII.
    fn asciiEnd(text: []const u8, start: u32) u32 {
        const far_end = @min(text.len, @as(usize, start) + 4096);
        var end: usize = start;
        while (end + near <= far_end) : (end += near) {
            const bytes: @Vector(near, i8) = @bitCast(text[end..][0..near].*);
            if (@reduce(.Or, bytes < @as(@Vector(near, i8), @splat(0)))) break;
        }
        while (end < far_end and text[end] < 0x80) end += 1;
        return @intCast(end);
    }

    /// Converts spans, in any order, from bytes to characters.
    pub fn count(self: *CharacterCursor, spans: []normal.Place) Allocator.Error!void {
        const text = self.text;
        // In registers. Through memory each span would depend on a store of the previous one.
        var at, var before = .{ self.at, self.before };
        for (spans) |*span| {
            const len = span.end -% span.start;
            if (span.start == at and len <= near and @as(usize, at) + near <= text.len) {
                @branchHint(.likely);
                const firsts = firstsAt(text[at..]);
                const start = before + (firsts & 1) - 1;
                before += @popCount(firsts & masks[len]);
                at = span.end;
                span.* = .{ .start = start, .end = before };
                continue;
            }
            self.at, self.before = .{ at, before };
            span.* = try self.seek(span.*);
            at, before = .{ self.at, self.before };
        }
        self.at, self.before = .{ at, before };
    }

    /// Number of bytes examined per step.
    const near = 16;
    const Firsts = @Int(.unsigned, near);
    /// Masks of the lowest bits, indexed by their number.
    const masks = blk: {
        var made: [near + 1]u32 = undefined;
        for (&made, 0..) |*mask, len| mask.* = (1 << len) - 1;
        break :blk made;
    };

    /// Returns a bit for each of the first bytes of `text` that begins a character.
    inline fn firstsAt(text: []const u8) u32 {
        const bytes: @Vector(near, i8) = @bitCast(text[0..near].*);
        const firsts = platform.vector.bits(bytes >= @as(@Vector(near, i8), @splat(-64)));
        return firsts;
    }

    /// Returns the number of characters that begin in `start..end`.
    pub fn between(text: []const u8, start: usize, end: usize) u32 {
        return @intCast(unicode.countCharacters(text[start..end]));
    }

    /// Converts any span, and moves the position to its end.
    noinline fn seek(self: *CharacterCursor, span: normal.Place) Allocator.Error!normal.Place {
        const text = self.text;
        // A span after the last character covers that character.
        const start: u32 = @min(span.start, @as(u32, @intCast(text.len)) - 1);
        const is_next = start == self.at and span.end >= start and self.index == null;
        // Short steps back add up to at most a small multiple of the text.
        const is_near = start -% self.at +% 64 <= 128 and span.end -% start <= 64;
        var before = self.before;
        if (is_next or is_near) {
            if (start < self.at) before -= between(text, start, self.at);
            if (start > self.at) before += between(text, self.at, start);
            self.before = before + between(text, start, span.end);
        } else {
            if (self.index == null) self.index = try .init(self.gpa, text);
            before = self.index.?.before(start);
            self.before = self.index.?.before(span.end);
        }
        self.at = span.end;
        const is_first = text[start] & 0xC0 != 0x80;
        return .{ .start = before + @intFromBool(is_first) - 1, .end = self.before };
    }
};

/// Number of characters before any byte of a text.
const Index = struct {
    /// A bit for each byte that begins a character, and the number of characters before each 64
    /// bytes.
    firsts: []u64,
    counts: []u32,

    fn init(gpa: Allocator, text: []const u8) Allocator.Error!Index {
        const blocks = text.len / 64 + 1;
        const firsts = try gpa.alloc(u64, blocks);
        errdefer gpa.free(firsts);
        const counts = try gpa.alloc(u32, blocks);
        var count: u32 = 0;
        for (firsts, counts, 0..) |*bits, *before_, block| {
            before_.* = count;
            bits.* = firstsOf(text[block * 64 ..]);
            count += @popCount(bits.*);
        }
        return .{ .firsts = firsts, .counts = counts };
    }

    fn deinit(self: *Index, gpa: Allocator) void {
        gpa.free(self.firsts);
        gpa.free(self.counts);
    }

    fn firstsOf(text: []const u8) u64 {
        // Continuation bytes are those from 0x80 to 0xBF.
        var bytes: [64]u8 = @splat(0x80);
        if (text.len >= 64) bytes = text[0..64].* else @memcpy(bytes[0..text.len], text);
        const signed: @Vector(64, i8) = @bitCast(bytes);
        return platform.vector.bits(signed >= @as(@Vector(64, i8), @splat(-64)));
    }

    inline fn before(self: *const Index, byte: usize) u32 {
        const below = (@as(u64, 1) << @intCast(byte % 64)) - 1;
        return self.counts[byte / 64] + @popCount(self.firsts[byte / 64] & below);
    }
};

const testing = std.testing;

test "spans: a character span has the characters that begin in the byte span" {
    const gpa = testing.allocator;
    var prng: std.Random.DefaultPrng = .init(testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{ "a", "\u{e9}", "\u{4f60}", "\u{1f642}", "word and word", "  " };
    for (0..examples(2000)) |round| {
        var text: std.ArrayList(u8) = .empty;
        defer text.deinit(gpa);
        for (0..1 + random.uintLessThan(usize, 90)) |_| {
            try text.appendSlice(gpa, parts[random.uintLessThan(usize, parts.len)]);
        }
        const len: u32 = @intCast(text.items.len);
        const far = if (round % 3 == 0) len else 1 + random.uintLessThan(u32, 40);
        var spans: [40]normal.Place = undefined;
        var wanted: [40]normal.Place = undefined;
        var at: u32 = 0;
        for (&spans, &wanted) |*span, *characters| {
            const leaps = random.uintLessThan(u8, 4) == 0;
            const start = if (leaps) at -| random.uintLessThan(u32, far) else at;
            const end = @min(len, start + random.uintLessThan(u32, far));
            span.* = .{ .start = start, .end = end };
            at = @min(len, end + if (leaps) random.uintLessThan(u32, far) else 0);
            const first = CharacterCursor.between(text.items, 0, @min(start, len - 1) + 1) - 1;
            characters.* = .{ .start = first, .end = 0 };
            for (text.items[0..end]) |byte| characters.end += @intFromBool(byte & 0xC0 != 0x80);
        }
        var cursor: CharacterCursor = .{ .gpa = gpa, .text = text.items };
        defer cursor.deinit();
        const half = random.uintLessThan(usize, spans.len);
        try cursor.count(spans[0..half]);
        try cursor.count(spans[half..]);
        try testing.expectEqualSlices(normal.Place, &wanted, &spans);
    }
}
