//! Merges → rewritten words and changes of counts, for one thread's share of the words.
//!
//! All pairs that a merge makes hold its new token, so a change is found by the neighbour alone,
//! in an array, and a pair is looked up once for a merge and not once for each place.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Index = @import("index.zig").Index;
const Places = @import("index.zig").Places;
const pairs_ = @import("pairs.zig");
const Change = pairs_.Change;
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
const ahead = 8;

/// What all shards must know.
pub const Rules = struct {
    texts: *const Texts,
    /// A pair of so many bytes or more is never merged, if a token of it was made by a merge.
    len_end: u32,
    is_made: []const bool,
    /// Whether ties need to know where a pair is seen first.
    keeps_order: bool,

    fn bars(self: Rules, left: u32, right: u32) bool {
        const both = @as(u64, self.texts.lens[left]) + self.texts.lens[right];
        if (both < self.len_end) return false;
        return self.is_made[left] or self.is_made[right];
    }
};

pub fn Shard(comptime Token: type) type {
    return struct {
        const Self = @This();
        const Words = words_.Words(Token);
        const none = std.math.maxInt(u32);

        gpa: Allocator,
        words: Words,
        spill: ?*Spill = null,
        memory: postings.Memory = .{},
        /// By owner and slot.
        lists: []std.ArrayList(postings.List),
        changes: std.ArrayList(Change) = .empty,
        gathered: std.ArrayList(Gathered) = .empty,
        /// By neighbour, the changes of the merge at hand.
        lefts: []Around,
        rights: []Around,
        visits: usize = 0,
        /// What the visits took: a long word is more than one step.
        steps: usize = 0,
        /// Tokens of all words that can still change, as of the last scan.
        tokens_left: usize = 0,

        /// A word that holds a pair from now on.
        const Gathered = struct { change: u32, word: Word };
        /// Changes of the pairs with the new token and with the old one.
        const Around = struct { gain: u32 = none, loss: u32 = none };

        pub fn init(gpa: Allocator, owners: usize, ids_end: usize) Allocator.Error!Self {
            const lists = try gpa.alloc(std.ArrayList(postings.List), owners);
            errdefer gpa.free(lists);
            @memset(lists, .empty);
            const around = try gpa.alloc(Around, 2 * ids_end);
            @memset(around, .{});
            return .{
                .gpa = gpa,
                .words = .{ .gpa = gpa },
                .lists = lists,
                .lefts = around[0..ids_end],
                .rights = around[ids_end..],
            };
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
            self.changes.deinit(self.gpa);
            self.gathered.deinit(self.gpa);
            self.gpa.free(self.lefts.ptr[0 .. 2 * self.lefts.len]);
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

        fn mergeIn(self: *Self, list: []const Word, one: Merge, rules: Rules) Allocator.Error!void {
            const begun = self.changes.items.len;
            for (list, 0..) |word, at| {
                if (at + ahead < list.len) self.words.prefetch(list[at + ahead]);
                try self.visit(word, one, rules);
            }
            self.visits += list.len;
            self.reset(begun, one);
        }

        pub fn listOf(self: *Self, owner: u32, slot: pairs_.Slot) []const Word {
            const lists = self.lists[owner].items;
            return if (slot < lists.len) lists[slot].items() else &.{};
        }

        /// Merges all places in a word.
        fn visit(self: *Self, word: Word, one: Merge, rules: Rules) Allocator.Error!void {
            const tokens = self.words.tokensOf(word);
            self.steps += 1 + tokens.len / 32;
            const left: Token, const right: Token = .{ @intCast(one.left), @intCast(one.right) };
            // Stale: another merge took a part of it.
            var at = Words.find(tokens, 0, left, right) orelse return;
            const count = self.words.countOf(word);
            var read: usize = 0;
            var written: usize = 0;
            var touches = false;
            while (true) {
                if (written != read) {
                    for (tokens[read..at], written..) |token, to| tokens[to] = token;
                }
                written += at - read;
                if (touches and at == read) {
                    // Two places side by side: what was between them is lost once.
                    try self.lose(&self.lefts[one.right], queue.pairOf(one.right, one.left), count);
                    try self.gain(.left, one.new, word, written, one, rules, count);
                } else if (written > 0) {
                    const before = tokens[written - 1];
                    try self.lose(&self.lefts[before], queue.pairOf(before, one.left), count);
                    try self.gain(.left, before, word, written, one, rules, count);
                }
                tokens[written] = @intCast(one.new);
                written += 1;
                read = at + 2;
                touches = true;
                const next = Words.find(tokens, read, left, right);
                if (read < tokens.len and next != read) {
                    const behind = tokens[read];
                    try self.lose(&self.rights[behind], queue.pairOf(one.right, behind), count);
                    try self.gain(.right, behind, word, written, one, rules, count);
                }
                at = next orelse break;
            }
            for (tokens[read..], written..) |token, to| tokens[to] = token;
            self.words.shorten(word, written + (tokens.len - read));
        }

        inline fn lose(self: *Self, around: *Around, pair: u64, count: u64) Allocator.Error!void {
            if (around.loss == none) {
                around.loss = @intCast(self.changes.items.len);
                try self.changes.append(self.gpa, .{ .pair = pair, .kind = .loss });
            }
            self.changes.items[around.loss].amount += count;
        }

        /// `written` tokens stand before the place in the word, without gaps.
        inline fn gain(
            self: *Self,
            comptime side: enum { left, right },
            neighbour: u32,
            word: Word,
            written: usize,
            one: Merge,
            rules: Rules,
            count: u64,
        ) Allocator.Error!void {
            // Two of the new token side by side are one pair, also where one was there before.
            const is_left = side == .left or neighbour == one.new;
            const around = &(if (is_left) self.lefts else self.rights)[neighbour];
            if (around.gain == none) {
                around.gain = @intCast(self.changes.items.len);
                try self.changes.append(self.gpa, .{
                    .pair = if (side == .left)
                        queue.pairOf(neighbour, one.new)
                    else
                        queue.pairOf(one.new, neighbour),
                    .seen = if (rules.keeps_order) self.place(word, written - 1, rules) else 0,
                    .kind = if (rules.bars(neighbour, one.new)) .barred else .gain,
                });
            }
            const change = &self.changes.items[around.gain];
            change.amount += count;
            if (change.last_word == word or change.kind == .barred) return;
            change.last_word = word;
            change.words += 1;
            try self.gathered.append(self.gpa, .{ .change = around.gain, .word = word });
        }

        /// Where a pair that begins with token `at` of a word is, for the order of ties.
        fn place(self: *const Self, word: Word, at: usize, rules: Rules) u64 {
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

        /// Forgets by whom the changes from `begun` on are found.
        fn reset(self: *Self, begun: usize, one: Merge) void {
            for (self.changes.items[begun..]) |*change| {
                const left = queue.leftOf(change.pair);
                const right = queue.rightOf(change.pair);
                const other = if (change.kind == .loss) one.left else one.new;
                if (right == other) self.lefts[left] = .{};
                self.rights[right] = .{};
            }
        }

        // ── What becomes of the changes ──────────────────────────────────────────────────────

        /// Keeps the words of the pairs that their owners keep.
        pub fn keep(self: *Self, owners: []const Pairs) Allocator.Error!void {
            var revived = false;
            for (self.changes.items) |*change| if (change.kind == .gain) {
                const list = try self.listFor(owners, change) orelse {
                    change.slot = pairs_.no_slot;
                    continue;
                };
                var new = try self.memory.alloc(self.gpa, list.len + change.words);
                // Only a token that was there before has pairs that were.
                revived = revived or list.len > 0;
                @memcpy(new.words[0..list.len], list.words[0..list.len]);
                change.cursor = new.words + list.len;
                self.memory.release(self.gpa, list);
                list.* = new;
            };
            for (self.gathered.items) |one| {
                const change = &self.changes.items[one.change];
                if (change.slot == pairs_.no_slot) continue;
                change.cursor[0] = one.word;
                change.cursor += 1;
            }
            if (revived) self.sortLists(owners.len);
            self.changes.clearRetainingCapacity();
            self.gathered.clearRetainingCapacity();
        }

        /// Where words came to others, those that are seen first are in front again.
        fn sortLists(self: *Self, owners: usize) void {
            for (self.changes.items) |change| if (change.slot != pairs_.no_slot) {
                const list = self.lists[pairs_.ownerOf(change.pair, owners)].items[change.slot];
                if (list.len == change.words) continue;
                std.mem.sortUnstable(Word, list.words[0..list.len], {}, std.sort.asc(Word));
            };
        }

        /// The list that a gain belongs to, if its owner keeps the pair.
        fn listFor(
            self: *Self,
            owners: []const Pairs,
            change: *const Change,
        ) Allocator.Error!?*postings.List {
            if (change.words == 0) return null;
            const owner = pairs_.ownerOf(change.pair, owners.len);
            if (!owners[owner].holds(change.slot, change.pair)) return null;
            const lists = &self.lists[owner];
            if (lists.items.len <= change.slot) {
                try lists.appendNTimes(self.gpa, .{}, change.slot + 1 - lists.items.len);
            }
            return &lists.items[change.slot];
        }

        /// Gives up the words of pairs that are gone.
        pub fn free(self: *Self, owners: []const Pairs) void {
            for (owners, self.lists) |*owner, *lists| for (owner.freed.items) |slot| {
                if (slot < lists.items.len) self.memory.release(self.gpa, &lists.items[slot]);
            };
        }

        // ── All pairs of all words ───────────────────────────────────────────────────────────

        /// Adds all pairs of all words to a sketch.
        pub fn sketch(self: *Self, sums: pairs_.Sketch) void {
            var next = self.words.first();
            var number: usize = 0;
            while (next) |word| : (next = self.words.after(word)) {
                number += 1;
                if (number % segment_words == 0) self.words.release();
                const tokens = self.words.tokensOf(word);
                const count = self.words.countOf(word);
                if (tokens.len < 2) continue;
                for (tokens[0 .. tokens.len - 1], tokens[1..]) |left, right| {
                    sums.add(queue.pairOf(left, right), count);
                }
            }
        }

        /// Leaves a gain behind for each pair that the words have and that may reach the floor.
        pub fn survey(
            self: *Self,
            index: *Index,
            sums: pairs_.Sketch,
            floor: u64,
            rules: Rules,
        ) Allocator.Error!void {
            self.changes.clearRetainingCapacity();
            self.gathered.clearRetainingCapacity();
            var next = self.words.first();
            var number: usize = 0;
            while (next) |word| : (next = self.words.after(word)) {
                number += 1;
                if (number % segment_words == 0) self.words.release();
                const tokens = self.words.tokensOf(word);
                const count = self.words.countOf(word);
                if (tokens.len < 2) continue;
                self.tokens_left += tokens.len;
                for (tokens[0 .. tokens.len - 1], tokens[1..], 0..) |left, right, at| {
                    const pair = queue.pairOf(left, right);
                    if (!sums.mayReach(pair, floor)) continue;
                    const place_of = try index.at(self.gpa, left, right);
                    if (place_of.* == none) {
                        place_of.* = @intCast(self.changes.items.len);
                        try self.changes.append(self.gpa, .{
                            .pair = pair,
                            .seen = if (rules.keeps_order) self.place(word, at, rules) else 0,
                            .kind = if (rules.bars(left, right)) .barred else .gain,
                        });
                    }
                    self.changes.items[place_of.*].amount += count;
                }
            }
        }

        /// Lists the words of all pairs that have owners, from nothing.
        pub fn enlist(self: *Self, owners: []const Pairs, ids_end: u32) Allocator.Error!void {
            var places: Places = try .init(self.gpa, owners, ids_end);
            defer places.deinit(self.gpa);
            self.changes.clearAndFree(self.gpa);
            self.gathered.clearAndFree(self.gpa);
            for (self.lists, owners) |*lists, *owner| {
                lists.clearRetainingCapacity();
                try lists.appendNTimes(self.gpa, .{}, owner.records.items.len);
            }
            // Its length says what a list owns, at any time; `skipped` counts for as long.
            try self.eachPair(&places, measure);
            for (self.lists) |lists| for (lists.items) |*list| if (list.skipped > 0) {
                list.* = try self.memory.alloc(self.gpa, list.skipped);
            };
            try self.eachPair(&places, write);
            for (self.lists) |lists| for (lists.items) |*list| {
                list.skipped = 0;
            };
        }

        fn measure(list: *postings.List, _: Word) void {
            list.skipped += 1;
        }

        fn write(list: *postings.List, word: Word) void {
            list.words[list.skipped] = word;
            list.skipped += 1;
        }

        /// Calls `function(list, word)` once for each pair of each word.
        fn eachPair(
            self: *Self,
            places: *const Places,
            comptime function: fn (*postings.List, Word) void,
        ) Allocator.Error!void {
            // The word that a list had last.
            const owners = places.owners;
            const lasts = try self.gpa.alloc([]Word, owners.len);
            defer self.gpa.free(lasts);
            @memset(lasts, &.{});
            defer for (lasts) |some| self.gpa.free(some);
            for (lasts, owners) |*some, *owner| {
                some.* = try self.gpa.alloc(Word, owner.records.items.len);
                @memset(some.*, none);
            }
            var next = self.words.first();
            while (next) |word| : (next = self.words.after(word)) {
                const tokens = self.words.tokensOf(word);
                if (tokens.len < 2) continue;
                for (tokens[0 .. tokens.len - 1], tokens[1..]) |left, right| {
                    const found = places.at(left, right) orelse continue;
                    const last = &lasts[found.owner][found.slot];
                    if (last.* == word) continue;
                    last.* = word;
                    function(&self.lists[found.owner].items[found.slot], word);
                }
            }
        }

        // ── Without lists ────────────────────────────────────────────────────────────────────

        /// Words that are looked through before their merges are done: their lists are short.
        const segment_words = 1 << 18;

        /// Does the merges of a batch in words that nobody has listed, and leaves behind what
        /// changes. Words become as short as they are, and those of one token are given up.
        pub fn scan(self: *Self, batch: []const Merge, rules: Rules) Allocator.Error!void {
            self.changes.clearRetainingCapacity();
            var search: Search = try .init(self.gpa, batch, self.lefts.len);
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
                self.gathered.clearRetainingCapacity();
                self.words.release();
            }
            self.words.cut(end, count);
        }

        /// What the lists of all words would take at most.
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
    };
    try std.testing.expect(rules.bars(0, 1));
}
