//! Words that contain a pair → lists of words, in reusable memory.
//!
//! All words of a pair are known when it appears, so a list has its final size from the start. Free
//! blocks of similar sizes share a free list, since most lists are short-lived.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const Word = @import("words.zig").Word;

pub const List = struct {
    words: [*]Word = undefined,
    len: u32 = 0,
    /// Number of leading words that need not be examined again.
    skipped: u32 = 0,

    pub fn items(self: List) []Word {
        return self.words[self.skipped..self.len];
    }
};

pub const Memory = struct {
    blocks: std.ArrayList([]Word) = .empty,
    /// The rest of the newest block.
    room: []Word = &.{},
    free: [classes]?*align(@alignOf(Word)) Free = @splat(null),
    /// Total size of blocks and separate lists.
    bytes: usize = 0,

    /// Two large pages; the first blocks are smaller.
    const block_len = 1 << 20;
    const block_len_first = 1 << 14;
    /// Larger lists come directly from the allocator.
    const len_max = 1 << 22;
    /// Minimum size of a free block that is divided for smaller lists.
    const divided_min = 1 << 10;
    /// Each size up to this one has its own class. Above, four classes share a power of two.
    const exact_max = 16;
    const classes = classOf(len_max) + 1;
    const Free = struct { next: ?*align(@alignOf(Word)) Free };
    const len_min = @sizeOf(Free) / @sizeOf(Word);

    fn classOf(len: u32) usize {
        if (len <= exact_max) return len;
        const log: u5 = @intCast(31 - @clz(len - 1));
        return exact_max + (@as(usize, log) - 4) * 4 + ((len - 1) >> (log - 2)) - 3;
    }

    /// Returns the largest size of a class.
    fn lenOf(class: usize) u32 {
        if (class <= exact_max) return @max(@as(u32, @intCast(class)), len_min);
        const step: u32 = @intCast(class - exact_max - 1);
        const log: u5 = @intCast(4 + step / 4);
        return (4 + step % 4 + 1) << (log - 2);
    }

    pub fn deinit(self: *Memory, gpa: Allocator) void {
        for (self.blocks.items) |block| gpa.free(block);
        self.blocks.deinit(gpa);
    }

    /// Returns a list of `len` uninitialized words.
    pub fn alloc(self: *Memory, gpa: Allocator, len: u32) Allocator.Error!List {
        if (len > len_max) {
            const words = try gpa.alloc(Word, len);
            self.bytes += @as(usize, len) * @sizeOf(Word);
            return .{ .words = words.ptr, .len = len };
        }
        const class = classOf(len);
        if (self.free[class]) |place| {
            self.free[class] = place.next;
            return .{ .words = @ptrCast(place), .len = len };
        }
        const size = lenOf(class);
        if (self.room.len < size) try self.makeRoom(gpa, class);
        defer self.room = self.room[size..];
        return .{ .words = self.room.ptr, .len = len };
    }

    /// Reserves memory for lists of these lengths, so that they are contiguous.
    pub fn reserve(self: *Memory, gpa: Allocator, lens: anytype) Allocator.Error!void {
        var sum: usize = 0;
        for (lens) |line| if (line.words <= len_max) {
            sum += lenOf(classOf(line.words));
        };
        if (sum > self.room.len and sum > block_len) try self.addBlock(gpa, sum);
    }

    /// Makes space for a list of a class: from a large free block, or else from a new block.
    fn makeRoom(self: *Memory, gpa: Allocator, wanted: usize) Allocator.Error!void {
        var class = classes;
        while (class > @max(wanted, classOf(divided_min))) {
            class -= 1;
            const place = self.free[class] orelse continue;
            self.free[class] = place.next;
            self.keepRest();
            const words: [*]Word = @ptrCast(place);
            self.room = words[0..lenOf(class)];
            return;
        }
        const is_first = self.blocks.items.len < 8;
        const len: usize = if (is_first) block_len_first else block_len;
        try self.addBlock(gpa, @max(len, lenOf(wanted)));
    }

    fn addBlock(self: *Memory, gpa: Allocator, len: usize) Allocator.Error!void {
        try self.blocks.ensureUnusedCapacity(gpa, 1);
        const block = try gpa.alloc(Word, len);
        platform.memory.adviseHuge(block);
        self.blocks.appendAssumeCapacity(block);
        self.bytes += block.len * @sizeOf(Word);
        self.keepRest();
        self.room = block;
    }

    /// Adds the rest of the current block to the free lists.
    fn keepRest(self: *Memory) void {
        if (self.room.len < len_min) return;
        var class = classOf(@intCast(@min(self.room.len, len_max)));
        if (lenOf(class) > self.room.len) class -= 1;
        const place: *align(@alignOf(Word)) Free = @ptrCast(self.room.ptr);
        place.* = .{ .next = self.free[class] };
        self.free[class] = place;
        self.room = &.{};
    }

    pub fn release(self: *Memory, gpa: Allocator, list: *List) void {
        defer list.* = .{};
        if (list.len == 0) return;
        if (list.len > len_max) {
            self.bytes -= @as(usize, list.len) * @sizeOf(Word);
            return gpa.free(list.words[0..list.len]);
        }
        const class = classOf(list.len);
        const place: *align(@alignOf(Word)) Free = @ptrCast(list.words);
        place.* = .{ .next = self.free[class] };
        self.free[class] = place;
    }
};

test "postings: a class covers its sizes" {
    var largest: u32 = 0;
    for (0..Memory.classes) |class| {
        const len = Memory.lenOf(class);
        try std.testing.expect(len >= largest);
        largest = len;
    }
    for (1..Memory.len_max + 1) |len| {
        const class = Memory.classOf(@intCast(len));
        try std.testing.expect(class < Memory.classes);
        const size = Memory.lenOf(class);
        try std.testing.expect(size >= len and size <= @max(len + len / 4 + 1, 2));
    }
}

test "postings: lists keep their contents, and freed memory is reused" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var memory: Memory = .{};
    defer memory.deinit(gpa);
    var lists: [300]List = @splat(.{});
    for (0..20) |_| for (&lists, 0..) |*list, index| {
        for (list.items()) |word| try std.testing.expectEqual(index, word);
        if (random.boolean()) continue;
        memory.release(gpa, list);
        const len = random.uintLessThan(u32, 20) * random.uintLessThan(u32, 1200);
        if (len == 0) continue;
        list.* = try memory.alloc(gpa, len);
        @memset(list.items(), @intCast(index));
    };
    for (&lists) |*list| memory.release(gpa, list);
    try std.testing.expect(memory.bytes < 64 << 20);
}
