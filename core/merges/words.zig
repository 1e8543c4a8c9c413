//! Entries of an inventory → words: the tokens of each distinct pretoken, and its count.
//!
//! A word is a few cells of 32 bits in one array: how many tokens it has, how many cells, its
//! count, and its tokens behind that, so that a visit reads one cache line. It is known by its
//! first cell. Merging makes a word shorter in place; its cells stay its own.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pages = @import("../pages.zig");
const Spill = @import("spill.zig").Spill;

/// A word's first cell.
pub const Word = u32;

const header_len = 4;
/// Cells behind the last word, so that tokens can be read many at once.
const overread = 16;

pub fn Words(comptime Token: type) type {
    return struct {
        const Self = @This();
        const per_cell = @sizeOf(u32) / @sizeOf(Token);
        /// Tokens that are compared at once.
        const lanes = 32 / @sizeOf(Token);
        const Lanes = @Vector(lanes, Token);
        const Flags = std.meta.Int(.unsigned, lanes);

        cells: std.ArrayList(u32) = .empty,
        count: usize = 0,
        /// How often all of them occur together, up to what fits.
        occurrences: u64 = 0,
        /// Where the cells are.
        gpa: Allocator,
        is_spilled: bool = false,

        pub fn deinit(self: *Self) void {
            self.cells.deinit(self.gpa);
        }

        pub fn bytes(self: *const Self) usize {
            return self.cells.capacity * @sizeOf(u32);
        }

        /// Makes room for words with so many tokens: on large pages, since words are visited in no
        /// order that a processor knows.
        pub fn reserve(self: *Self, words: usize, tokens: usize) Allocator.Error!void {
            const more = words * (header_len + 1) + tokens / per_cell + overread;
            const before = self.cells.capacity;
            try self.cells.ensureUnusedCapacity(self.gpa, more);
            if (self.cells.capacity == before or self.is_spilled) return;
            pages.adviseHuge(self.cells.allocatedSlice()[self.cells.items.len..]);
        }

        /// Gives up the memory of words that lie in a file.
        pub fn release(self: *Self) void {
            if (self.is_spilled) Spill.release(self.cells.allocatedSlice());
        }

        /// Adds a word of `len` tokens and returns where they go.
        pub fn add(self: *Self, len: u32, count: u64) Allocator.Error![]Token {
            const size = sizeOf(len);
            const start = self.cells.items.len;
            if (start + size + overread > std.math.maxInt(Word)) return error.OutOfMemory;
            try self.cells.ensureUnusedCapacity(self.gpa, @intCast(size + overread));
            self.cells.items.len += @intCast(size);
            const cells = self.cells.items[start..];
            cells[0] = len;
            cells[1] = @intCast(size);
            cells[2..4].* = @bitCast(count);
            self.count += 1;
            self.occurrences +|= count;
            return self.tokensOf(@intCast(start));
        }

        pub inline fn countOf(self: *const Self, word: Word) u64 {
            return @bitCast(self.cells.items[word + 2 ..][0..2].*);
        }

        pub inline fn tokensOf(self: *const Self, word: Word) []Token {
            const tokens: [*]Token = @ptrCast(&self.cells.items.ptr[word + header_len]);
            return tokens[0..self.cells.items[word]];
        }

        pub inline fn shorten(self: *Self, word: Word, len: usize) void {
            self.cells.items[word] = @intCast(len);
        }

        pub inline fn prefetch(self: *const Self, word: Word) void {
            @prefetch(&self.cells.items.ptr[word], .{ .rw = .write });
        }

        /// Moves a word down to cell `to` without the cells that it does not need any more, and
        /// returns the first cell behind it. Nobody may know it by its old place.
        pub fn move(self: *Self, word: Word, to: Word) Word {
            const cells = self.cells.items;
            const size: Word = @intCast(sizeOf(cells[word]));
            std.debug.assert(to + size <= word + cells[word + 1]);
            std.mem.copyForwards(u32, cells[to..][0..size], cells[word..][0..size]);
            cells[to + 1] = size;
            return to + size;
        }

        /// Gives up everything from cell `end` on; `count` words are left.
        pub fn cut(self: *Self, end: Word, count: usize) void {
            self.cells.items.len = end;
            self.count = count;
            if (self.cells.capacity - end < self.cells.capacity / 4) return;
            // Where the allocator cannot make it smaller in place, it stays as large as it is.
            const memory = self.cells.allocatedSlice();
            if (self.gpa.resize(memory, end + overread)) self.cells.capacity = end + overread;
        }

        /// Cells of a word with `len` tokens.
        fn sizeOf(len: u32) u64 {
            return header_len + (@as(u64, len) + per_cell - 1) / per_cell;
        }

        /// The word behind this one; null behind the last.
        pub inline fn after(self: *const Self, word: Word) ?Word {
            const next = word + self.cells.items[word + 1];
            return if (next < self.cells.items.len) next else null;
        }

        pub fn first(self: *const Self) ?Word {
            return if (self.count == 0) null else 0;
        }

        /// Where `left` and `right` first stand side by side from `start` on, or null.
        pub inline fn find(tokens: []const Token, start: usize, left: Token, right: Token) ?usize {
            var at = start;
            while (at + 1 < tokens.len) : (at += lanes) {
                // What lies behind the word is read, not counted.
                const lefts: Lanes = tokens.ptr[at..][0..lanes].*;
                const rights: Lanes = tokens.ptr[at + 1 ..][0..lanes].*;
                const both = (lefts == @as(Lanes, @splat(left))) &
                    (rights == @as(Lanes, @splat(right)));
                const flags: Flags = @bitCast(both);
                if (flags == 0) continue;
                const found = at + @ctz(flags);
                return if (found + 1 < tokens.len) found else null;
            }
            return null;
        }
    };
}

test "words: tokens come back, and pairs are found where they are" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    inline for (.{ u16, u32 }) |Token| {
        var words: Words(Token) = .{ .gpa = gpa };
        defer words.deinit();
        for (0..200) |index| {
            const tokens = try words.add(random.intRangeAtMost(u32, 1, 60), index << 33);
            for (tokens) |*token| token.* = random.uintLessThan(Token, 4);
        }
        var next = words.first();
        var index: u64 = 0;
        while (next) |word| : (next = words.after(word)) {
            try std.testing.expectEqual(index << 33, words.countOf(word));
            const tokens = words.tokensOf(word);
            const left = random.uintLessThan(Token, 4);
            const right = random.uintLessThan(Token, 4);
            const start = random.uintLessThan(usize, tokens.len);
            const expected = for (start..tokens.len - 1) |at| {
                if (tokens[at] == left and tokens[at + 1] == right) break at;
            } else null;
            try std.testing.expectEqual(expected, Words(Token).find(tokens, start, left, right));
            index += 1;
        }
        try std.testing.expectEqual(200, index);
    }
}

test "words: the longest are refused, not cut" {
    inline for (.{ u16, u32 }) |Token| {
        const longest = Words(Token).sizeOf(std.math.maxInt(u32));
        try std.testing.expect(longest * @sizeOf(u32) >= (1 << 32) * @sizeOf(Token));
    }
    var words: Words(u32) = .{ .gpa = std.testing.allocator };
    defer words.deinit();
    try std.testing.expectError(error.OutOfMemory, words.add(std.math.maxInt(u32), 1));
}
