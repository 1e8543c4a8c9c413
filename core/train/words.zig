//! Pretoken counts → words: the tokens of each unique pretoken, and its count.
//!
//! A word is a few 32-bit cells in one array: its numbers of tokens and cells, its count, and its
//! tokens. A visit thus reads one or two cache lines. A word is identified by its first cell.
//! Merging shortens a word in place, and its cells stay allocated. Numbers that do not fit the
//! short header are stored in additional cells.

const std = @import("std");
const platform = @import("../platform.zig");
const Allocator = std.mem.Allocator;

/// The index of a word's first cell.
pub const Word = u32;

/// The first cell has the number of tokens, and the number of cells in its upper half. The second
/// cell has the count.
const header_len = 2;
/// Marks a large header in place of the number of cells. The third and following cells then have
/// the number of tokens, the number of cells, and the count.
const is_large = 0xFFFF;
const header_len_large = 6;
/// Cells after the last word, so that whole vectors of tokens can be loaded.
const overread = 16;

pub fn Words(comptime Token: type) type {
    return struct {
        const Self = @This();
        const per_cell = @sizeOf(u32) / @sizeOf(Token);
        /// Number of tokens compared at once.
        const lanes = 32 / @sizeOf(Token);
        const Lanes = @Vector(lanes, Token);
        const Flags = std.meta.Int(.unsigned, lanes);

        cells: std.ArrayList(u32) = .empty,
        count: usize = 0,
        /// Sum of all counts, saturating.
        occurrences: u64 = 0,
        /// The allocator of the cells.
        gpa: Allocator,
        is_spilled: bool = false,

        pub fn deinit(self: *Self) void {
            self.cells.deinit(self.gpa);
        }

        pub fn bytes(self: *const Self) usize {
            return self.cells.capacity * @sizeOf(u32);
        }

        /// Reserves memory for words with this many tokens, on large pages, because words are
        /// visited in an unpredictable order.
        pub fn reserve(self: *Self, words: usize, tokens: usize) Allocator.Error!void {
            const more = words * (header_len + 1) + tokens / per_cell + overread;
            const before = self.cells.capacity;
            try self.cells.ensureUnusedCapacity(self.gpa, more);
            if (self.cells.capacity == before or self.is_spilled) return;
            platform.memory.adviseHuge(self.cells.allocatedSlice()[self.cells.items.len..]);
        }

        /// Releases the memory of words that are stored in a file.
        pub fn release(self: *Self) void {
            if (self.is_spilled) platform.spill.Spill.release(self.cells.allocatedSlice());
        }

        /// Adds a word of `len` tokens and returns the slice to fill.
        pub fn add(self: *Self, len: u32, count: u64) Allocator.Error![]Token {
            const fits = len <= 0xFFFF and header_len + cellsFor(len) < is_large and
                count <= std.math.maxInt(u32);
            const size = cellsFor(len) + @as(u64, if (fits) header_len else header_len_large);
            const start = self.cells.items.len;
            if (start + size + overread > std.math.maxInt(Word)) return error.OutOfMemory;
            try self.cells.ensureUnusedCapacity(self.gpa, @intCast(size + overread));
            self.cells.items.len += @intCast(size);
            const cells = self.cells.items[start..];
            if (fits) cells[0..2].* = .{ @intCast(size << 16 | len), @intCast(count) } else {
                cells[0..4].* = .{ is_large << 16, 0, len, @intCast(size) };
                cells[4..6].* = @bitCast(count);
            }
            self.count += 1;
            self.occurrences +|= count;
            return self.tokensOf(@intCast(start));
        }

        inline fn isLarge(self: *const Self, word: Word) bool {
            return self.cells.items.ptr[word] >> 16 == is_large;
        }

        pub inline fn countOf(self: *const Self, word: Word) u64 {
            if (!self.isLarge(word)) return self.cells.items.ptr[word + 1];
            return @bitCast(self.cells.items.ptr[word + 4 ..][0..2].*);
        }

        pub inline fn tokensOf(self: *const Self, word: Word) []Token {
            const cells = self.cells.items.ptr + word;
            if (!self.isLarge(word)) {
                const tokens: [*]Token = @ptrCast(cells + header_len);
                return tokens[0 .. cells[0] & 0xFFFF];
            }
            const tokens: [*]Token = @ptrCast(cells + header_len_large);
            return tokens[0..cells[2]];
        }

        pub inline fn shorten(self: *Self, word: Word, len: usize) void {
            const cells = self.cells.items.ptr + word;
            if (!self.isLarge(word)) {
                cells[0] = cells[0] & 0xFFFF_0000 | @as(u32, @intCast(len));
            } else cells[2] = @intCast(len);
        }

        pub inline fn prefetch(self: *const Self, word: Word) void {
            @prefetch(&self.cells.items.ptr[word], .{});
            @prefetch(&self.cells.items.ptr[word + 16], .{});
        }

        /// Moves a word down to cell `to` without its unused cells, and returns the first cell
        /// after it. No references to its old position may remain.
        pub fn move(self: *Self, word: Word, to: Word) Word {
            const cells = self.cells.items;
            const header: u32 = if (self.isLarge(word)) header_len_large else header_len;
            const len: u32 = @intCast(self.tokensOf(word).len);
            const size: Word = @intCast(header + cellsFor(len));
            std.debug.assert(to + size <= word + self.sizeOf(word));
            std.mem.copyForwards(u32, cells[to..][0..size], cells[word..][0..size]);
            if (header == header_len) cells[to] = size << 16 | len else cells[to + 3] = size;
            return to + size;
        }

        /// Removes everything from cell `end` on; `count` words remain.
        pub fn cut(self: *Self, end: Word, count: usize) void {
            self.cells.items.len = end;
            self.count = count;
            if (self.cells.capacity - end < self.cells.capacity / 4) return;
            // If the allocator cannot shrink it in place, it keeps its size.
            const memory = self.cells.allocatedSlice();
            if (self.gpa.resize(memory, end + overread)) self.cells.capacity = end + overread;
        }

        fn cellsFor(len: u32) u64 {
            return (@as(u64, len) + per_cell - 1) / per_cell;
        }

        /// Returns the number of cells of a word.
        inline fn sizeOf(self: *const Self, word: Word) u32 {
            const cells = self.cells.items.ptr + word;
            return if (self.isLarge(word)) cells[3] else cells[0] >> 16;
        }

        /// Returns the next word, or null after the last one.
        pub inline fn after(self: *const Self, word: Word) ?Word {
            const next = word + self.sizeOf(word);
            return if (next < self.cells.items.len) next else null;
        }

        pub fn first(self: *const Self) ?Word {
            return if (self.count == 0) null else 0;
        }

        /// Maximum number of tokens of words with a mask of positions.
        pub const mask_len_max = 64;

        /// Returns the positions where `right` follows `left` in a word of at most `mask_len_max`
        /// tokens.
        pub inline fn placesOf(tokens: []const Token, left: Token, right: Token) u64 {
            if (tokens.len < 2) return 0;
            var places: u64 = flagsAt(tokens, 0, left, right);
            var at: usize = lanes;
            while (at + 1 < tokens.len) : (at += lanes) {
                places |= @as(u64, flagsAt(tokens, at, left, right)) << @intCast(at);
            }
            // Masks out the data after the word.
            return places & (@as(u64, std.math.maxInt(u64)) >> @intCast(65 - tokens.len));
        }

        inline fn flagsAt(tokens: []const Token, at: usize, left: Token, right: Token) Flags {
            const lefts: Lanes = tokens.ptr[at..][0..lanes].*;
            const rights: Lanes = tokens.ptr[at + 1 ..][0..lanes].*;
            return @bitCast((lefts == @as(Lanes, @splat(left))) &
                (rights == @as(Lanes, @splat(right))));
        }

        /// Moves all tokens except the first down by one.
        pub inline fn closeGap(tokens: []Token) void {
            const chunk = 16 / @sizeOf(Token);
            var at: usize = 0;
            while (at + 1 + chunk <= tokens.len) : (at += chunk) {
                const moved: @Vector(chunk, Token) = tokens[at + 1 ..][0..chunk].*;
                tokens[at..][0..chunk].* = moved;
            }
            while (at + 1 < tokens.len) : (at += 1) tokens[at] = tokens[at + 1];
        }

        /// Returns the first position from `start` where `right` follows `left`, or null.
        pub inline fn find(tokens: []const Token, start: usize, left: Token, right: Token) ?usize {
            var at = start;
            while (at + 1 < tokens.len) : (at += lanes) {
                const flags = flagsAt(tokens, at, left, right);
                if (flags == 0) continue;
                const found = at + @ctz(flags);
                return if (found + 1 < tokens.len) found else null;
            }
            return null;
        }
    };
}

test "words: tokens are stored, and pairs are found at their positions" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    // Some lengths and counts need a large header.
    const count_of = [_]u64{ 1, std.math.maxInt(u32), 1 << 32, 3 << 60 };
    inline for (.{ u16, u32 }) |Token| {
        var words: Words(Token) = .{ .gpa = gpa };
        defer words.deinit();
        for (0..200) |index| {
            const len = if (index % 50 == 7) 0xFFF0 + index else random.intRangeAtMost(u32, 1, 80);
            const tokens = try words.add(@intCast(len), count_of[index % 4]);
            for (tokens) |*token| token.* = random.uintLessThan(Token, 4);
        }
        var next = words.first();
        var index: usize = 0;
        var end: Word = 0;
        while (next) |word| : (index += 1) {
            next = words.after(word);
            try std.testing.expectEqual(count_of[index % 4], words.countOf(word));
            try checkPlaces(Token, random, words.tokensOf(word));
            // Shortened, and moved down.
            const len = random.uintAtMost(usize, words.tokensOf(word).len - 1);
            const kept = try gpa.dupe(Token, words.tokensOf(word)[0..len]);
            defer gpa.free(kept);
            words.shorten(word, len);
            const moved = end;
            end = words.move(word, moved);
            try std.testing.expectEqual(count_of[index % 4], words.countOf(moved));
            try std.testing.expectEqualSlices(Token, kept, words.tokensOf(moved));
        }
        try std.testing.expectEqual(200, index);
    }
}

fn checkPlaces(comptime Token: type, random: std.Random, tokens: []Token) !void {
    const left = random.uintLessThan(Token, 4);
    const right = random.uintLessThan(Token, 4);
    const start = random.uintLessThan(usize, tokens.len);
    var places: u64 = 0;
    var expected: ?usize = null;
    for (0..tokens.len - 1) |at| if (tokens[at] == left and tokens[at + 1] == right) {
        if (at < 64) places |= @as(u64, 1) << @intCast(at);
        if (at >= start and expected == null) expected = at;
    };
    try std.testing.expectEqual(expected, Words(Token).find(tokens, start, left, right));
    if (tokens.len > Words(Token).mask_len_max) return;
    try std.testing.expectEqual(places, Words(Token).placesOf(tokens, left, right));
    var copy: [64]Token = undefined;
    @memcpy(copy[0..tokens.len], tokens);
    Words(Token).closeGap(copy[0..tokens.len]);
    try std.testing.expectEqualSlices(Token, tokens[1..], copy[0 .. tokens.len - 1]);
    try std.testing.expectEqual(tokens[tokens.len - 1], copy[tokens.len - 1]);
}

test "words: words that are too long are rejected, not truncated" {
    inline for (.{ u16, u32 }) |Token| {
        const longest = Words(Token).cellsFor(std.math.maxInt(u32));
        try std.testing.expect(longest * @sizeOf(u32) >= std.math.maxInt(u32) * @sizeOf(Token));
    }
    var words: Words(u32) = .{ .gpa = std.testing.allocator };
    defer words.deinit();
    try std.testing.expectError(error.OutOfMemory, words.add(std.math.maxInt(u32), 1));
}
