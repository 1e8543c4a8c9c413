//! Pretoken → public ids, the reference implementation for any model: no ranks and no pair table,
//! only the list of merges.

const std = @import("std");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const encoder_ = @import("encoder.zig");
const preprocess = @import("../preprocess.zig");
const unicode = @import("../unicode.zig");
const vocabularies = @import("../vocabulary.zig");
const Model = vocabularies.Model;
const Encoder = encoder_.Encoder;
const List = encoder_.List;
const Steps = @import("../normalize.zig").Steps;
const Tokenizer = @import("tokenizer.zig").Tokenizer;

const Part = struct { start: usize, end: usize, place: ?usize };

/// A model with linear token search.
const Plain = struct {
    model: *const Model,
    /// For BPE dropout.
    prng: ?*std.Random.DefaultPrng = null,

    fn bytes(self: Plain, place: usize) []const u8 {
        var start: usize = 0;
        for (self.model.lengths[0..place]) |length| start += length;
        return self.model.bytes[start..][0..self.model.lengths[place]];
    }

    fn find(self: Plain, token: []const u8, kind: u8) ?usize {
        for (0..self.model.ids.len) |place| {
            if (self.model.kinds[place] != kind) continue;
            if (std.mem.eql(u8, self.bytes(place), token)) return place;
        }
        return null;
    }

    /// Returns the rank of the merge of two symbols of `piece`, and the resulting token.
    fn merge(self: Plain, piece: []const u8, left: Part, right: Part) ?struct { u32, usize } {
        const joined = piece[left.start..right.end];
        const place = self.find(joined, 0) orelse return null;
        const merges = self.model.merges orelse {
            const order = self.model.order orelse self.model.ids;
            return .{ order[place], place };
        };
        // If a pair is listed twice, the last one counts.
        var index = merges.len / 2;
        while (index > 0) {
            index -= 1;
            const pair = merges[2 * index ..][0..2].*;
            if (left.place != pair[0] or right.place != pair[1]) continue;
            return .{ @intCast(index), place };
        }
        return null;
    }

    /// Appends the ids of `piece`.
    fn encode(self: Plain, gpa: Allocator, piece: []const u8, out: *std.ArrayList(u32)) !void {
        const is_random = self.model.dropout > 0;
        if (self.model.whole and !is_random) if (self.find(piece, 0)) |place| {
            return out.append(gpa, self.model.ids[place]);
        };
        var text: std.ArrayList(u8) = .empty;
        defer text.deinit(gpa);
        var parts: std.ArrayList(Part) = .empty;
        defer parts.deinit(gpa);
        var at: usize = 0;
        while (at < piece.len) {
            const len = if (self.model.characters) unicode.decode(piece, at).len else 1;
            const symbol = piece[at..][0..len];
            at += len;
            const place = self.find(symbol, 0);
            if (place == null and self.model.missing == .drop) continue;
            const start = text.items.len;
            try parts.append(gpa, .{ .start = start, .end = start + len, .place = place });
            try text.appendSlice(gpa, symbol);
        }
        if (is_random) {
            var some: Some = .{ .plain = self, .text = text.items, .parts = parts.items };
            try some.merge(gpa);
        } else try self.mergeParts(text.items, &parts);
        for (parts.items, 0..) |part, index| {
            if (part.start == part.end) continue;
            if (part.place) |place| {
                try out.append(gpa, self.model.ids[place]);
            } else if (self.model.missing == .bytes) {
                for (text.items[part.start..part.end]) |byte| {
                    try out.append(gpa, self.model.ids[self.find(&.{byte}, 1).?]);
                }
            } else {
                const follows = index > 0 and parts.items[index - 1].place == null;
                if (follows and self.model.fuse_unk) continue;
                try out.append(gpa, self.model.unk.?);
            }
        }
    }

    fn mergeParts(self: Plain, text: []const u8, parts: *std.ArrayList(Part)) !void {
        while (true) {
            var best: ?struct { u32, usize } = null;
            var at: usize = 0;
            for (0..parts.items.len -| 1) |index| {
                const found = self.merge(text, parts.items[index], parts.items[index + 1]) orelse
                    continue;
                if (best != null and best.?[0] <= found[0]) continue;
                best = .{ found[0], found[1] };
                at = index;
            }
            const found = best orelse break;
            const end = parts.orderedRemove(at + 1).end;
            parts.items[at] = .{ .start = parts.items[at].start, .end = end, .place = found[1] };
        }
    }
};

/// Merging with BPE dropout: Hugging Face's `Word::merge_all` on plain lists. A symbol that was
/// merged into another is empty.
const Some = struct {
    plain: Plain,
    text: []const u8,
    parts: []Part,
    queue: std.ArrayList(Entry) = .empty,

    const Entry = struct { order: u32, at: usize, place: usize };

    fn merge(self: *Some, gpa: Allocator) !void {
        defer self.queue.deinit(gpa);
        var skipped: std.ArrayList(Entry) = .empty;
        defer skipped.deinit(gpa);
        for (0..self.parts.len) |at| try self.offer(gpa, at);
        while (self.queue.items.len > 0) {
            const entry = self.takeLowest();
            const number: f64 = @floatFromInt(self.plain.prng.?.next() >> 40);
            if (number / (1 << 24) < @as(f32, @floatCast(self.plain.model.dropout))) {
                try skipped.append(gpa, entry);
                continue;
            }
            try self.queue.appendSlice(gpa, skipped.items);
            skipped.clearRetainingCapacity();
            const found = self.mergeAt(entry.at) orelse continue;
            if (found.place != entry.place) continue;
            const left = &self.parts[entry.at];
            const right = &self.parts[self.next(entry.at).?];
            left.* = .{ .start = left.start, .end = right.end, .place = entry.place };
            right.* = .{ .start = right.end, .end = right.end, .place = entry.place };
            var before = entry.at;
            while (before > 0) {
                before -= 1;
                if (self.parts[before].start == self.parts[before].end) continue;
                try self.offer(gpa, before);
                break;
            }
            try self.offer(gpa, entry.at);
        }
    }

    fn takeLowest(self: *Some) Entry {
        var best: usize = 0;
        for (self.queue.items, 0..) |entry, index| {
            const lowest = self.queue.items[best];
            const is_lower = entry.order < lowest.order or
                entry.order == lowest.order and entry.at < lowest.at;
            if (is_lower) best = index;
        }
        return self.queue.orderedRemove(best);
    }

    fn next(self: *const Some, at: usize) ?usize {
        for (self.parts[at + 1 ..], at + 1..) |part, index| {
            if (part.start < part.end) return index;
        }
        return null;
    }

    fn mergeAt(self: *const Some, at: usize) ?Entry {
        const part = self.parts[at];
        if (part.start == part.end) return null;
        const right = self.parts[self.next(at) orelse return null];
        const order, const place = self.plain.merge(self.text, part, right) orelse return null;
        return .{ .order = order, .at = at, .place = place };
    }

    fn offer(self: *Some, gpa: Allocator, at: usize) !void {
        try self.queue.append(gpa, self.mergeAt(at) orelse return);
    }
};

const letters = [_][]const u8{ "a", "b", " ", "é", "ê", "漢", "漣", "字", "🦀" };

const Names = std.StringArrayHashMapUnmanaged(void);

/// Returns random merges of existing tokens, and adds the resulting tokens.
fn randomMerges(arena: Allocator, random: std.Random, tokens: *Names) ![]const u32 {
    var merges: std.ArrayList(u32) = .empty;
    for (0..random.uintLessThan(usize, 25)) |_| {
        const pair = [2]u32{
            random.uintLessThan(u32, @intCast(tokens.count())),
            random.uintLessThan(u32, @intCast(tokens.count())),
        };
        const parts = .{ tokens.keys()[pair[0]], tokens.keys()[pair[1]] };
        if (parts[0].len + parts[1].len > 30) continue;
        try tokens.put(arena, try std.mem.concat(arena, u8, &parts), {});
        try merges.appendSlice(arena, &pair);
    }
    // Also lists that training cannot produce, and duplicate pairs.
    const pairs: [][2]u32 = @ptrCast(merges.items);
    if (random.boolean()) random.shuffle([2]u32, pairs);
    if (pairs.len > 0) {
        const again = pairs[random.uintLessThan(usize, pairs.len)];
        try merges.appendSlice(arena, &again);
    }
    return merges.items;
}

/// A random model over a few letters, with merges in any order, or with all pairs that form a
/// token.
fn randomModel(arena: Allocator, random: std.Random) !Model {
    const characters = random.boolean();
    var tokens: Names = .empty;
    const missing = random.enumValue(vocabularies.Missing);
    const is_whole = missing == .fail;
    for (letters) |letter| {
        if (!is_whole and random.uintLessThan(u8, 4) == 0) continue;
        if (characters) try tokens.put(arena, letter, {}) else for (letter) |byte| {
            try tokens.put(arena, try arena.dupe(u8, &.{byte}), {});
        }
    }
    if (tokens.count() == 0) try tokens.put(arena, "a", {});
    const merges = try randomMerges(arena, random, &tokens);
    const has_list = random.uintLessThan(u8, 3) > 0;
    var bytes: std.ArrayList(u8) = .empty;
    var lengths: std.ArrayList(u32) = .empty;
    var kinds: std.ArrayList(u8) = .empty;
    for (tokens.keys()) |token| {
        try bytes.appendSlice(arena, token);
        try lengths.append(arena, @intCast(token.len));
        try kinds.append(arena, 0);
    }
    if (missing == .bytes) for (0..256) |byte| {
        try bytes.append(arena, @intCast(byte));
        try lengths.append(arena, 1);
        try kinds.append(arena, 1);
    };
    try bytes.appendSlice(arena, "<unk>");
    try lengths.append(arena, 5);
    try kinds.append(arena, 2);
    // Letters that occur in tokens but are not tokens themselves.
    const may_lack = !has_list and (missing == .unk or missing == .bytes);
    if (may_lack) for (tokens.keys(), kinds.items[0..tokens.count()]) |token, *kind| {
        const len = if (characters) unicode.decode(token, 0).len else 1;
        if (token.len == len and random.uintLessThan(u8, 4) == 0) kind.* = 2;
    };
    const numbers = try arena.alloc(u32, lengths.items.len);
    for (numbers, 0..) |*number, index| number.* = @intCast(2 * index);
    if (random.boolean()) random.shuffle(u32, numbers);
    const order = try arena.alloc(u32, numbers.len);
    for (order) |*class| class.* = random.uintLessThan(u32, 8);
    return .{
        .bytes = bytes.items,
        .lengths = lengths.items,
        .ids = numbers,
        .kinds = kinds.items,
        .merges = if (has_list) merges else null,
        .order = if (has_list or random.boolean()) null else order,
        .characters = characters,
        .whole = random.boolean(),
        .missing = missing,
        .unk = numbers[numbers.len - 1],
        .fuse_unk = random.boolean(),
    };
}

fn expectPlain(encoder: *Encoder, model: *const Model, piece: []const u8) !void {
    const gpa = std.testing.allocator;
    var expected: std.ArrayList(u32) = .empty;
    defer expected.deinit(gpa);
    try (Plain{ .model = model }).encode(gpa, piece, &expected);
    const vocabulary = &encoder.tokenizer.vocabulary;
    const found = try gpa.dupe(u32, try encoder.merger.idsOf(piece));
    defer gpa.free(found);
    vocabulary.publish(found);
    try std.testing.expectEqualSlices(u32, expected.items, found);
    var list: List = .{ .gpa = gpa };
    defer list.ids.deinit(gpa);
    try encoder.encodePretoken(piece, &list);
    vocabulary.publish(list.ids.items);
    try std.testing.expectEqualSlices(u32, expected.items, list.ids.items);
    try std.testing.expectEqual(expected.items.len, try encoder.countPretoken(piece));
    for (expected.items) |id| {
        const rank = vocabulary.rankOf(id).?;
        try std.testing.expectEqual(id, vocabulary.publicOf(rank));
    }
}

fn tokenizerOf(model: *const Model) !Tokenizer {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    const vocabulary = try vocabularies.Vocabulary.fromModel(gpa, model, 1, &culprit);
    var name: usize = 0;
    const steps: Steps = try .init(gpa, "");
    const preprocessor: preprocess.Preprocessor = try .init(gpa, .{}, steps, &name);
    return .init(gpa, vocabulary, .r50k, preprocessor, 1);
}

fn randomPiece(arena: Allocator, random: std.Random) ![]const u8 {
    var piece: std.ArrayList(u8) = .empty;
    // Some exceed the length that is merged at once.
    const len = 1 + random.uintLessThan(usize, if (random.boolean()) 9 else 60);
    const kinds = 1 + random.uintLessThan(usize, letters.len);
    for (0..len) |_| {
        try piece.appendSlice(arena, letters[random.uintLessThan(usize, kinds)]);
    }
    return piece.items;
}

test "ids: every model produces the ids that its merge list defines" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(600)) |_| {
        var arena: std.heap.ArenaAllocator = .init(gpa);
        defer arena.deinit();
        const model = try randomModel(arena.allocator(), random);
        var tokenizer = try tokenizerOf(&model);
        defer tokenizer.deinit(gpa);
        var encoder: Encoder = .init(gpa, &tokenizer);
        defer encoder.deinit();
        for (0..6) |_| {
            const piece = try randomPiece(arena.allocator(), random);
            try expectPlain(&encoder, &model, piece);
        }
    }
}

test "ids: BPE dropout produces the same ids as the reference implementation" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(600)) |round| {
        var arena: std.heap.ArenaAllocator = .init(gpa);
        defer arena.deinit();
        var model = try randomModel(arena.allocator(), random);
        model.dropout = if (round % 8 == 0) 1 else random.float(f64);
        if (model.order != null) {
            // The order of two possible merges at one position, one of them stale, is undefined.
            const order = try arena.allocator().dupe(u32, model.ids);
            random.shuffle(u32, order);
            model.order = order;
        }
        var tokenizer = try tokenizerOf(&model);
        defer tokenizer.deinit(gpa);
        var encoder: Encoder = .init(gpa, &tokenizer);
        defer encoder.deinit();
        encoder.merger.random = .init();
        for (0..6) |_| {
            const piece = try randomPiece(arena.allocator(), random);
            const seed = random.int(u64);
            var twin: std.Random.DefaultPrng = .init(seed);
            var expected: std.ArrayList(u32) = .empty;
            try (Plain{ .model = &model, .prng = &twin })
                .encode(arena.allocator(), piece, &expected);
            encoder.merger.random.?.prng = .init(seed);
            const found = try arena.allocator().dupe(u32, try encoder.merger.idsOf(piece));
            tokenizer.vocabulary.publish(found);
            try std.testing.expectEqualSlices(u32, expected.items, found);
            var list: List = .{ .gpa = arena.allocator() };
            encoder.merger.random.?.prng = .init(seed);
            try encoder.encodePretoken(piece, &list);
            tokenizer.vocabulary.publish(list.ids.items);
            try std.testing.expectEqualSlices(u32, expected.items, list.ids.items);
        }
    }
}

test "vocabulary: running out of memory while building a model leaks no memory" {
    const gpa = std.testing.allocator;
    var arena: std.heap.ArenaAllocator = .init(gpa);
    defer arena.deinit();
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const load = struct {
        fn load(failing: Allocator, model: *const Model) !void {
            var culprit: u32 = 0;
            var made = try vocabularies.Vocabulary.fromModel(failing, model, 1, &culprit);
            made.deinit(failing);
        }
    }.load;
    for (0..5) |_| {
        var model = try randomModel(arena.allocator(), prng.random());
        model.dropout = prng.random().float(f64);
        try std.testing.checkAllAllocationFailures(gpa, load, .{&model});
    }
}
