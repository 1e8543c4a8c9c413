//! Words and their counts → merges: which pairs of tokens become tokens, in which order.
//!
//! The most frequent pair of neighbours becomes a token, and so on. Words are dealt out to shards
//! and pairs to owners, one of each for a thread. A round does a batch of merges: each shard
//! rewrites its words and says what changes, then each owner adds up what the shards say about
//! its pairs, then one thread selects the next batch.
//!
//! A batch is what one merge after the other would do. Taken in order, a pair is accepted while
//! no token of it was merged from the other side: whatever a merge adds is a pair with its new
//! token, which came out of a pair that stops the batch before its turn.
//!
//! **Floor.** Counts never rise, so a pair below the count of the last merge is never merged. That
//! count is estimated, pairs below the estimate are forgotten at birth, and if the estimate was
//! too high, which shows before it matters, the pairs are counted again from the words.
//!
//! **Invariant** the merges do not depend on threads, batches or the floor.
//! Source: Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units,
//! ACL 2016, algorithm 1.

const std = @import("std");
const Allocator = std.mem.Allocator;
const changes = @import("merges/changes.zig");
const Merge = @import("merges/search.zig").Merge;
const pairs_ = @import("merges/pairs.zig");
const pool = @import("pool.zig");
const queue = @import("merges/queue.zig");
const selection = @import("merges/selection.zig");
const shards_ = @import("merges/shard.zig");
const survey = @import("merges/survey.zig");

pub const Ties = queue.Ties;

pub const Error = error{ OutOfMemory, Interrupted };

/// Ids stay below this, as those of vocabularies do.
pub const ids_end_max = 1 << 24;

pub const Options = struct {
    ties: Ties = .ids,
    /// One past the largest id that there will be: merging ends when all are taken.
    ids_end: u32,
    /// The first id that a merge gets here; tokens from `made_from` on come from earlier merges.
    first_id: u32,
    made_from: u32 = std.math.maxInt(u32),
    threads: usize = 1,
    /// A pair of so many bytes or more is never merged, but for two tokens of the beginning. With
    /// `Ties.pieces` it is characters, and there is no exception.
    len_end: u32 = std.math.maxInt(u32),
    /// The least count of a merge.
    count_min: u64 = 1,
    /// Merges of a batch at most; 1 is one after the other.
    batch_max: usize = 256,
    /// Whether pairs are forgotten before their count says so.
    floor: Floor = .estimated,
    /// Bytes that words and what is known about them should take; 0 is as much as it takes. With
    /// less than lists of words need, all words are looked through for each batch, until there
    /// are few enough of them.
    memory: usize = 0,
    /// Batches for which that is done whatever the memory, for tests.
    scans_min: u64 = 0,
    /// Whether a merge may give a token that words already have.
    revives: bool = false,

    pub const Floor = enum { none, estimated, too_high };
};

pub const Learned = struct { left: u32, right: u32, new: u32, count: u64 };

/// What was done, and why nothing was missed: no merge has a count below the floor.
pub const Certificate = struct {
    floor: u64 = 0,
    rescans: u32 = 0,
    batches: u64 = 0,
    /// How many of them were done by looking through all words.
    scans: u64 = 0,
    visits: u64 = 0,
};

pub fn Learner(comptime Token: type) type {
    return struct {
        const Self = @This();
        pub const Id = Token;
        const Shard = shards_.Shard(Token);
        const Failure = enum(u8) { none, out_of_memory, interrupted };

        gpa: Allocator,
        options: Options,
        shards: []Shard,
        owners: []pairs_.Pairs,
        texts: queue.Texts,
        /// Tokens that exist without a merge, by their bytes.
        known: std.StringHashMapUnmanaged(u32) = .empty,
        next_id: u32,
        /// One past the largest id that a token has so far.
        tokens_end: u32 = 0,
        batch: std.ArrayList(Merge) = .empty,
        learned: std.ArrayList(Learned) = .empty,
        floor: u64 = 0,
        /// What it was when all pairs below it were last forgotten, and whether that is due.
        floor_swept: u64 = 0,
        sweeps: bool = false,
        has_begun: bool = false,
        /// Shrinks each time that the floor was too high.
        floor_share: f64 = 0.7,
        certificate: Certificate = .{},
        /// The batch in which a token was last merged as a left one, and as a right one.
        left_in: []u32,
        right_in: []u32,
        /// By id: whether a merge gave the token.
        is_made: []bool,
        phase: enum { sketch, survey, enlist, merge, scan, done } = .survey,
        sketch: pairs_.Sketch = .{},
        failure: std.atomic.Value(Failure) = .init(.none),
        poll: ?pool.Poll = null,
        /// Steps of an average shard, as of the last round and when somebody was asked last.
        steps: usize = 0,
        steps_polled: usize = 0,

        pub fn init(gpa: Allocator, options: Options) Allocator.Error!Self {
            // Where a pair is seen first is a matter of all words.
            const threads = if (options.ties == .order) 1 else @max(1, options.threads);
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

        /// A token that exists before the first merge.
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

        /// Says that the characters of a token have this script; with `Ties.pieces` alone.
        pub fn setScript(self: *Self, id: u32, script: u32) void {
            self.texts.kinds[id].script = script;
        }

        /// Makes room for so many words, with so many tokens in all, in a shard.
        pub fn reserve(self: *Self, shard: usize, words: usize, tokens: usize) !void {
            try self.shards[shard].words.reserve(words, tokens);
        }

        /// Adds a word of `len` tokens to a shard and returns where they go; all are tokens that
        /// exist. Threads may add to different shards at the same time.
        pub fn addWord(self: *Self, shard: usize, len: u32, count: u64) Allocator.Error![]Token {
            return self.shards[shard].words.add(len, count);
        }

        /// Learns the merges, which are then in `learned`.
        pub fn run(self: *Self) Error!void {
            self.begin() catch |failure| self.fail(failure);
            pool.team(self.shards.len, self, work);
            for (self.shards) |*shard| self.certificate.visits += shard.visits;
            switch (self.failure.load(.monotonic)) {
                .none => {},
                .out_of_memory => return error.OutOfMemory,
                .interrupted => return error.Interrupted,
            }
        }

        /// How many merges are known, and the count of the last one. While it runs, the caller's
        /// thread may ask when it is asked.
        pub fn doneNow(self: *const Self) usize {
            return self.learned.items.len;
        }
        pub fn lastCount(self: *const Self) u64 {
            return if (self.learned.getLastOrNull()) |last| last.count else 0;
        }

        /// What words and pairs take.
        pub fn bytes(self: *const Self) usize {
            var sum: usize = 0;
            for (self.owners) |*owner| sum += owner.bytes();
            for (self.shards) |*shard| sum += shard.bytes();
            return sum;
        }

        // ── Rounds ───────────────────────────────────────────────────────────────────────────

        fn work(self: *Self, member: usize, barrier: *pool.Barrier) void {
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

        /// So many steps of one shard are some ten milliseconds.
        const steps_between = 1 << 18;

        /// Asked by the caller's thread, whose shard is the first one; it may have no words.
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
            // A shard that failed may say half of what changed, or the same as before.
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

        /// One thread alone: what the next round is.
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
            // Words of new pairs are looked at to know where they are seen first.
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

        /// Whether there is memory for the words of each pair. Where it matters which pair is seen
        /// first, they are needed anyway.
        fn listsFit(self: *const Self) bool {
            if (self.options.ties == .order) return true;
            if (self.certificate.scans < self.options.scans_min) return false;
            if (self.options.memory == 0) return true;
            var sum = self.bytes();
            for (self.shards) |*shard| sum += shard.listBytes();
            return sum <= self.options.memory;
        }

        /// Counts all pairs, at first or because the floor was too high.
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
            // What is below the floor is not worth the memory of counting it.
            const is_dense = self.tokens_end <= survey.dense_width_max;
            self.phase = if (self.floor > 0 and !is_dense) .sketch else .survey;
            if (self.phase == .sketch) {
                var words: usize = 0;
                for (self.shards) |*shard| words += shard.words.count;
                self.sketch = try .init(self.gpa, words);
            }
        }

        /// What the count of the last merge will be at least, as counts go in natural text: they
        /// fall by less than a power of 1.6. That is reckoned from half as many merges as there
        /// are, since counts may stay the same for long and then fall at once.
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

        /// The floor before there are merges. In natural text the last one has a tenth of what each
        /// would have if pretokens were dealt out to them evenly; this is a quarter of that.
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
    _ = @import("merges/words.zig");
    _ = @import("merges/pieces.zig");
    _ = queue;
    _ = @import("merges/postings.zig");
    _ = @import("merges/spill.zig");
    _ = pairs_;
    _ = shards_;
    _ = @import("merges/reference.zig");
}
