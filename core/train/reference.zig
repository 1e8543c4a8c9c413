//! Words → merges, by definition: all pairs are counted again for each merge.
//!
//! This is the reference implementation for the tests of the learner.

const std = @import("std");
const platform = @import("../platform.zig");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const merges = @import("../train.zig");
const queue = @import("queue.zig");

const Word = struct { tokens: std.ArrayList(u32), count: u64 };
const Found = struct { count: u64 = 0, order: u64 = 0 };

pub const Twin = struct {
    arena: Allocator,
    options: merges.Options,
    words: std.ArrayList(Word) = .empty,
    texts: queue.Texts,
    specials: std.StringHashMapUnmanaged(u32) = .empty,

    pub fn learn(self: *Twin) Allocator.Error![]merges.Learned {
        var learned: std.ArrayList(merges.Learned) = .empty;
        var next_id = self.options.first_id;
        while (next_id < self.options.ids_end) {
            const pair, const found = try self.best() orelse break;
            if (found.count < @max(1, self.options.count_min)) break;
            const left, const right = .{ queue.leftOf(pair), queue.rightOf(pair) };
            const text = try std.mem.concat(
                self.arena,
                u8,
                &.{ self.texts.of(left), self.texts.of(right) },
            );
            const new = self.specials.get(text) orelse next_id;
            if (new == next_id) next_id += 1;
            try self.texts.set(self.arena, new, text);
            const kinds = self.texts.kinds;
            if (kinds.len > 0) kinds[new] = kinds[left].join(kinds[right]);
            for (self.words.items) |*word| replace(&word.tokens, left, right, new);
            try learned.append(self.arena, .{
                .left = left,
                .right = right,
                .new = new,
                .count = found.count,
            });
        }
        return learned.items;
    }

    fn best(self: *Twin) Allocator.Error!?struct { u64, Found } {
        var counts: std.AutoArrayHashMapUnmanaged(u64, Found) = .empty;
        for (self.words.items) |word| {
            const tokens = word.tokens.items;
            if (tokens.len < 2) continue;
            for (tokens[0 .. tokens.len - 1], tokens[1..]) |left, right| {
                if (self.bars(left, right)) continue;
                const entry = try counts.getOrPut(self.arena, queue.pairOf(left, right));
                if (!entry.found_existing) entry.value_ptr.* = .{ .order = counts.count() };
                entry.value_ptr.count += word.count;
            }
        }
        const order: queue.Order = .{ .ties = self.options.ties, .texts = &self.texts };
        var chosen: ?struct { u64, Found } = null;
        for (counts.keys(), counts.values()) |pair, found| {
            const entry: queue.Entry = .{ .count = found.count, .pair = pair, .seen = found.order };
            if (chosen) |some| {
                const other: queue.Entry =
                    .{ .count = some[1].count, .pair = some[0], .seen = some[1].order };
                if (!order.isBefore(entry, other)) continue;
            }
            chosen = .{ pair, found };
        }
        return chosen;
    }

    fn bars(self: *const Twin, left: u32, right: u32) bool {
        const kinds = self.texts.kinds;
        if (kinds.len > 0) return kinds[left].bars(kinds[right], self.options.len_end);
        if (self.texts.lens[left] + self.texts.lens[right] < self.options.len_end) return false;
        return self.texts.lens[left] > 1 or self.texts.lens[right] > 1;
    }

    fn replace(tokens: *std.ArrayList(u32), left: u32, right: u32, new: u32) void {
        var at: usize = 0;
        while (at + 1 < tokens.items.len) : (at += 1) {
            if (tokens.items[at] != left or tokens.items[at + 1] != right) continue;
            tokens.items[at] = new;
            _ = tokens.orderedRemove(at + 1);
        }
    }
};

const Case = struct {
    options: merges.Options,
    letters: u8,
    words: [][]const u8,
    counts: []u64,
    special: []const u8,
    scripts: [5]u32,
    spills: bool,

    fn of(arena: Allocator, random: std.Random) Allocator.Error!Case {
        const letters = random.intRangeAtMost(u8, 1, 5);
        const words = try arena.alloc([]const u8, random.intRangeAtMost(usize, 0, 40));
        const counts = try arena.alloc(u64, words.len);
        for (words, counts) |*word, *count| {
            const len_max: usize = if (random.uintLessThan(u8, 10) == 0) 80 else 8;
            const text = try arena.alloc(u8, random.intRangeAtMost(usize, 1, len_max));
            for (text) |*byte| byte.* = 'a' + random.uintLessThan(u8, letters);
            word.* = text;
            count.* = 1 + random.uintLessThan(u64, 6);
            if (random.uintLessThan(u8, 20) == 0) count.* <<= 33;
        }
        const special = try arena.alloc(u8, random.intRangeAtMost(usize, 2, 4));
        for (special) |*byte| byte.* = 'a' + random.uintLessThan(u8, letters);
        var scripts: [5]u32 = @splat(0);
        for (&scripts) |*script| {
            script.* = if (random.boolean()) 1 else random.uintLessThan(u32, 3);
        }
        const spills = random.uintLessThan(u8, 8) == 0;
        const merges_max = random.intRangeAtMost(u32, 0, 60);
        return .{
            .letters = letters,
            .words = words,
            .counts = counts,
            .special = special,
            .scripts = scripts,
            .spills = spills,
            .options = .{
                .ties = if (spills) .ids else random.enumValue(merges.Ties),
                .first_id = @as(u32, letters) + 1,
                .ids_end = @as(u32, letters) + 1 + merges_max,
                .threads = random.intRangeAtMost(usize, 1, 4),
                .len_end = if (random.boolean())
                    std.math.maxInt(u32)
                else
                    random.intRangeAtMost(u32, 1, 9),
                .count_min = random.uintLessThan(u64, 4),
                .batch_max = if (random.boolean()) 256 else random.intRangeAtMost(u16, 1, 4),
                .floor = random.enumValue(merges.Options.Floor),
                // Word lists from the start, never, or after some merges.
                .memory = if (spills or random.uintLessThan(u8, 4) == 0) 1 else 0,
                .scans_min = if (random.boolean()) 0 else random.uintLessThan(u64, 6),
            },
        };
    }

    fn twin(self: Case, arena: Allocator) Allocator.Error![]merges.Learned {
        var slow: Twin = .{
            .arena = arena,
            .options = self.options,
            .texts = try .init(arena, self.options.ids_end),
        };
        // Ids: first the special token, then the letters, as in one library.
        try slow.specials.put(arena, self.special, 0);
        for (0..self.letters) |letter| {
            try slow.texts.set(arena, @intCast(1 + letter), &.{'a' + @as(u8, @intCast(letter))});
        }
        if (self.options.ties == .pieces) {
            try slow.texts.initKinds(arena);
            for (0..self.letters) |letter| {
                slow.texts.kinds[1 + letter] = .{ .len = 1, .script = self.scripts[letter] };
            }
        }
        for (self.words, self.counts) |text, count| {
            var word: Word = .{ .tokens = .empty, .count = count };
            for (text) |byte| try word.tokens.append(arena, 1 + byte - 'a');
            try slow.words.append(arena, word);
        }
        return slow.learn();
    }

    fn learner(self: Case, comptime Token: type, gpa: Allocator) !merges.Learner(Token) {
        var fast: merges.Learner(Token) = try .init(gpa, self.options);
        errdefer fast.deinit();
        if (self.spills and platform.spill.is_supported) for (fast.shards) |*shard| {
            const file = try platform.spill.openAnonymous();
            defer platform.spill.close(file);
            try shard.spillTo(file);
        };
        try fast.addToken(0, self.special);
        for (0..self.letters) |letter| {
            const id: u32 = @intCast(1 + letter);
            try fast.addToken(id, &.{'a' + @as(u8, @intCast(letter))});
            if (self.options.ties == .pieces) fast.setScript(id, self.scripts[letter]);
        }
        for (self.words, self.counts, 0..) |text, count, index| {
            const shard = index % fast.shards.len;
            const tokens = try fast.addWord(shard, @intCast(text.len), count);
            for (tokens, text) |*token, byte| token.* = 1 + byte - 'a';
        }
        try fast.run();
        return fast;
    }
};

test "merges: an allocation failure at any point leaks no memory" {
    var arena_state: std.heap.ArenaAllocator = .init(std.testing.allocator);
    defer arena_state.deinit();
    const arena = arena_state.allocator();
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    for (0..8) |round| {
        var case: Case = try .of(arena, prng.random());
        case.spills = false;
        case.options.threads = 1 + round % 2;
        case.options.memory = if (round % 4 < 2) 0 else 30_000;
        if (round >= 6) {
            // Enough words that their list is larger than a block.
            case.words = try arena.alloc([]const u8, 40_000);
            @memset(case.words, "aa");
            case.counts = try arena.alloc(u64, case.words.len);
            @memset(case.counts, 1);
        }
        var fails_at: usize = 0;
        while (true) : (fails_at += 1 + fails_at / 16) {
            var failing: std.testing.FailingAllocator =
                .init(std.testing.allocator, .{ .fail_index = fails_at });
            var fast = case.learner(u16, failing.allocator()) catch |failure| {
                try std.testing.expectEqual(error.OutOfMemory, failure);
                continue;
            };
            fast.deinit();
            if (!failing.has_induced_failure) break;
        }
        _ = arena_state.reset(.retain_capacity);
    }
}

test "merges: they equal the reference for any threads, batches, tie-breaking rule and estimate" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var arena_state: std.heap.ArenaAllocator = .init(std.testing.allocator);
    defer arena_state.deinit();
    const arena = arena_state.allocator();
    var rescans: usize = 0;
    var scans: usize = 0;
    var batched: usize = 0;
    for (0..examples(4000)) |round| {
        const case: Case = try .of(arena, random);
        const expected = try case.twin(arena);
        inline for (.{ u16, u32 }) |Token| {
            var fast = try case.learner(Token, std.testing.allocator);
            defer fast.deinit();
            errdefer std.debug.print("seed {}, round {}\n", .{ std.testing.random_seed, round });
            try std.testing.expectEqualSlices(merges.Learned, expected, fast.learned.items);
            rescans += fast.certificate.rescans;
            const batches = fast.certificate.batches;
            scans += @intFromBool(fast.certificate.scans > 0 and fast.certificate.scans < batches);
            batched += fast.learned.items.len -| fast.certificate.batches;
        }
        _ = arena_state.reset(.retain_capacity);
    }
    // Everything frequent enough in these words to be tried.
    try std.testing.expect(rescans > 10);
    try std.testing.expect(scans > 10);
    try std.testing.expect(batched > 10);
}
