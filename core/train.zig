//! Words and their counts → merges: the pairs of tokens that become tokens, in order.
//!
//! The most frequent pair of neighbours becomes a token, repeatedly. Words are divided into
//! partitions and pairs among owners, one of each per thread. A round applies a batch of merges.
//! Each partition rewrites its words and records the changes. Each owner sums up the changes of its
//! pairs. Then one thread selects the next batch.
//!
//! A batch has the same result as its merges one by one. In order, a pair is accepted while neither
//! of its tokens was merged from the other side. A merge adds only pairs with its new token. Each
//! of them arises from an old pair, which ends the batch before the new one's turn.
//!
//! **Minimum tracked count.** Counts never rise, so a pair below the count of the last merge is
//! never merged. That count is estimated, and pairs below the estimate are not tracked. If the
//! estimate was too high, which is detected in time, the pairs are counted again from the words.
//!
//! **Invariant** the merges do not depend on threads, batches or the minimum tracked count.
//! Source: Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units,
//! ACL 2016, algorithm 1.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("platform.zig");
const changes = @import("train/changes.zig");
const Failure = @import("failure.zig").Failure;
const Merge = @import("train/search.zig").Merge;
const pairs_ = @import("train/pairs.zig");
const queue = @import("train/queue.zig");
const selection = @import("train/selection.zig");
const shards_ = @import("train/shard.zig");
const survey = @import("train/survey.zig");
const vocabularies = @import("vocabulary.zig");

pub const Ties = queue.Ties;

pub const Error = error{ OutOfMemory, Interrupted };

/// Ids stay below this, so that every trained vocabulary can be loaded.
pub const ids_end_max = vocabularies.id_limit;

/// Returns the reason for ids that no learner can use; see `Options`.
pub fn failureOf(first_id: u32, ids_end: u64) ?Failure {
    if (ids_end > ids_end_max) {
        const format = "the vocabulary must have at most {d} ids, got {d}";
        return .init(.value, format, .{ ids_end_max, ids_end });
    }
    if (first_id <= ids_end) return null;
    return .init(.value, "first_id {d} exceeds the vocabulary of {d} ids", .{ first_id, ids_end });
}

pub const Options = struct {
    ties: Ties = .ids,
    /// One past the largest id. Merging ends when all ids are used.
    ids_end: u32,
    /// The first id that a merge gets here. Tokens from `made_from` on come from earlier merges.
    first_id: u32,
    made_from: u32 = std.math.maxInt(u32),
    threads: usize = 1,
    /// A pair of at least this many bytes is never merged, except two initial tokens. With
    /// `Ties.pieces` it is the number of characters, without exception.
    len_end: u32 = std.math.maxInt(u32),
    /// The minimum count of a merge.
    count_min: u64 = 1,
    /// Maximum number of merges per batch; 1 applies them one by one.
    batch_max: u16 = 256,
    /// Whether pairs with a low count are not tracked.
    floor: Floor = .estimated,
    /// Target size in bytes of the words and the data about them; 0 means no limit. If the word
    /// lists do not fit, all words are scanned for each batch until enough of them are finished.
    memory: usize = 0,
    /// Minimum number of batches that are processed by scanning, for tests.
    scans_min: u64 = 0,
    /// Whether a merge may produce a token that words already contain.
    revives: bool = false,

    pub const Floor = enum { none, estimated, too_high };
};

pub const Learned = struct { left: u32, right: u32, new: u32, count: u64 };

/// The exactness check and statistics. The merges are exact because none has a count below `floor`.
pub const Certificate = struct {
    floor: u64 = 0,
    rescans: u32 = 0,
    batches: u64 = 0,
    /// Number of batches that were processed by scanning all words.
    scans: u64 = 0,
    visits: u64 = 0,
};

pub fn Learner(comptime Token: type) type {
    return struct {
        const Self = @This();
        pub const Id = Token;
        const Shard = shards_.Shard(Token);
        const Outcome = enum(u8) { none, out_of_memory, interrupted };

        gpa: Allocator,
        options: Options,
        shards: []Shard,
        owners: []pairs_.Pairs,
        texts: queue.Texts,
        /// Tokens that exist without a merge, by their bytes.
        known: std.StringHashMapUnmanaged(u32) = .empty,
        next_id: u32,
        /// One past the largest id in use.
        tokens_end: u32 = 0,
        batch: std.ArrayList(Merge) = .empty,
        learned: std.ArrayList(Learned) = .empty,
        floor: u64 = 0,
        /// Its value when all pairs below it were last dropped, and whether that is due.
        floor_swept: u64 = 0,
        sweeps: bool = false,
        has_begun: bool = false,
        /// Decreases each time that the estimate was too high.
        floor_share: f64 = 0.7,
        certificate: Certificate = .{},
        /// The batch in which a token was last merged as the left one, and as the right one.
        left_in: []u32,
        right_in: []u32,
        /// Indexed by id: whether a merge produced the token.
        is_made: []bool,
        phase: enum { sketch, survey, enlist, merge, scan, done } = .survey,
        sketch: pairs_.Sketch = .{},
        failure: std.atomic.Value(Outcome) = .init(.none),
        poll: ?platform.threads.Poll = null,
        /// Steps of an average partition at the last round, and at the last poll.
        steps: usize = 0,
        steps_polled: usize = 0,

        pub fn init(gpa: Allocator, options: Options) Allocator.Error!Self {
            // The first occurrence of a pair depends on the order of all words.
            const wanted = if (options.ties == .order) 1 else options.threads;
            const threads = std.math.clamp(wanted, 1, platform.threads.threads_max);
            const is_made = try gpa.alloc(bool, options.ids_end);
            errdefer gpa.free(is_made);
            const made_from = @min(options.made_from, options.first_id);
            for (is_made, 0..) |*flag, id| flag.* = id >= made_from;
            const marks = try gpa.alloc(u32, 2 * @as(usize, options.ids_end));
            errdefer gpa.free(marks);
            @memset(marks, 0);
            var texts: queue.Texts = try .init(gpa, options.ids_end);
            errdefer texts.deinit(gpa);
            if (options.ties == .pieces) try texts.initKinds(gpa);
            const owners = try gpa.alloc(pairs_.Pairs, threads);
            errdefer gpa.free(owners);
            @memset(owners, .{ .revives = options.revives });
            const shards = try gpa.alloc(Shard, threads);
            errdefer gpa.free(shards);
            var made: usize = 0;
            errdefer for (shards[0..made]) |*shard| shard.deinit();
            while (made < threads) : (made += 1) {
                shards[made] = try .init(gpa, threads, options.ids_end);
            }
            return .{
                .gpa = gpa,
                .options = options,
                .shards = shards,
                .owners = owners,
                .texts = texts,
                .next_id = options.first_id,
                .left_in = marks[0..options.ids_end],
                .right_in = marks[options.ids_end..],
                .is_made = is_made,
            };
        }

        pub fn deinit(self: *Self) void {
            const gpa = self.gpa;
            for (self.shards) |*shard| shard.deinit();
            gpa.free(self.shards);
            for (self.owners) |*owner| owner.deinit(gpa);
            gpa.free(self.owners);
            self.texts.deinit(gpa);
            var names = self.known.keyIterator();
            while (names.next()) |name| gpa.free(name.*);
            self.known.deinit(gpa);
            gpa.free(self.is_made);
            self.sketch.deinit(gpa);
            self.batch.deinit(gpa);
            self.learned.deinit(gpa);
            gpa.free(self.left_in.ptr[0 .. 2 * self.left_in.len]);
        }

        /// Adds a token that exists before the first merge.
        pub fn addToken(self: *Self, id: u32, text: []const u8) Allocator.Error!void {
            try self.texts.set(self.gpa, id, text);
            if (self.options.ties == .pieces) self.texts.kinds[id] = .of(text, 0);
            self.tokens_end = @max(self.tokens_end, id + 1);
            const entry = try self.known.getOrPut(self.gpa, text);
            if (entry.found_existing) return;
            entry.key_ptr.* = self.gpa.dupe(u8, text) catch |failure| {
                self.known.removeByPtr(entry.key_ptr);
                return failure;
            };
            entry.value_ptr.* = id;
        }

        /// Sets the script of a token's characters. Only with `Ties.pieces`.
        pub fn setScript(self: *Self, id: u32, script: u32) void {
            self.texts.kinds[id].script = script;
        }

        /// Reserves memory in a partition for this many words and tokens.
        pub fn reserve(self: *Self, shard: usize, words: usize, tokens: usize) !void {
            try self.shards[shard].words.reserve(words, tokens);
        }

        /// Adds a word of `len` tokens to a partition and returns the slice to fill with existing
        /// tokens. Threads may add to different partitions at the same time.
        pub fn addWord(self: *Self, shard: usize, len: u32, count: u64) Allocator.Error![]Token {
            return self.shards[shard].words.add(len, count);
        }

        /// Learns the merges and stores them in `learned`.
        pub fn run(self: *Self) Error!void {
            self.begin() catch |failure| self.fail(failure);
            platform.threads.team(self.shards.len, self, work);
            for (self.shards) |*shard| self.certificate.visits += shard.visits;
            switch (self.failure.load(.monotonic)) {
                .none => {},
                .out_of_memory => return error.OutOfMemory,
                .interrupted => return error.Interrupted,
            }
        }

        /// Returns the number of merges so far, and the count of the last one. During `run` these
        /// may be called from the poll function on the caller's thread.
        pub fn doneNow(self: *const Self) usize {
            return self.learned.items.len;
        }
        pub fn lastCount(self: *const Self) u64 {
            return if (self.learned.getLastOrNull()) |last| last.count else 0;
        }

        /// Returns the size of the words and pairs in bytes.
        pub fn bytes(self: *const Self) usize {
            var sum: usize = 0;
            for (self.owners) |*owner| sum += owner.bytes();
            for (self.shards) |*shard| sum += shard.bytes();
            return sum;
        }

        // ── Rounds ───────────────────────────────────────────────────────────────────────────

        fn work(self: *Self, member: usize, barrier: *platform.threads.Barrier) void {
            const size = barrier.size.load(.monotonic);
            while (self.phase != .done) {
                if (member == 0) self.ask();
                var at = member;
                while (at < self.shards.len) : (at += size) {
                    self.shardRound(at) catch |failure| self.fail(failure);
                }
                barrier.wait(self, nothing);
                at = member;
                while (at < self.owners.len) : (at += size) {
                    self.ownerRound(at) catch |failure| self.fail(failure);
                }
                barrier.wait(self, endRound);
            }
        }

        fn nothing(_: *Self) void {}

        fn fail(self: *Self, failure: Error) void {
            self.failure.store(switch (failure) {
                error.OutOfMemory => .out_of_memory,
                error.Interrupted => .interrupted,
            }, .monotonic);
        }

        fn hasFailed(self: *const Self) bool {
            return self.failure.load(.monotonic) != .none;
        }

        /// Steps of one partition between polls: about ten milliseconds.
        const steps_between = 1 << 18;

        /// Polls on the caller's thread, whose partition is the first one; it may have no words.
        fn ask(self: *Self) void {
            const poll = self.poll orelse return;
            const steps = @max(self.steps, self.shards[0].steps);
            if (steps < self.steps_polled + steps_between and self.phase == .merge) return;
            self.steps_polled = steps;
            if (poll.function(poll.context)) self.fail(error.Interrupted);
        }

        fn shardRound(self: *Self, at: usize) Error!void {
            if (self.hasFailed()) return;
            const shard = &self.shards[at];
            const rules = self.rulesOf();
            switch (self.phase) {
                .sketch => {
                    shard.forget();
                    survey.sketch(shard, self.sketch);
                },
                .survey => {
                    shard.forget();
                    try survey.count(shard, self.tokens_end, self.sketch, self.floor, rules);
                },
                .enlist => try survey.enlist(shard, self.owners),
                .scan => try shard.scan(self.batch.items, rules),
                .merge => {
                    try shard.keep(self.owners);
                    for (self.batch.items) |one| {
                        if (at == 0) self.ask();
                        if (self.hasFailed()) return;
                        try shard.merge(one, rules);
                    }
                    shard.free(self.owners);
                },
                .done => unreachable,
            }
        }

        fn ownerRound(self: *Self, at: usize) Error!void {
            // After a failure the changes may be incomplete or duplicated.
            if (self.hasFailed()) return;
            const owner = &self.owners[at];
            switch (self.phase) {
                .survey => owner.clear(),
                .sketch, .enlist, .done => return,
                .merge, .scan => {
                    try owner.begin(self.gpa);
                    for (self.batch.items) |one| {
                        if (one.owner == at) try owner.remove(self.gpa, one.slot);
                    }
                },
            }
            try changes.apply(self.shards, owner, at, self.floor);
            try owner.settle(self.gpa, self.orderOf(), self.floor);
            if (self.sweeps) try owner.sweep(self.gpa, self.floor);
        }

        /// Runs on one thread and decides the next round.
        fn endRound(self: *Self) void {
            var steps: usize = 0;
            for (self.shards) |*shard| steps += shard.steps;
            self.steps = steps / self.shards.len;
            if (self.hasFailed()) {
                self.phase = .done;
                return;
            }
            self.nextRound() catch |failure| {
                self.fail(failure);
                self.phase = .done;
            };
        }

        fn nextRound(self: *Self) Error!void {
            switch (self.phase) {
                .sketch => {
                    self.phase = .survey;
                    return;
                },
                .survey => self.sketch.deinit(self.gpa),
                .enlist => self.phase = .merge,
                .merge, .scan => if (self.next_id < self.options.ids_end) self.raiseFloor(),
                .done => return,
            }
            if (self.phase == .survey or self.phase == .scan) {
                self.phase = if (self.listsFit()) .enlist else .scan;
                if (self.phase == .enlist) return;
            }
            // The words of new pairs are needed to find their first occurrence.
            if (self.options.ties == .order and self.phase == .merge) {
                try self.shards[0].keep(self.owners);
            }
            try selection.select(self);
            if (self.phase == .scan) self.certificate.scans += 1;
            if (self.batch.items.len > 0) return;
            const is_short = self.next_id < self.options.ids_end;
            const forgot = self.certificate.floor > self.options.count_min;
            if (is_short and forgot and selection.bestCount(self) < self.certificate.floor) {
                try self.begin();
            } else self.phase = .done;
        }

        /// Whether the word lists of all pairs fit in memory. With `Ties.order` they are always
        /// required.
        fn listsFit(self: *const Self) bool {
            if (self.options.ties == .order) return true;
            if (self.certificate.scans < self.options.scans_min) return false;
            if (self.options.memory == 0) return true;
            var sum = self.bytes();
            for (self.shards) |*shard| sum += shard.listBytes();
            return sum <= self.options.memory;
        }

        /// Counts all pairs, at the start or because the estimate was too high.
        fn begin(self: *Self) Error!void {
            if (self.has_begun) {
                self.certificate.rescans += 1;
                self.floor_share /= 4;
            }
            self.certificate.floor = 0;
            self.floor = 0;
            self.floor_swept = 0;
            self.raiseFloor();
            self.tokens_end = @max(self.tokens_end, self.next_id);
            // Counting pairs below the minimum tracked count would waste memory.
            const is_dense = self.tokens_end <= survey.dense_width_max;
            self.phase = if (self.floor > 0 and !is_dense) .sketch else .survey;
            if (self.phase == .sketch) {
                var words: usize = 0;
                for (self.shards) |*shard| words += shard.words.count;
                self.sketch = try .init(self.gpa, words);
            }
        }

        /// Estimates a lower bound on the count of the last merge. In natural text, counts fall by
        /// less than a power of 1.6. The estimate uses the first half of the merges, since counts
        /// may stay constant for long and then fall at once.
        fn raiseFloor(self: *Self) void {
            if (self.options.floor == .none or self.options.revives) return;
            const counts = self.learned.items;
            const wanted: f64 = @floatFromInt(self.options.ids_end - self.options.first_id);
            if (!self.has_begun) self.floor = self.firstFloor(wanted);
            self.has_begun = true;
            defer self.certificate.floor = @max(self.certificate.floor, self.floor);
            defer self.sweeps = self.floor > self.floor_swept + self.floor_swept / 2;
            if (self.sweeps) self.floor_swept = self.floor;
            if (counts.len < 2) return;
            const half = counts.len / 2;
            const share = @min(1, @as(f64, @floatFromInt(half)) / wanted);
            const is_high = self.options.floor == .too_high;
            const from = if (is_high) counts.len - 1 else half - 1;
            const count: f64 = @floatFromInt(counts[from].count);
            const fall = if (is_high) 1 else std.math.pow(f64, share, 1.6);
            const estimate: u64 = @intFromFloat(count * self.floor_share * fall);
            self.floor = @max(self.floor, estimate);
        }

        /// Returns the minimum tracked count before the first merge. In natural text the last merge
        /// has a tenth of the count that it would have if all pretokens were distributed evenly.
        /// This is a quarter of that.
        fn firstFloor(self: *const Self, wanted: f64) u64 {
            if (self.options.floor == .too_high) return 0;
            var occurrences: u64 = 0;
            for (self.shards) |*shard| occurrences +|= shard.words.occurrences;
            return @intFromFloat(@as(f64, @floatFromInt(occurrences)) / @max(wanted, 1) / 40);
        }

        pub fn rulesOf(self: *const Self) shards_.Rules {
            return .{
                .texts = &self.texts,
                .len_end = self.options.len_end,
                .is_made = self.is_made,
                .keeps_order = self.options.ties == .order,
                .revives = self.options.revives,
            };
        }

        pub fn orderOf(self: *const Self) queue.Order {
            return .{ .ties = self.options.ties, .texts = &self.texts };
        }
    };
}

test {
    _ = @import("train/words.zig");
    _ = @import("train/pieces.zig");
    _ = queue;
    _ = @import("train/postings.zig");
    _ = pairs_;
    _ = shards_;
    _ = @import("train/reference.zig");
}
