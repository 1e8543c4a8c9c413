//! Merges → rewritten words and changes of counts, for one thread's partition of the words.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const changes_ = @import("changes.zig");
const Changes = changes_.Changes;
const pairs_ = @import("pairs.zig");
const Pairs = pairs_.Pairs;
const postings = @import("postings.zig");
const queue = @import("queue.zig");
const Merge = @import("search.zig").Merge;
const Texts = queue.Texts;
const Search = @import("search.zig").Search;
const Spill = platform.spill.Spill;
const words_ = @import("words.zig");
const Word = words_.Word;

/// Prefetch distance in words.
const ahead = 20;
/// Number of words for which memory is reserved at once.
const block_len = 512;

/// The rules that all partitions share.
pub const Rules = struct {
    texts: *const Texts,
    /// A pair of at least this many bytes is never merged, if a merge produced one of its tokens.
    len_end: u32,
    is_made: []const bool,
    /// Whether the tie-breaking rule needs the first occurrence of a pair.
    keeps_order: bool,
    /// Whether words may contain the token of a merge before the merge.
    revives: bool,

    pub fn bars(self: Rules, left: u32, right: u32) bool {
        const kinds = self.texts.kinds;
        if (kinds.len > 0) return kinds[left].bars(kinds[right], self.len_end);
        const both = @as(u64, self.texts.lens[left]) + self.texts.lens[right];
        if (both < self.len_end) return false;
        return self.is_made[left] or self.is_made[right];
    }
};

pub fn Shard(comptime Token: type) type {
    return struct {
        const Self = @This();
        const Words = words_.Words(Token);

        gpa: Allocator,
        words: Words,
        spill: ?*Spill = null,
        memory: postings.Memory = .{},
        /// Indexed by owner and slot.
        lists: []std.ArrayList(postings.List),
        changes: Changes,
        visits: usize = 0,
        /// Work of the visits; a long word counts as several steps.
        steps: usize = 0,
        /// Number of tokens of all words that can still change, at the last scan.
        tokens_left: usize = 0,

        pub fn init(gpa: Allocator, owners: usize, ids_end: usize) Allocator.Error!Self {
            const lists = try gpa.alloc(std.ArrayList(postings.List), owners);
            errdefer gpa.free(lists);
            @memset(lists, .empty);
            const changes: Changes = try .init(gpa, owners, ids_end);
            return .{ .gpa = gpa, .words = .{ .gpa = gpa }, .lists = lists, .changes = changes };
        }

        pub fn deinit(self: *Self) void {
            self.forget();
            for (self.lists) |*some| some.deinit(self.gpa);
            self.gpa.free(self.lists);
            self.memory.deinit(self.gpa);
            self.words.deinit();
            if (platform.spill.is_supported) if (self.spill) |spill| {
                spill.deinit();
                self.gpa.destroy(spill);
            };
            self.changes.deinit();
        }

        /// Stores the words, of which there must be none yet, in an open file. Call at most once.
        pub fn spillTo(self: *Self, file: i32) platform.spill.Error!void {
            if (!platform.spill.is_supported) return;
            std.debug.assert(self.spill == null and self.words.count == 0);
            const spill = try self.gpa.create(Spill);
            errdefer self.gpa.destroy(spill);
            spill.* = try .init(file);
            self.spill = spill;
            self.words = .{ .gpa = spill.allocator(), .is_spilled = true };
        }

        /// Releases the word lists of all pairs.
        pub fn forget(self: *Self) void {
            for (self.lists) |*some| {
                for (some.items) |*list| self.memory.release(self.gpa, list);
                some.clearRetainingCapacity();
            }
        }

        pub fn bytes(self: *const Self) usize {
            return self.words.bytes() + self.memory.bytes;
        }

        // ── A batch of merges ────────────────────────────────────────────────────────────────

        /// Applies a merge of a batch and adds its changes to those of the others.
        pub fn merge(self: *Self, one: Merge, rules: Rules) Allocator.Error!void {
            try self.mergeIn(self.listOf(one.owner, one.slot), one, rules);
        }

        pub fn mergeIn(self: *Self, list: []const Word, one: Merge, rules: Rules) !void {
            const begun = self.changes.gains.items.len;
            var start: usize = 0;
            while (start < list.len) {
                const end = @min(start + block_len, list.len);
                try self.changes.gathered.ensureUnusedCapacity(self.gpa, 2 * block_len);
                for (list[start..end], start..) |word, at| {
                    if (at + ahead < list.len) self.words.prefetch(list[at + ahead]);
                    try self.visit(word, one, rules);
                }
                start = end;
            }
            self.visits += list.len;
            self.steps += list.len;
            try self.changes.end(begun, one);
        }

        pub fn listOf(self: *Self, owner: u32, slot: pairs_.Slot) []const Word {
            const lists = self.lists[owner].items;
            return if (slot < lists.len) lists[slot].items() else &.{};
        }

        /// Merges all positions in a word: nearly always one.
        inline fn visit(self: *Self, word: Word, one: Merge, rules: Rules) Allocator.Error!void {
            const tokens = self.words.tokensOf(word);
            const left: Token, const right: Token = .{ @intCast(one.left), @intCast(one.right) };
            if (tokens.len > Words.mask_len_max or rules.revives) {
                return self.visitAny(word, one, rules);
            }
            const places = Words.placesOf(tokens, left, right);
            // Stale: another merge took one of the tokens.
            if (places == 0) return;
            if (places & (places - 1) != 0) return self.visitAny(word, one, rules);
            const at = @ctz(places);
            const count = self.words.countOf(word);
            tokens[at] = @intCast(one.new);
            if (at > 0) try self.note(.left, tokens[at - 1], word, at - 1, one, rules, count, .one);
            if (at + 2 < tokens.len) {
                try self.note(.right, tokens[at + 2], word, at, one, rules, count, .one);
                Words.closeGap(tokens[at + 1 ..]);
            }
            self.words.shorten(word, tokens.len - 1);
        }

        /// `visit` for any number of positions.
        noinline fn visitAny(self: *Self, word: Word, one: Merge, rules: Rules) !void {
            const tokens = self.words.tokensOf(word);
            const changes = &self.changes;
            self.steps += tokens.len / 32;
            const left: Token, const right: Token = .{ @intCast(one.left), @intCast(one.right) };
            var at = Words.find(tokens, 0, left, right) orelse return;
            // Two for each position, and those of the other words of the block.
            try changes.gathered.ensureUnusedCapacity(self.gpa, tokens.len + 2 * block_len);
            const count = self.words.countOf(word);
            var read: usize = 0;
            var written: usize = 0;
            while (true) {
                for (tokens[read..at], written..) |token, to| tokens[to] = token;
                written += at - read;
                if (read > 0 and at == read) {
                    // Two adjacent positions: the pair between them is lost once.
                    changes.between += count;
                    try self.noteIn(.both, one.new, word, written - 1, one, rules, count);
                } else if (written > 0) {
                    const before = tokens[written - 1];
                    try self.noteIn(.left, before, word, written - 1, one, rules, count);
                }
                tokens[written] = @intCast(one.new);
                written += 1;
                read = at + 2;
                const next = Words.find(tokens, read, left, right);
                if (read < tokens.len and next != read) {
                    const behind = tokens[read];
                    try self.noteIn(.right, behind, word, written - 1, one, rules, count);
                }
                at = next orelse break;
            }
            for (tokens[read..], written..) |token, to| tokens[to] = token;
            self.words.shorten(word, written + (tokens.len - read));
        }

        /// Records one position of several in a word, which is listed only once per pair.
        fn noteIn(
            self: *Self,
            comptime side: changes_.Side,
            neighbour: u32,
            word: Word,
            at: usize,
            one: Merge,
            rules: Rules,
            count: u64,
        ) Allocator.Error!void {
            if (side != .both and neighbour == one.new) {
                // The token existed before: two of them form one pair, wherever they come from.
                const lost = if (side == .left)
                    queue.pairOf(neighbour, one.left)
                else
                    queue.pairOf(one.right, neighbour);
                try self.changes.lose(lost, count);
                return self.note(.both, neighbour, word, at, one, rules, count, .several);
            }
            try self.note(side, neighbour, word, at, one, rules, count, .several);
        }

        /// Records the change on one side of a position. The new pair begins with token `at`, and
        /// the tokens before it are already rewritten.
        inline fn note(
            self: *Self,
            comptime side: changes_.Side,
            neighbour: u32,
            word: Word,
            at: usize,
            one: Merge,
            rules: Rules,
            count: u64,
            comptime places: enum { one, several },
        ) Allocator.Error!void {
            const around = self.changes.around(side, neighbour);
            if (Changes.isNew(around)) {
                @branchHint(.unlikely);
                const left = if (side == .right) one.new else neighbour;
                const right = if (side == .right) neighbour else one.new;
                try self.changes.begin(around, .{
                    .pair = queue.pairOf(left, right),
                    .seen = if (rules.keeps_order) self.place(word, at, rules) else 0,
                    .side = side,
                    .is_barred = rules.bars(left, right),
                });
            }
            const gathers = places == .one or self.changes.isFirstIn(around, word);
            self.changes.add(around, word, count, gathers);
        }

        /// Returns the position of the pair that begins with token `at` of a word, for
        /// tie-breaking.
        pub fn place(self: *const Self, word: Word, at: usize, rules: Rules) u64 {
            var offset: u64 = 0;
            for (self.words.tokensOf(word)[0..at]) |token| offset += rules.texts.lens[token];
            return @as(u64, word) << 32 | offset;
        }

        /// Returns the current first occurrence of a pair. Words that lost it are skipped from now
        /// on.
        pub fn seenFirst(
            self: *Self,
            owner: usize,
            slot: pairs_.Slot,
            pair: u64,
            rules: Rules,
        ) ?u64 {
            const left: Token = @intCast(queue.leftOf(pair));
            const right: Token = @intCast(queue.rightOf(pair));
            const list = &self.lists[owner].items[slot];
            for (list.items(), 0..) |word, skipped| {
                const at = Words.find(self.words.tokensOf(word), 0, left, right) orelse continue;
                list.skipped += @intCast(skipped);
                return self.place(word, at, rules);
            }
            return null;
        }

        // ── Processing of the changes ────────────────────────────────────────────────────────

        /// Stores the words of the pairs that their owners keep.
        pub fn keep(self: *Self, owners: []const Pairs) Allocator.Error!void {
            const gains = self.changes.gains.items;
            var revived = false;
            for (gains) |*gain| {
                const list = try self.listFor(owners, gain) orelse {
                    gain.slot = pairs_.no_slot;
                    continue;
                };
                var new = try self.memory.alloc(self.gpa, list.len + gain.words);
                // Only a token that existed before has existing pairs.
                revived = revived or list.len > 0;
                @memcpy(new.words[0..list.len], list.words[0..list.len]);
                gain.cursor = new.words + list.len;
                self.memory.release(self.gpa, list);
                list.* = new;
            }
            for (self.changes.gathered.items) |one| {
                const gain = &gains[one.gain];
                if (gain.slot == pairs_.no_slot) continue;
                gain.cursor[0] = one.word;
                gain.cursor += 1;
            }
            if (revived) self.sortLists(owners.len);
            self.changes.clear();
        }

        /// Sorts lists that were extended, so that the first occurrence is first again.
        fn sortLists(self: *Self, owners: usize) void {
            for (self.changes.gains.items) |gain| if (gain.slot != pairs_.no_slot) {
                const list = self.lists[pairs_.ownerOf(gain.pair, owners)].items[gain.slot];
                if (list.len == gain.words) continue;
                std.mem.sortUnstable(Word, list.words[0..list.len], {}, std.sort.asc(Word));
            };
        }

        /// Returns the list of a gain, if its owner keeps the pair.
        fn listFor(
            self: *Self,
            owners: []const Pairs,
            gain: *const changes_.Gain,
        ) Allocator.Error!?*postings.List {
            if (gain.words == 0 or gain.slot == pairs_.no_slot) return null;
            const owner = pairs_.ownerOf(gain.pair, owners.len);
            if (!owners[owner].holds(gain.slot, gain.pair)) return null;
            const lists = &self.lists[owner];
            if (lists.items.len <= gain.slot) {
                try lists.appendNTimes(self.gpa, .{}, gain.slot + 1 - lists.items.len);
            }
            return &lists.items[gain.slot];
        }

        /// Releases the words of removed pairs.
        pub fn free(self: *Self, owners: []const Pairs) void {
            for (owners, self.lists) |*owner, *lists| for (owner.freed.items) |slot| {
                if (slot < lists.items.len) self.memory.release(self.gpa, &lists.items[slot]);
            };
        }

        // ── Without lists ────────────────────────────────────────────────────────────────────

        /// Number of words scanned before their merges are applied, which keeps the lists short.
        pub const segment_words = 1 << 18;

        /// Applies the merges of a batch without word lists, and records the changes. Words are
        /// compacted, and words of one token are removed.
        pub fn scan(self: *Self, batch: []const Merge, rules: Rules) Allocator.Error!void {
            self.changes.clear();
            var search: Search = try .init(self.gpa, batch, self.changes.lefts.len);
            defer search.deinit(self.gpa);
            var next = self.words.first();
            var end: Word = 0;
            var count: usize = 0;
            self.tokens_left = 0;
            while (next) |_| {
                for (0..segment_words) |_| {
                    const word = next orelse break;
                    next = self.words.after(word);
                    if (self.words.tokensOf(word).len < 2) continue;
                    const moved = end;
                    end = self.words.move(word, moved);
                    count += 1;
                    const tokens = self.words.tokensOf(moved);
                    self.tokens_left += tokens.len;
                    try search.look(self.gpa, Token, tokens, moved);
                }
                for (batch, search.lists) |one, *list| {
                    try self.mergeIn(list.items, one, rules);
                    list.clearRetainingCapacity();
                }
                self.changes.gathered.clearRetainingCapacity();
                self.words.release();
            }
            self.words.cut(end, count);
        }

        /// Estimates the size of the lists of all words. Their blocks are somewhat larger than
        /// needed, and those of one word twice as large.
        pub fn listBytes(self: *const Self) usize {
            return (self.tokens_left - @min(self.tokens_left, self.words.count)) * 5;
        }
    };
}

test "merges: two long tokens together exceed any length limit" {
    var texts: Texts = try .init(std.testing.allocator, 2);
    defer texts.deinit(std.testing.allocator);
    @memset(texts.lens, 3 << 30);
    const rules: Rules = .{
        .texts = &texts,
        .len_end = std.math.maxInt(u32),
        .is_made = &.{ true, true },
        .keeps_order = false,
        .revives = false,
    };
    try std.testing.expect(rules.bars(0, 1));
}
