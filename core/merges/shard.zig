//! Merges → rewritten words and changes of counts, for one thread's share of the words.

const std = @import("std");
const Allocator = std.mem.Allocator;
const changes_ = @import("changes.zig");
const Changes = changes_.Changes;
const pairs_ = @import("pairs.zig");
const Pairs = pairs_.Pairs;
const postings = @import("postings.zig");
const queue = @import("queue.zig");
const Merge = @import("search.zig").Merge;
const Texts = queue.Texts;
const Search = @import("search.zig").Search;
const spill_ = @import("spill.zig");
const Spill = spill_.Spill;
const words_ = @import("words.zig");
const Word = words_.Word;

/// Words that are on their way from memory before they are visited.
const ahead = 20;
/// Words for which room is made at once.
const block_len = 512;

/// What all shards must know.
pub const Rules = struct {
    texts: *const Texts,
    /// A pair of so many bytes or more is never merged, if a token of it was made by a merge.
    len_end: u32,
    is_made: []const bool,
    /// Whether ties need to know where a pair is seen first.
    keeps_order: bool,
    /// Whether words may hold the token that a merge gives before it does.
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
        /// By owner and slot.
        lists: []std.ArrayList(postings.List),
        changes: Changes,
        visits: usize = 0,
        /// What the visits took: a long word is more than one step.
        steps: usize = 0,
        /// Tokens of all words that can still change, as of the last scan.
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
            if (spill_.is_supported) if (self.spill) |spill| {
                spill.deinit();
                self.gpa.destroy(spill);
            };
            self.changes.deinit();
        }

        /// Puts words, of which there are none yet, into an open file, once.
        pub fn spillTo(self: *Self, file: i32) spill_.Error!void {
            if (!spill_.is_supported) return;
            std.debug.assert(self.spill == null and self.words.count == 0);
            const spill = try self.gpa.create(Spill);
            errdefer self.gpa.destroy(spill);
            spill.* = try .init(file);
            self.spill = spill;
            self.words = .{ .gpa = spill.allocator(), .is_spilled = true };
        }

        /// Gives up the words of all pairs.
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

        /// Does a merge of a batch and leaves behind what changes, beside what others changed.
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

        /// Merges all places in a word: nearly always one.
        inline fn visit(self: *Self, word: Word, one: Merge, rules: Rules) Allocator.Error!void {
            const tokens = self.words.tokensOf(word);
            const left: Token, const right: Token = .{ @intCast(one.left), @intCast(one.right) };
            if (tokens.len > Words.mask_len_max or rules.revives) {
                return self.visitAny(word, one, rules);
            }
            const places = Words.placesOf(tokens, left, right);
            // Stale: another merge took a part of it.
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

        /// `visit` for any number of places.
        noinline fn visitAny(self: *Self, word: Word, one: Merge, rules: Rules) !void {
            const tokens = self.words.tokensOf(word);
            const changes = &self.changes;
            self.steps += tokens.len / 32;
            const left: Token, const right: Token = .{ @intCast(one.left), @intCast(one.right) };
            var at = Words.find(tokens, 0, left, right) orelse return;
            // Two beside each place, and those of the other words of the block.
            try changes.gathered.ensureUnusedCapacity(self.gpa, tokens.len + 2 * block_len);
            const count = self.words.countOf(word);
            var read: usize = 0;
            var written: usize = 0;
            while (true) {
                for (tokens[read..at], written..) |token, to| tokens[to] = token;
                written += at - read;
                if (read > 0 and at == read) {
                    // Two places side by side: what was between them is lost once.
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

        /// Notes one place of several in a word, which is gathered for a pair only once.
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
                // A token that was there before: two of them are one pair, wherever they are from.
                const lost = if (side == .left)
                    queue.pairOf(neighbour, one.left)
                else
                    queue.pairOf(one.right, neighbour);
                try self.changes.lose(lost, count);
                return self.note(.both, neighbour, word, at, one, rules, count, .several);
            }
            try self.note(side, neighbour, word, at, one, rules, count, .several);
        }

        /// Notes what a place changes on one side of it: the new pair begins with token `at`, and
        /// the tokens before that are in place.
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

        /// Where a pair that begins with token `at` of a word is, for the order of ties.
        pub fn place(self: *const Self, word: Word, at: usize, rules: Rules) u64 {
            var offset: u64 = 0;
            for (self.words.tokensOf(word)[0..at]) |token| offset += rules.texts.lens[token];
            return @as(u64, word) << 32 | offset;
        }

        /// Where a pair is seen first now. Words that lost it are not looked at again.
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

        // ── What becomes of the changes ──────────────────────────────────────────────────────

        /// Keeps the words of the pairs that their owners keep.
        pub fn keep(self: *Self, owners: []const Pairs) Allocator.Error!void {
            const gains = self.changes.gains.items;
            var revived = false;
            for (gains) |*gain| {
                const list = try self.listFor(owners, gain) orelse {
                    gain.slot = pairs_.no_slot;
                    continue;
                };
                var new = try self.memory.alloc(self.gpa, list.len + gain.words);
                // Only a token that was there before has pairs that were.
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

        /// Where words came to others, those that are seen first are in front again.
        fn sortLists(self: *Self, owners: usize) void {
            for (self.changes.gains.items) |gain| if (gain.slot != pairs_.no_slot) {
                const list = self.lists[pairs_.ownerOf(gain.pair, owners)].items[gain.slot];
                if (list.len == gain.words) continue;
                std.mem.sortUnstable(Word, list.words[0..list.len], {}, std.sort.asc(Word));
            };
        }

        /// The list that a gain belongs to, if its owner keeps the pair.
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

        /// Gives up the words of pairs that are gone.
        pub fn free(self: *Self, owners: []const Pairs) void {
            for (owners, self.lists) |*owner, *lists| for (owner.freed.items) |slot| {
                if (slot < lists.items.len) self.memory.release(self.gpa, &lists.items[slot]);
            };
        }

        // ── Without lists ────────────────────────────────────────────────────────────────────

        /// Words that are looked through before their merges are done: their lists are short.
        pub const segment_words = 1 << 18;

        /// Does the merges of a batch in words that nobody has listed, and leaves behind what
        /// changes. Words become as short as they are, and those of one token are given up.
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

        /// About what the lists of all words would take: their places are somewhat larger than they
        /// need, and those of one word twice as large.
        pub fn listBytes(self: *const Self) usize {
            return (self.tokens_left - @min(self.tokens_left, self.words.count)) * 5;
        }
    };
}

test "merges: two long tokens are longer than any limit" {
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
