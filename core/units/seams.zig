//! Two adjacent characters → whether a token may cover the boundary between them.
//!
//! Merging builds tokens from neighbours. If no token of the vocabulary contains a boundary, no
//! merge ever crosses it: it is a safe split point, and both sides can be encoded separately. In
//! scripts with many characters, nearly all boundaries are safe.
//!
//! Most tokens consist of whole characters. Their inner pairs are inserted into a Bloom filter,
//! where a false positive only means one split point less. They are inserted a second time with the
//! characters around the pair, for scripts in which nearly every pair occurs in some token. A token
//! that starts or ends inside a character rules out split points around its other characters. There
//! are few such tokens.

const std = @import("std");
const Allocator = std.mem.Allocator;
const unicode = @import("../unicode.zig");

/// The constraints that a character imposes.
pub const Limits = packed struct(u4) {
    /// No split point after it, or before it: some token ends or starts inside its neighbour.
    behind: bool = false,
    before: bool = false,
    /// Some token with only part of both neighbours starts inside it, or ends inside it.
    starts_inside: bool = false,
    ends_inside: bool = false,
};

/// A Bloom filter with one cell of `width` bits per hash.
fn Filter(comptime width: u32) type {
    return struct {
        words: []u32,
        shift: u5,

        const Self = @This();
        const per_word = 32 / width;
        const empty: Self = .{ .words = &.{}, .shift = 0 };

        /// Allocates at least `places` cells, rounded up to a power of two.
        fn init(gpa: Allocator, places: usize) Allocator.Error!Self {
            const log2 = std.math.log2_int_ceil(usize, std.math.clamp(places, 1 << 12, 1 << 30));
            const words = try gpa.alloc(u32, (@as(usize, 1) << @intCast(log2)) / per_word);
            @memset(words, 0);
            return .{ .words = words, .shift = @intCast(32 - @as(u6, @intCast(log2))) };
        }

        fn deinit(self: *Self, gpa: Allocator) void {
            gpa.free(self.words);
        }

        fn set(self: *Self, hash: u32, bits: u32) void {
            const index = hash >> self.shift;
            self.words[index / per_word] |= bits << @intCast(index % per_word * width);
        }

        pub inline fn get(self: *const Self, hash: u32) u32 {
            return self.from(hash >> self.shift) & ((1 << width) - 1);
        }

        /// Returns the bits of a known cell, followed by those of the next ones.
        pub inline fn from(self: *const Self, place: u32) u32 {
            return self.words[place / per_word] >> @intCast(place % per_word * width);
        }
    };
}

/// Bits for the tokens that contain a pair of characters. The second bit implies the first.
pub const joined: u32 = 1;
/// Some token consists of the pair alone, so the context in a text is irrelevant.
pub const joined_alone: u32 = 2;

pub const Seams = struct {
    /// Bits for each hash of a pair, and a bit for each hash of a pair with its context. The first
    /// filter is small, so that it stays in the CPU's cache. The second resolves its false
    /// positives.
    pairs: Filter(2),
    around: Filter(1),
    /// Random odd factors of the left and right character and of those around them, new at each
    /// load.
    factors: [4]u32,
    no_cut_behind: std.AutoHashMapUnmanaged(u21, void),
    no_cut_before: std.AutoHashMapUnmanaged(u21, void),
    /// Parts of characters in tokens that contain part of two characters but neither completely.
    starts_inside: std.AutoHashMapUnmanaged(u21, void),
    ends_inside: std.AutoHashMapUnmanaged(u21, void),

    pub const empty: Seams = .{
        .pairs = .empty,
        .around = .empty,
        .factors = @splat(1),
        .no_cut_behind = .empty,
        .no_cut_before = .empty,
        .starts_inside = .empty,
        .ends_inside = .empty,
    };

    /// `tokens` provides the bytes of an id with `tokenBytes(id)`.
    pub fn init(gpa: Allocator, tokens: anytype, ids_end: u32, seed: u64) Allocator.Error!Seams {
        var seams: usize = 0;
        for (0..ids_end) |id| seams += seamsOf(tokens.tokenBytes(@intCast(id)));
        var self: Seams = .empty;
        errdefer self.deinit(gpa);
        self.pairs = try .init(gpa, seams * 6);
        self.around = try .init(gpa, seams * 12);
        var random: std.Random.SplitMix64 = .init(seed);
        for (&self.factors) |*factor| factor.* = @truncate(random.next() | 1);
        for (0..ids_end) |id| try self.enter(gpa, tokens.tokenBytes(@intCast(id)));
        return self;
    }

    pub fn deinit(self: *Seams, gpa: Allocator) void {
        self.pairs.deinit(gpa);
        self.around.deinit(gpa);
        self.no_cut_behind.deinit(gpa);
        self.no_cut_before.deinit(gpa);
        self.starts_inside.deinit(gpa);
        self.ends_inside.deinit(gpa);
    }

    /// Returns an upper bound on the number of boundaries in a token.
    fn seamsOf(token: []const u8) usize {
        if (isAscii(token)) return 0;
        return unicode.countCharacters(token[1..]);
    }

    /// Whether a token has no relevant boundary. Most have none, so this is fast.
    inline fn isAscii(token: []const u8) bool {
        var rest = token;
        while (rest.len >= 8) : (rest = rest[8..]) {
            const word = std.mem.readInt(u64, rest[0..8], .little);
            if (word & 0x8080_8080_8080_8080 != 0) return false;
        }
        for (rest) |byte| if (byte >= 0x80) return false;
        return true;
    }

    /// A character of a token, if it is complete, and its bytes.
    const Part = struct { char: ?u21, start: usize, end: usize };

    fn partAt(token: []const u8, start: usize) Part {
        const decoded = unicode.decode(token, start);
        if (decoded.code_point != unicode.replacement) {
            return .{ .char = decoded.code_point, .start = start, .end = start + decoded.len };
        }
        // All bytes up to the next one that starts a character.
        var end = start + 1;
        while (end < token.len and token[end] & 0xC0 == 0x80) end += 1;
        return .{ .char = null, .start = start, .end = end };
    }

    fn enter(self: *Seams, gpa: Allocator, token: []const u8) Allocator.Error!void {
        if (isAscii(token)) return;
        var before: ?u21 = null;
        var left = partAt(token, 0);
        while (left.end < token.len) {
            const right = partAt(token, left.end);
            if (token[left.end - 1] >= 0x80 or token[left.end] >= 0x80) {
                try self.enterSeam(gpa, token, before, left, right);
            }
            before = left.char;
            left = right;
        }
    }

    fn enterSeam(
        self: *Seams,
        gpa: Allocator,
        token: []const u8,
        before: ?u21,
        left: Part,
        right: Part,
    ) Allocator.Error!void {
        const part_before = token[left.start..left.end];
        const part_behind = token[right.start..right.end];
        if (left.char != null and right.char != null) {
            const behind = if (right.end == token.len) null else partAt(token, right.end).char;
            const is_alone = before == null and behind == null;
            const bits = if (is_alone) joined | joined_alone else joined;
            self.pairs.set(self.hashOf(left.char.?, right.char.?), bits);
            if (is_alone) return;
            self.around.set(self.hashAround(
                left.char.?,
                right.char.?,
                before orelse anything,
                behind orelse anything,
            ), 1);
        } else if (left.char) |char| {
            try self.no_cut_behind.put(gpa, char, {});
            self.set(char, partCode(part_behind));
        } else if (right.char) |char| {
            try self.no_cut_before.put(gpa, char, {});
            self.set(partCode(part_before[part_before.len -| 2..]), char);
        } else {
            const codes = .{ partCode(part_before[part_before.len -| 2..]), partCode(part_behind) };
            try self.starts_inside.put(gpa, codes[0], {});
            try self.ends_inside.put(gpa, codes[1], {});
            self.set(codes[0], codes[1]);
        }
    }

    fn set(self: *Seams, left: u21, right: u21) void {
        self.pairs.set(self.hashOf(left, right), joined);
    }

    /// Returns a number above all code points for part of a character: one or two bytes of it. Of
    /// three bytes the two next to the boundary are sufficient, as a false positive is harmless.
    fn partCode(part: []const u8) u21 {
        if (part.len == 1) return 0x110000 + @as(u21, part[0]);
        return 0x120000 + (@as(u21, part[0]) << 8) + part[1];
    }

    inline fn hashOf(self: *const Seams, left: u32, right: u32) u32 {
        return left *% self.factors[0] +% right *% self.factors[1];
    }

    inline fn hashAround(self: *const Seams, left: u32, right: u32, before: u32, behind: u32) u32 {
        return self.hashOf(left, right) +% before *% self.factors[2] +% behind *% self.factors[3];
    }

    /// Returns 1 if some token may contain these two whole characters next to each other, otherwise
    /// 0.
    pub inline fn joins(self: *const Seams, left: u32, right: u32) u32 {
        return self.pairs.get(self.hashOf(left, right)) & joined;
    }

    /// Placeholder for a character around a pair, for a token that ends there and fits any.
    pub const anything: u32 = 0x130000;

    /// The same for a pair that is not `joined_alone`, for tokens with the characters around it.
    /// Pass `anything` for a character that does not exist.
    pub inline fn joinsAround(
        self: *const Seams,
        left: u32,
        right: u32,
        before: u32,
        behind: u32,
    ) u32 {
        return self.around.get(self.hashAround(left, right, before, anything)) |
            self.around.get(self.hashAround(left, right, anything, behind)) |
            self.around.get(self.hashAround(left, right, before, behind));
    }

    /// Whether some token contains `left` and may end inside the character `right`, whose bytes are
    /// passed, or starts inside `left` and contains `right`. Only for characters with `Limits`.
    pub fn joinsBehind(self: *const Seams, left: u32, right: []const u8) bool {
        return self.joins(left, partCode(right[0..1])) != 0 or
            (right.len > 2 and self.joins(left, partCode(right[0..2])) != 0);
    }
    pub fn joinsBefore(self: *const Seams, left: []const u8, right: u32) bool {
        const len = left.len;
        return self.joins(partCode(left[len - 1 ..]), right) != 0 or
            (len > 2 and self.joins(partCode(left[len - 2 ..]), right) != 0);
    }

    /// The same for a token that starts inside `left` and ends inside `right`.
    pub fn joinsParts(self: *const Seams, left: []const u8, right: []const u8) bool {
        return self.joinsBehind(partCode(left[left.len - 1 ..]), right) or
            (left.len > 2 and self.joinsBehind(partCode(left[left.len - 2 ..]), right));
    }

    /// Returns the constraints of a character with these bytes.
    pub fn limitsOf(self: *const Seams, char: u21, bytes: []const u8) Limits {
        var limits: Limits = .{
            .behind = self.no_cut_behind.contains(char),
            .before = self.no_cut_before.contains(char),
        };
        for (1..@min(bytes.len, 3)) |len| {
            const last, const first = .{ bytes[bytes.len - len ..], bytes[0..len] };
            if (self.starts_inside.contains(partCode(last))) limits.starts_inside = true;
            if (self.ends_inside.contains(partCode(first))) limits.ends_inside = true;
        }
        return limits;
    }
};
