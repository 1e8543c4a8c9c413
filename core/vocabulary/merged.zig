//! Symbols and merges → the canonical pair of each token, and its rank.
//!
//! Merges inside a token never depend on its context, for any order of pairs. The only pair that
//! can become token t is thus the last step of merging t alone, its *canonical* pair. All other
//! merges that produce t are dead. (Of the 269,443 merges of Mistral's Nemo 129,816 are alive.)
//!
//! In training order, the symbols of a token precede the token. Then a pair is canonical if no
//! earlier merge crosses its boundary. That is decided by splitting the symbols next to the
//! boundary, from the last merge to the first (as in github/rust-gems, crate bpe). For any other
//! list, each token is merged.

const std = @import("std");
const Allocator = std.mem.Allocator;
const heaps = @import("../heap.zig");
const models = @import("model.zig");
const PairTable = @import("pair_table.zig").PairTable;
const Error = models.Error;
const Tokens = models.Tokens;

const none = models.none;

/// Indexed by token: the pair that becomes it, and its rank, which is the index of the merge in the
/// list or the order of the token. `none` for unmergeable tokens and for initial symbols.
pub const Merged = struct {
    pairs: [][2]u32,
    keys: []u32,
    /// Indexed by merge: the token that it produces, or `none`.
    made: []const u32 = &.{},

    fn init(tokens: *const Tokens) Error!Merged {
        const pairs = try tokens.arena.alloc([2]u32, tokens.count);
        const keys = try tokens.arena.alloc(u32, tokens.count);
        @memset(keys, none);
        return .{ .pairs = pairs, .keys = keys };
    }
};

pub fn find(tokens: *Tokens, culprit: *u32) Error!Merged {
    const merges = tokens.model.merges orelse return byMerging(tokens, &.{}, culprit);
    if (merges.len % 2 != 0) return error.InvalidModel;
    const made = try madeBy(tokens, merges, culprit);
    if (try inOrder(tokens, merges, made)) |merged| return merged;
    return byMerging(tokens, made, culprit);
}

/// Returns the token that each merge produces.
fn madeBy(tokens: *Tokens, merges: []const u32, culprit: *u32) Error![]u32 {
    const made = try tokens.arena.alloc(u32, merges.len / 2);
    var joined: std.ArrayList(u8) = .empty;
    // Most files list tokens in the order of their merges, with one or several merges for each.
    var next: u32 = 0;
    for (made, 0..) |*place, index| {
        const left, const right = .{ merges[2 * index], merges[2 * index + 1] };
        if (@max(left, right) >= tokens.count) return error.InvalidModel;
        culprit.* = @intCast(index);
        for ([_]u32{ left, right }) |part| {
            const is_part = tokens.kinds[part] != .byte and part != tokens.unk;
            if (!is_part or tokens.tokenBytes(part).len == 0) return error.InvalidMerge;
        }
        place.* = none;
        if (tokens.kinds[left] == .decoded or tokens.kinds[right] == .decoded) continue;
        const parts = .{ tokens.tokenBytes(left), tokens.tokenBytes(right) };
        if (next > 0 and spells(tokens, next - 1, parts)) {
            next -= 1;
        } else if (next == tokens.count or !spells(tokens, next, parts)) {
            joined.clearRetainingCapacity();
            try joined.appendSlice(tokens.arena, parts[0]);
            try joined.appendSlice(tokens.arena, parts[1]);
            const found = try tokens.find(joined.items, culprit);
            culprit.* = @intCast(index);
            next = found orelse return error.InvalidMerge;
        }
        if (next == tokens.unk) return error.InvalidMerge;
        place.* = next;
        next += 1;
    }
    return made;
}

fn spells(tokens: *const Tokens, place: u32, parts: [2][]const u8) bool {
    const token = tokens.tokenBytes(place);
    return tokens.kinds[place] == .token and token.len == parts[0].len + parts[1].len and
        std.mem.eql(u8, token[0..parts[0].len], parts[0]) and
        std.mem.eql(u8, token[parts[0].len..], parts[1]);
}

/// Finds the pairs of a list in which the symbols of a token precede it. Returns null if they do
/// not, or if a live pair is listed twice.
fn inOrder(tokens: *Tokens, merges: []const u32, made: []const u32) Error!?Merged {
    var merged: Merged = try .init(tokens);
    merged.made = made;
    var seams: Seams = .{
        .merged = merged,
        .ranks = try tokens.arena.alloc(u32, tokens.count),
        .table = try .init(tokens.arena, @min(made.len, tokens.count), 0),
    };
    for (seams.ranks, 0..) |*rank, index| {
        rank.* = if (tokens.isSymbol(@intCast(index))) 0 else none;
    }
    var has_doubts = false;
    for (made, 0..) |place, index| {
        if (place == none) continue;
        const pair = merges[2 * index ..][0..2].*;
        if (seams.ranks[place] != none) {
            // Dead, unless it is the same pair again: then the last one counts.
            const is_symbol = seams.ranks[place] == 0;
            if (!is_symbol and std.mem.eql(u32, &merged.pairs[place], &pair)) return null;
            continue;
        }
        if (seams.ranks[pair[0]] == none or seams.ranks[pair[1]] == none) {
            has_doubts = true;
            continue;
        }
        if (seams.isCrossed(pair)) continue;
        merged.pairs[place] = pair;
        merged.keys[place] = @intCast(index);
        seams.ranks[place] = @intCast(index + 1);
        seams.table.put(.{ .left = pair[0], .right = pair[1], .id = place });
    }
    // A pair listed before its symbols is dead if these are never produced, or only after the
    // token.
    if (has_doubts) for (made, 0..) |place, index| {
        if (place == none) continue;
        const parts_made = @max(seams.ranks[merges[2 * index]], seams.ranks[merges[2 * index + 1]]);
        if (parts_made == none or parts_made <= index) continue;
        if (seams.ranks[place] > parts_made) return null;
    };
    return merged;
}

const Seams = struct {
    merged: Merged,
    /// 0 for initial symbols, otherwise the index of the merge plus one.
    ranks: []u32,
    table: PairTable,

    /// Whether a merge crosses the boundary of a pair before the pair itself merges.
    fn isCrossed(self: *const Seams, pair: [2]u32) bool {
        var left, var right = pair;
        var limit: u32 = none;
        while (true) {
            const joined = self.table.find(left, right);
            if (joined != none and self.ranks[joined] < limit) return true;
            if (self.ranks[left] > self.ranks[right]) {
                limit = self.ranks[left];
                left = self.merged.pairs[left][1];
            } else if (self.ranks[right] > 0) {
                // Of two equal ones the right one was merged last.
                limit = self.ranks[right] + 1;
                right = self.merged.pairs[right][0];
            } else return false;
        }
    }
};

/// Finds the pairs of any list or order.
fn byMerging(tokens: *Tokens, made: []const u32, culprit: *u32) Error!Merged {
    var merged: Merged = try .init(tokens);
    merged.made = made;
    var alone: Alone = .{ .tokens = tokens, .made = made, .culprit = culprit };
    if (tokens.model.merges) |merges| for (made, 0..) |place, index| {
        if (place == none) continue;
        const pair = merges[2 * index ..][0..2].*;
        try alone.list.put(tokens.arena, pair, @intCast(index));
    };
    for (tokens.kinds, 0..) |kind, index| {
        const place: u32 = @intCast(index);
        if (kind != .token or tokens.isSymbol(place)) continue;
        const last = try alone.merge(tokens.tokenBytes(place)) orelse continue;
        merged.pairs[place] = last.pair;
        merged.keys[place] = last.key;
    }
    return merged;
}

/// The state of merging one token.
const Alone = struct {
    tokens: *Tokens,
    made: []const u32,
    culprit: *u32,
    list: std.AutoHashMapUnmanaged([2]u32, u32) = .empty,
    token: []const u8 = "",
    symbols: std.ArrayList(u32) = .empty,
    parts: std.ArrayList(Part) = .empty,
    heap: heaps.Numbers = .{},

    const Part = struct { start: u32, end: u32, previous: u32, next: u32, merge: Merge = .{} };
    /// The rank and the result of merging a symbol with the next one.
    const Merge = struct { key: u32 = none, symbol: u32 = none };
    const Last = struct { pair: [2]u32, key: u32 };

    /// Returns the last merge; null if several symbols remain, or if there is only one at the
    /// start.
    fn merge(self: *Alone, token: []const u8) Error!?Last {
        self.token = token;
        if (!try self.tokens.symbolsOf(token, &self.symbols)) return null;
        const symbols = self.symbols.items;
        self.parts.clearRetainingCapacity();
        self.heap.clear();
        var end: u32 = 0;
        for (symbols, 0..) |symbol, index| {
            const start = end;
            end += @intCast(self.tokens.tokenBytes(symbol).len);
            const next: u32 = if (index + 1 == symbols.len) none else @intCast(index + 1);
            const previous = @as(u32, @intCast(index)) -% 1;
            const part: Part = .{ .start = start, .end = end, .previous = previous, .next = next };
            try self.parts.append(self.tokens.arena, part);
        }
        for (0..symbols.len) |index| try self.offer(@intCast(index));
        var last: ?Last = null;
        var left = symbols.len;
        while (self.heap.pop(.{})) |entry| {
            const parts = self.parts.items;
            const at: u32 = @truncate(entry);
            const merge_ = parts[at].merge;
            if (merge_.key != entry >> 32 or merge_.symbol == none) continue;
            const right = parts[at].next;
            last = .{ .pair = .{ symbols[at], symbols[right] }, .key = merge_.key };
            symbols[at] = merge_.symbol;
            parts[right].merge = .{};
            parts[at].end = parts[right].end;
            parts[at].next = parts[right].next;
            if (parts[right].next != none) parts[parts[right].next].previous = at;
            left -= 1;
            try self.offer(at);
            if (parts[at].previous != none) try self.offer(parts[at].previous);
        }
        return if (left == 1) last else null;
    }

    /// Looks up the merge of a symbol with the next one.
    fn offer(self: *Alone, at: u32) Error!void {
        const parts = self.parts.items;
        parts[at].merge = .{};
        const next = parts[at].next;
        if (next == none) return;
        if (self.tokens.model.merges != null) {
            const pair = [2]u32{ self.symbols.items[at], self.symbols.items[next] };
            const index = self.list.get(pair) orelse return;
            parts[at].merge = .{ .key = index, .symbol = self.made[index] };
        } else {
            const spelt = self.token[parts[at].start..parts[next].end];
            const place = try self.tokens.find(spelt, self.culprit) orelse return;
            const order = self.tokens.model.order orelse self.tokens.model.ids;
            parts[at].merge = .{ .key = order[place], .symbol = place };
        }
        try self.heap.push(self.tokens.arena, .{}, @as(u64, parts[at].merge.key) << 32 | at);
    }
};

test "merged: pairs in list order equal those found by merging each token" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var in_order: usize = 0;
    for (0..400) |round| {
        var arena_state: std.heap.ArenaAllocator = .init(gpa);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        var names: std.StringArrayHashMapUnmanaged(void) = .empty;
        for ([_][]const u8{ "a", "b", "c" }) |letter| try names.put(arena, letter, {});
        var merges: std.ArrayList([2]u32) = .empty;
        for (0..random.uintLessThan(usize, 40)) |_| {
            const count: u32 = @intCast(names.count());
            const pair = [2]u32{ random.uintLessThan(u32, count), random.uintLessThan(u32, count) };
            const keys = names.keys();
            if (keys[pair[0]].len + keys[pair[1]].len > 20) continue;
            const joined = try std.mem.concat(arena, u8, &.{ keys[pair[0]], keys[pair[1]] });
            try names.put(arena, joined, {});
            try merges.append(arena, pair);
        }
        // A few positions are wrong, or all.
        const swaps = if (round % 4 == 0) merges.items.len else round % 4 - 1;
        if (merges.items.len > 0) for (0..swaps) |_| {
            const at = random.uintLessThan(usize, merges.items.len);
            const other = random.uintLessThan(usize, merges.items.len);
            std.mem.swap([2]u32, &merges.items[at], &merges.items[other]);
        };
        const lengths = try arena.alloc(u32, names.count());
        const numbers = try arena.alloc(u32, names.count());
        const kinds = try arena.alloc(u8, names.count());
        @memset(kinds, 0);
        for (lengths, numbers, names.keys(), 0..) |*length, *number, key, index| {
            length.* = @intCast(key.len);
            number.* = @intCast(index);
        }
        const model: models.Model = .{
            .bytes = try std.mem.concat(arena, u8, names.keys()),
            .lengths = lengths,
            .ids = numbers,
            .kinds = kinds,
            .merges = @ptrCast(merges.items),
        };
        var culprit: u32 = 0;
        var tokens: Tokens = try .init(arena, &model, &culprit);
        const made = try madeBy(&tokens, model.merges.?, &culprit);
        const slow = try byMerging(&tokens, made, &culprit);
        const fast = try inOrder(&tokens, model.merges.?, made) orelse continue;
        in_order += 1;
        try std.testing.expectEqualSlices(u32, slow.keys, fast.keys);
        for (slow.keys, slow.pairs, fast.pairs) |key, pair, other| {
            if (key != none) try std.testing.expectEqual(pair, other);
        }
    }
    try std.testing.expect(in_order > 50);
}
