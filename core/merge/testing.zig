//! Random vocabularies and texts → a comparison of all merge implementations with the reference.

const std = @import("std");
const examples = @import("../examples.zig").examples;
const merge_group = @import("group.zig");
const merge_long = @import("long.zig");
const merge_short = @import("short.zig");
const reference = @import("reference.zig");
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const Window = @import("window.zig").Window;

const gpa = std.testing.allocator;

/// Returns a vocabulary of random tokens over three letters, which overlap and may be unmergeable.
/// Some have repetitive tokens that are longer than a window. If the order is by length, every
/// substring of a token has a lower id than the token, as in a trained vocabulary.
pub fn randomVocabulary(random: std.Random, order: enum { random, by_length }) !Vocabulary {
    var arena_state: std.heap.ArenaAllocator = .init(gpa);
    defer arena_state.deinit();
    const arena = arena_state.allocator();
    var seen: std.StringArrayHashMapUnmanaged(void) = .empty;
    for ([_][]const u8{ "a", "b", "c" }) |letter| try seen.put(arena, letter, {});
    for (0..random.uintLessThan(usize, 60)) |_| {
        const len = 2 + random.uintLessThan(usize, if (random.boolean()) 3 else 20);
        const token = try arena.alloc(u8, len);
        for (token) |*byte| byte.* = "aabc"[random.uintLessThan(usize, 4)];
        try seen.put(arena, token, {});
    }
    if (random.boolean()) {
        const unit = ([_][]const u8{ "a", "ab", "aab" })[random.uintLessThan(usize, 3)];
        var tower = unit;
        for (0..random.uintLessThan(usize, 9)) |_| {
            const more = if (random.boolean()) tower else unit;
            tower = try std.mem.concat(arena, u8, &.{ tower, more });
            try seen.put(arena, tower, {});
        }
    }
    const tokens = seen.keys();
    if (order == .by_length) std.mem.sort([]const u8, tokens, {}, isShorter);
    const lengths = try arena.alloc(u32, tokens.len);
    const numbers = try arena.alloc(u32, tokens.len);
    for (lengths, numbers, tokens, 0..) |*length, *number, token, index| {
        length.* = @intCast(token.len);
        // Ids have gaps.
        number.* = @intCast(index * 3 + random.uintLessThan(usize, 3));
    }
    const bytes = try std.mem.concat(arena, u8, tokens);
    var culprit: u32 = 0;
    return .fromTokens(gpa, bytes, lengths, numbers, random.int(u64), &culprit);
}

fn isShorter(_: void, a: []const u8, b: []const u8) bool {
    return a.len < b.len;
}

test "ids: short and long merging equal the reference on random vocabularies" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(120)) |round| {
        var vocabulary = try randomVocabulary(random, if (round % 2 == 0) .random else .by_length);
        defer vocabulary.deinit(gpa);
        for (0..40) |turn| {
            var text: [merge_short.len_max]u8 = undefined;
            // All lengths, including those at which the algorithm changes.
            const len = 1 + (round * 40 + turn) % text.len;
            for (text[0..len]) |*byte| byte.* = "aaabcd"[random.uintLessThan(usize, 6)];
            var expected: std.ArrayList(u32) = .empty;
            defer expected.deinit(gpa);
            try reference.merge(gpa, &vocabulary, text[0..len], &expected);
            var short: [merge_short.len_max]u32 = undefined;
            const count = merge_short.merge(&vocabulary, text[0..len], &short);
            try std.testing.expectEqualSlices(u32, expected.items, short[0..count]);
            var long: std.ArrayList(u32) = .empty;
            defer long.deinit(gpa);
            try merge_long.merge(gpa, &vocabulary, text[0..len], len, &long);
            try std.testing.expectEqualSlices(u32, expected.items, long.items);
        }
    }
}

test "ids: words merged in a group equal words merged alone" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(120)) |round| {
        var vocabulary = try randomVocabulary(random, if (round % 2 == 0) .random else .by_length);
        defer vocabulary.deinit(gpa);
        for (0..merge_group.words_max + 1) |count| {
            var texts: [merge_group.words_max][merge_group.len_max]u8 = undefined;
            var group: merge_group.Group = .{};
            for (texts[0..count]) |*text| {
                const len = 1 + random.uintLessThan(usize, text.len);
                for (text[0..len]) |*byte| byte.* = "aaabcd"[random.uintLessThan(usize, 6)];
                group.add(text[0..len]);
            }
            group.merge(&vocabulary);
            for (group.words[0..count]) |*word| {
                var buffer: [merge_short.len_max]u32 = undefined;
                const alone = buffer[0..merge_short.merge(&vocabulary, word.piece, &buffer)];
                var out: [merge_group.len_max]u32 = undefined;
                try std.testing.expectEqualSlices(u32, alone, out[0..word.take(&out)]);
            }
        }
    }
}

test "ids: windows of a long pretoken equal the reference" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var text: [1500]u8 = undefined;
    for (0..@max(8, examples(40))) |round| {
        var vocabulary = try randomVocabulary(random, if (round % 4 < 2) .random else .by_length);
        defer vocabulary.deinit(gpa);
        const period = 1 + random.uintLessThan(usize, if (random.boolean()) 9 else 200);
        for (&text, 0..) |*byte, index| {
            const repeats = round % 2 == 0 and index >= period;
            const fresh = "aab"[random.uintLessThan(usize, 3)];
            byte.* = if (repeats) text[index - period] else fresh;
        }
        // Some repetitions have an error.
        if (round % 8 == 0) text[random.uintLessThan(usize, text.len)] = 'c';
        var expected: std.ArrayList(u32) = .empty;
        defer expected.deinit(gpa);
        try reference.merge(gpa, &vocabulary, &text, &expected);
        var windows: std.ArrayList(u32) = .empty;
        defer windows.deinit(gpa);
        try merge_long.merge(gpa, &vocabulary, &text, text.len, &windows);
        try std.testing.expectEqualSlices(u32, expected.items, windows.items);
        // With few ids kept, many windows have to begin before them.
        const kept = 1 + random.uintLessThan(usize, 30);
        const counted = try merge_long.count(gpa, &vocabulary, &text, kept, &windows);
        try std.testing.expectEqual(expected.items.len, counted.ids);
        var whole: Window = .empty;
        defer whole.deinit(gpa);
        const at_once = try whole.merge(gpa, &vocabulary, &text);
        try std.testing.expectEqualSlices(u32, expected.items, at_once);
    }
}

test "ids: a truncated long pretoken is the encoding of the bytes that it covers" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var text: [400]u8 = undefined;
    for (0..40) |round| {
        var vocabulary = try randomVocabulary(random, if (round % 2 == 0) .random else .by_length);
        defer vocabulary.deinit(gpa);
        for (&text) |*byte| byte.* = "aaab"[random.uintLessThan(usize, 4)];
        var some: std.ArrayList(u32) = .empty;
        defer some.deinit(gpa);
        // Ids already in the list stay.
        try some.append(gpa, 77);
        const ids_max = 1 + random.uintLessThan(usize, 100);
        try merge_long.merge(gpa, &vocabulary, &text, ids_max, &some);
        var len: usize = 0;
        for (some.items[1..]) |id| len += vocabulary.partLen(id);
        try std.testing.expect(len == text.len or some.items.len - 1 >= ids_max);
        var expected: std.ArrayList(u32) = .empty;
        defer expected.deinit(gpa);
        try expected.append(gpa, 77);
        try reference.merge(gpa, &vocabulary, text[0..len], &expected);
        try std.testing.expectEqualSlices(u32, expected.items, some.items);
    }
}

test "vocabulary: unmergeable tokens are those that no pair produces" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(200)) |round| {
        var vocabulary = try randomVocabulary(random, if (round % 2 == 0) .random else .by_length);
        defer vocabulary.deinit(gpa);
        const unreached = if (vocabulary.unreached) |*some| some else continue;
        const merges = try vocabulary.pairs.all(gpa);
        defer gpa.free(merges);
        for (0..vocabulary.ids_end) |index| {
            const id: u32 = @intCast(index);
            const token = vocabulary.tokenBytes(id);
            var expected = token.len > 1 and vocabulary.find(token) == id;
            for (merges) |merge| expected = expected and merge.id != id;
            try std.testing.expectEqual(expected, unreached.bits.isSet(id));
        }
    }
}
