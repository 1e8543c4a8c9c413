//! All pairs of the words of a partition → gains, and the lists of the words that contain them.
//!
//! With few tokens, as at the start of training, an array of all pairs is used. With many tokens, a
//! hash table of the pairs that occur is used.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pairs_ = @import("pairs.zig");
const Pairs = pairs_.Pairs;
const queue = @import("queue.zig");
const Rules = @import("shard.zig").Rules;
const Word = @import("words.zig").Word;

/// Maximum number of tokens for an array of all pairs.
pub const dense_width_max = 512;

const no_word = std.math.maxInt(Word);

/// Adds all pairs of all words to a sketch.
pub fn sketch(shard: anytype, sums: pairs_.Sketch) void {
    const Sum = struct {
        sums: pairs_.Sketch,
        pub inline fn pair(self: @This(), left: u32, right: u32, in: anytype) Allocator.Error!void {
            self.sums.add(queue.pairOf(left, right), in.count);
        }
    };
    eachPair(shard, Sum{ .sums = sums }) catch unreachable;
}

/// Records a gain for each pair in the words that may reach the minimum tracked count. All tokens
/// must be below `ids_end`.
pub fn count(
    shard: anytype,
    ids_end: u32,
    sums: pairs_.Sketch,
    floor: u64,
    rules: Rules,
) Allocator.Error!void {
    shard.changes.clear();
    shard.tokens_left = 0;
    if (ids_end <= dense_width_max and !rules.keeps_order) return countDense(shard, ids_end, rules);
    const Found = struct { amount: u64, seen: u64 };
    const Table = std.AutoArrayHashMapUnmanaged(u64, Found);
    const Count = struct {
        shard: @TypeOf(shard),
        table: Table = .empty,
        sums: pairs_.Sketch,
        floor: u64,
        rules: Rules,

        pub inline fn pair(self: *@This(), left: u32, right: u32, in: anytype) !void {
            if (in.at == 0) self.shard.tokens_left += in.len;
            const both = queue.pairOf(left, right);
            if (!self.sums.mayReach(both, self.floor)) return;
            const found = try self.table.getOrPut(self.shard.gpa, both);
            if (!found.found_existing) found.value_ptr.* = .{
                .amount = 0,
                .seen = if (self.rules.keeps_order)
                    self.shard.place(in.word, in.at, self.rules)
                else
                    0,
            };
            found.value_ptr.amount += in.count;
        }
    };
    var counter: Count = .{ .shard = shard, .sums = sums, .floor = floor, .rules = rules };
    defer counter.table.deinit(shard.gpa);
    try eachPair(shard, &counter);
    for (counter.table.keys(), counter.table.values()) |pair, found| {
        if (rules.bars(queue.leftOf(pair), queue.rightOf(pair))) continue;
        try shard.changes.tell(.{ .pair = pair, .amount = found.amount, .seen = found.seen });
    }
}

fn countDense(shard: anytype, ids_end: u32, rules: Rules) Allocator.Error!void {
    const Count = struct {
        shard: @TypeOf(shard),
        amounts: []u64,
        width: usize,

        pub inline fn pair(self: @This(), left: u32, right: u32, in: anytype) Allocator.Error!void {
            if (in.at == 0) self.shard.tokens_left += in.len;
            self.amounts[left * self.width + right] += in.count;
        }
    };
    const amounts = try shard.gpa.alloc(u64, @as(usize, ids_end) * ids_end);
    defer shard.gpa.free(amounts);
    @memset(amounts, 0);
    try eachPair(shard, Count{ .shard = shard, .amounts = amounts, .width = ids_end });
    for (amounts, 0..) |amount, both| if (amount > 0) {
        const left: u32, const right: u32 = .{ @intCast(both / ids_end), @intCast(both % ids_end) };
        if (rules.bars(left, right)) continue;
        const pair = queue.pairOf(left, right);
        try shard.changes.tell(.{ .pair = pair, .amount = amount });
    };
}

/// Builds the word lists of all tracked pairs from scratch.
pub fn enlist(shard: anytype, owners: []const Pairs) Allocator.Error!void {
    const gpa = shard.gpa;
    shard.changes.free();
    var numbers: Numbers = try .init(gpa, owners);
    defer numbers.deinit(gpa);
    const lines = try gpa.alloc(Line, numbers.count);
    defer gpa.free(lines);
    @memset(lines, .{});
    try eachPair(shard, Measure{ .numbers = &numbers, .lines = lines });
    try shard.memory.reserve(gpa, lines);
    var number: usize = 0;
    for (shard.lists, owners) |*lists, *owner| {
        lists.clearRetainingCapacity();
        try lists.appendNTimes(gpa, .{}, owner.records.items.len);
        for (lists.items) |*list| {
            const line = &lines[number];
            number += 1;
            if (line.words > 0) list.* = try shard.memory.alloc(gpa, line.words);
            line.* = .{ .cursor = list.words };
        }
    }
    try eachPair(shard, Write{ .numbers = &numbers, .lines = lines });
}

/// The state of a pair's list while it is built.
const Line = struct {
    /// The last word added, and the number of words.
    last: Word = no_word,
    words: u32 = 0,
    cursor: [*]Word = undefined,
};

const Measure = struct {
    numbers: *const Numbers,
    lines: []Line,

    pub inline fn pair(self: Measure, left: u32, right: u32, in: anytype) Allocator.Error!void {
        const line = &self.lines[self.numbers.of(left, right) orelse return];
        line.words += @intFromBool(line.last != in.word);
        line.last = in.word;
    }
};

const Write = struct {
    numbers: *const Numbers,
    lines: []Line,

    pub inline fn pair(self: Write, left: u32, right: u32, in: anytype) Allocator.Error!void {
        const line = &self.lines[self.numbers.of(left, right) orelse return];
        if (line.last == in.word) return;
        line.last = in.word;
        line.cursor[0] = in.word;
        line.cursor += 1;
    }
};

/// Pair → its index among the tracked pairs: by owner, then by slot.
const Numbers = struct {
    owners: []const Pairs,
    starts: []u32,
    count: usize,
    dense: []u32 = &.{},
    width: usize = 0,

    const none = std.math.maxInt(u32);

    fn init(gpa: Allocator, owners: []const Pairs) Allocator.Error!Numbers {
        const starts = try gpa.alloc(u32, owners.len);
        errdefer gpa.free(starts);
        var self: Numbers = .{ .owners = owners, .starts = starts, .count = 0 };
        var ids_end: usize = 0;
        for (owners, starts) |*owner, *start| {
            start.* = @intCast(self.count);
            self.count += owner.records.items.len;
            for (owner.records.items) |record| if (!record.isGone()) {
                const both = @max(queue.leftOf(record.pair), queue.rightOf(record.pair));
                ids_end = @max(ids_end, both + 1);
            };
        }
        if (ids_end > dense_width_max) return self;
        self.width = dense_width_max;
        self.dense = try gpa.alloc(u32, self.width * self.width);
        @memset(self.dense, none);
        for (owners, starts) |*owner, start| for (owner.records.items, start..) |record, number| {
            if (record.isGone()) continue;
            const left: usize = queue.leftOf(record.pair);
            self.dense[left * self.width + queue.rightOf(record.pair)] = @intCast(number);
        };
        return self;
    }

    fn deinit(self: *Numbers, gpa: Allocator) void {
        gpa.free(self.starts);
        gpa.free(self.dense);
    }

    inline fn of(self: *const Numbers, left: u32, right: u32) ?u32 {
        if (self.dense.len > 0) {
            // Tokens outside the array have no pairs.
            if (left >= self.width or right >= self.width) return null;
            const number = self.dense[left * self.width + right];
            return if (number == none) null else number;
        }
        const both = queue.pairOf(left, right);
        const owner = pairs_.ownerOf(both, self.owners.len);
        const slot = self.owners[owner].find(both) orelse return null;
        return self.starts[owner] + slot;
    }
};

/// Calls `visitor.pair(left, right, in)` for all pairs of all words. `in` describes the word and
/// the position of the left token.
fn eachPair(shard: anytype, visitor: anytype) Allocator.Error!void {
    const words = &shard.words;
    var next = words.first();
    var number: usize = 0;
    while (next) |word| : (next = words.after(word)) {
        number += 1;
        if (number % @TypeOf(shard.*).segment_words == 0) words.release();
        const tokens = words.tokensOf(word);
        if (tokens.len < 2) continue;
        const amount = words.countOf(word);
        for (tokens[0 .. tokens.len - 1], tokens[1..], 0..) |left, right, at| {
            const in = .{ .word = word, .at = at, .len = tokens.len, .count = amount };
            try visitor.pair(left, right, in);
        }
    }
}
