//! Documents → counts: how often each pretoken occurs.
//!
//! Each thread has its own tables (count/tally.zig). At the end all threads add them up, each a
//! range of hashes (count/fold.zig). A long text is cut at proven cuts (pretokens/cuts.zig). The
//! counts are the same for any number of threads. Their order is not.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("platform.zig");
const pretokens = @import("pretokens.zig");
const Effort = @import("added.zig").Effort;
const Names = @import("added.zig").Names;
const cuts = @import("pretokens/cuts.zig");
const fold = @import("count/fold.zig");
const Plan = @import("count/plan.zig").Plan;
const Tally = @import("count/tally.zig").Tally;
const merge = @import("count/merge.zig");
const sorted = @import("count/sorted.zig");
const Writer = @import("count/writer.zig").Writer;
pub const Inventory = @import("count/inventory.zig").Inventory;
pub const Reader = @import("count/reader.zig").Reader;
pub const mergeFiles = merge.mergeFiles;
pub const weightFailureOf = merge.weightFailureOf;
pub const findLastCut = @import("count/cuts.zig").findLast;
pub const failureOf = @import("count/failures.zig").failureOf;
pub const Report = @import("count/failures.zig").Report;

/// A pretoken and its count. A source of entries has `len`, the number of entries, `bytes_total`,
/// the bytes of all entries, and `next() Error!?Entry`, whose result is valid until the next call.
pub const Entry = struct { bytes: []const u8, count: u64 };

pub const Error = error{
    OutOfMemory,
    /// The poll returned true.
    Interrupted,
    /// A pretoken is longer than `bytes_max`.
    PretokenTooLong,
    /// A count, or the sum of all counts, is 2^64 or more.
    CountTooLarge,
    /// An addition to the counter failed, so its counts are not known.
    CountsUnknown,
    /// A file is not valid. The report has the reason and the offset.
    InvalidFile,
    /// A system call failed. The report has the path and the error.
    FileFailed,
};

/// The approximate number of entries that are sorted together when counts are spilled: 24 MB. The
/// file is the same for any number.
pub var spill_entries: std.atomic.Value(usize) = .init(1 << 20);

/// Bytes of the longest pretoken.
pub const bytes_max = std.math.maxInt(i32);

/// Documents that were read together. With `continues` the last one continues in the next block.
pub const Block = struct { texts: []const []const u8, continues: bool };

pub const Counter = struct {
    gpa: Allocator,
    scheme: pretokens.Scheme,
    /// Documents are split at these first. They are not counted.
    specials: Names,
    /// One byte per special token: all of them are allowed.
    allowed: []const u8,
    /// Secret and different for each counter. No text can be chosen to cause hash collisions.
    seed: u64,
    /// Whether entries are in the order of their first occurrence. Then one thread counts.
    ordered: bool,
    tallies: std.ArrayList(*Tally) = .empty,
    threads_max: usize = 1,
    /// The end of a document that continues in the next block, from its last cut.
    open: std.ArrayList(u8) = .empty,
    /// Whether a call failed in the middle. Then the counts are not known.
    is_broken: bool = false,

    /// Takes ownership of `scheme`, also if the call fails. `names` are the special tokens, in any
    /// order.
    pub fn init(
        gpa: Allocator,
        scheme: pretokens.Scheme,
        names: []const []const u8,
        seed: u64,
        ordered: bool,
    ) Allocator.Error!Counter {
        var taken = scheme;
        errdefer taken.deinit(gpa);
        var specials = try specialsOf(gpa, names);
        errdefer specials.deinit(gpa);
        const allowed = try gpa.alloc(u8, specials.ends.len);
        @memset(allowed, 1);
        return .{
            .gpa = gpa,
            .scheme = taken,
            .specials = specials,
            .allowed = allowed,
            .seed = seed,
            .ordered = ordered,
        };
    }

    pub fn deinit(self: *Counter) void {
        self.clear();
        self.open.deinit(self.gpa);
        self.scheme.deinit(self.gpa);
        self.specials.deinit(self.gpa);
        self.gpa.free(self.allowed);
    }

    /// Removes all counts and frees the memory.
    pub fn clear(self: *Counter) void {
        for (self.tallies.items) |tally| tally.destroy();
        self.tallies.clearAndFree(self.gpa);
    }

    /// Returns an error if the counts are not known.
    pub fn check(self: *const Counter) error{CountsUnknown}!void {
        if (self.is_broken) return error.CountsUnknown;
    }

    /// Drops the counts after a call that failed in the middle.
    fn breakOff(self: *Counter) void {
        self.is_broken = true;
        self.clear();
    }

    /// Returns the bytes of the tables and of the open document.
    pub fn memory(self: *const Counter) usize {
        var bytes: usize = self.open.capacity;
        for (self.tallies.items) |tally| bytes += tally.bytes();
        return bytes;
    }

    /// Returns the entries of all tables. It is at least the number of different pretokens.
    pub fn unique(self: *const Counter) usize {
        var entries: usize = 0;
        for (self.tallies.items) |tally| entries += tally.words.entries + tally.strings.entries;
        return entries;
    }

    /// Returns the number of counted pretokens.
    pub fn total(self: *const Counter) u64 {
        var sum: u64 = 0;
        for (self.tallies.items) |tally| sum += tally.total;
        return sum;
    }

    /// Counts the pretokens of texts, each of which is a document. After an error the counts are
    /// not known, and further calls fail.
    pub fn add(
        self: *Counter,
        texts: []const []const u8,
        threads: usize,
        poll: ?platform.threads.Poll,
    ) Error!void {
        try self.check();
        errdefer self.breakOff();
        const workers_max = if (self.ordered) 1 else @min(threads, platform.threads.threads_max);
        var plan: Plan = try .init(self.gpa, .{
            .scheme = &self.scheme,
            .specials = &self.specials,
            .allowed = self.allowed,
        }, texts, workers_max);
        defer plan.deinit();
        const workers = @max(1, @min(workers_max, plan.jobs.items.len));
        while (self.tallies.items.len < workers) {
            const tally = try Tally.create(self.gpa, self.seed, self.ordered);
            errdefer tally.destroy();
            try self.tallies.append(self.gpa, tally);
        }
        self.threads_max = @max(self.threads_max, workers);
        var work: Work = .{
            .counter = self,
            .plan = &plan,
            .stop = .{ .poll = poll },
            .queue = .{ .len = plan.jobs.items.len },
        };
        platform.threads.workers(workers, &work, Work.run);
        if (work.failure) |failure| return failure;
        try work.join();
    }

    /// Counts the documents of blocks. A document that continues is counted up to its last cut. The
    /// rest is kept and counted with the first text of the next block, which may be in the next
    /// call. With a pattern without proven cuts, the whole document is kept.
    pub fn addBlocks(
        self: *Counter,
        blocks: []const Block,
        threads: usize,
        poll: ?platform.threads.Poll,
    ) Error!void {
        try self.check();
        errdefer self.breakOff();
        var arena_state: std.heap.ArenaAllocator = .init(self.gpa);
        defer arena_state.deinit();
        const arena = arena_state.allocator();
        var joined: std.ArrayList([]u8) = .empty;
        defer for (joined.items) |text| self.gpa.free(text);
        var texts: std.ArrayList([]const u8) = .empty;
        for (blocks) |block| {
            if (block.texts.len == 0) continue;
            try texts.ensureUnusedCapacity(arena, block.texts.len + 1);
            var first: usize = 0;
            if (self.open.items.len > 0) {
                try self.open.appendSlice(self.gpa, block.texts[0]);
                const closes = !block.continues or block.texts.len > 1;
                first = 1;
                if (if (closes) self.open.items.len else self.lastCut(self.open.items)) |cut| {
                    try joined.ensureUnusedCapacity(arena, 1);
                    const text = try self.open.toOwnedSlice(self.gpa);
                    joined.appendAssumeCapacity(text);
                    texts.appendAssumeCapacity(text[0..cut]);
                    try self.open.appendSlice(self.gpa, text[cut..]);
                }
            }
            const continues = block.continues and block.texts.len > first;
            const end = block.texts.len - @intFromBool(continues);
            texts.appendSliceAssumeCapacity(block.texts[first..end]);
            if (continues) {
                const last = block.texts[end];
                const cut = self.lastCut(last) orelse 0;
                texts.appendAssumeCapacity(last[0..cut]);
                try self.open.appendSlice(self.gpa, last[cut..]);
            }
        }
        try self.add(texts.items, threads, poll);
    }

    fn lastCut(self: *const Counter, text: []const u8) ?usize {
        return if (cuts.fits(&self.scheme)) findLastCut(text, &self.specials) else null;
    }

    /// Returns all counts. The counter is empty afterwards. After an error a part of the counts is
    /// added up, so they are not known.
    pub fn take(self: *Counter) Error!Inventory {
        try self.check();
        errdefer self.breakOff();
        const tallies = self.tallies.items;
        const inventory = if (self.ordered and tallies.len > 0)
            try fold.takeOrdered(self.gpa, tallies[0])
        else
            try fold.take(self.gpa, tallies, self.threads_max);
        self.clear();
        return inventory;
    }

    /// Writes all counts to a file. The counter is empty afterwards, unless the call fails.
    pub fn spill(
        self: *Counter,
        path: []const u8,
        report: *Report,
        poll: ?platform.threads.Poll,
    ) Error!void {
        try self.check();
        const tallies = self.tallies.items;
        const entries_max = spill_entries.load(.monotonic);
        const slices = try sorted.slicesOf(self.gpa, tallies, entries_max);
        defer self.gpa.free(slices);
        var writer: Writer = try .create(self.gpa, path, "{}", report);
        {
            errdefer writer.abandon();
            for (slices) |slice| {
                const tables: *sorted.SortedTables = try .init(self.gpa, tallies, slice);
                defer tables.deinit();
                var entries = try tables.merged();
                defer entries.deinit();
                try merge.writeAll(&writer, &entries, poll);
            }
        }
        try writer.finish();
        self.clear();
    }

    /// Counts one text, split at special tokens.
    fn count(self: *const Counter, tally: *Tally, text: []const u8) Error!void {
        var start: usize = 0;
        if (self.allowed.len > 0) {
            var effort: Effort = .{ .gpa = self.gpa };
            defer effort.deinit();
            var search = self.specials.search(text, 0, self.allowed, &effort);
            while (search.next()) |found| {
                try tally.add(&self.scheme, text[start..found.start]);
                start = found.end;
            }
        }
        try tally.add(&self.scheme, text[start..]);
    }
};

/// Writes a sorted source of entries to a file.
fn writeFile(
    gpa: Allocator,
    path: []const u8,
    metadata: []const u8,
    source: anytype,
    report: *Report,
    poll: ?platform.threads.Poll,
) Error!void {
    var writer: Writer = try .create(gpa, path, metadata, report);
    {
        errdefer writer.abandon();
        try merge.writeAll(&writer, source, poll);
    }
    try writer.finish();
}

/// Writes an inventory to a file. Equal entries are added up.
pub fn writeInventory(
    gpa: Allocator,
    inventory: *const Inventory,
    path: []const u8,
    metadata: []const u8,
    report: *Report,
    poll: ?platform.threads.Poll,
) Error!void {
    var refs: sorted.SortedInventory = try .init(gpa, inventory);
    defer refs.deinit(gpa);
    var source = refs.sorted();
    var entries: merge.Merge(@TypeOf(source)) = .{ .gpa = gpa };
    defer entries.deinit();
    try entries.add(&source, 1);
    try writeFile(gpa, path, metadata, &entries, report, poll);
}

/// Returns the next entries of a file, at most `entries_max`.
pub fn readInventory(gpa: Allocator, reader: *Reader, entries_max: usize) Error!Inventory {
    // The number of entries in the file is not trusted, so the lists grow with the entries.
    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(gpa);
    var lengths: std.ArrayList(u32) = .empty;
    defer lengths.deinit(gpa);
    var numbers: std.ArrayList(u64) = .empty;
    defer numbers.deinit(gpa);
    while (numbers.items.len < entries_max) {
        const entry = try reader.next() orelse break;
        try bytes.appendSlice(gpa, entry.bytes);
        try lengths.append(gpa, @intCast(entry.bytes.len));
        try numbers.append(gpa, entry.count);
    }
    const bytes_owned = try bytes.toOwnedSlice(gpa);
    errdefer gpa.free(bytes_owned);
    const lengths_owned = try lengths.toOwnedSlice(gpa);
    errdefer gpa.free(lengths_owned);
    return .{
        .bytes = bytes_owned,
        .lengths = lengths_owned,
        .counts = try numbers.toOwnedSlice(gpa),
    };
}

/// Returns the special tokens of names, sorted and without duplicates.
pub fn specialsOf(gpa: Allocator, names: []const []const u8) Allocator.Error!Names {
    const in_order = try gpa.dupe([]const u8, names);
    defer gpa.free(in_order);
    std.sort.heap([]const u8, in_order, {}, isLess);
    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(gpa);
    var lengths: std.ArrayList(u32) = .empty;
    defer lengths.deinit(gpa);
    for (in_order, 0..) |name, index| {
        if (name.len == 0 or (index > 0 and std.mem.eql(u8, name, in_order[index - 1]))) continue;
        try bytes.appendSlice(gpa, name);
        try lengths.append(gpa, @intCast(name.len));
    }
    return .init(gpa, bytes.items, lengths.items, null);
}

fn isLess(_: void, a: []const u8, b: []const u8) bool {
    return std.mem.lessThan(u8, a, b);
}

/// The data that the threads of one call share.
const Work = struct {
    counter: *Counter,
    plan: *const Plan,
    stop: platform.threads.Stop,
    queue: platform.threads.Queue,
    has_failed: std.atomic.Value(bool) = .init(false),
    failure: ?Error = null,

    /// Runs jobs with the tables of one worker until none is left.
    fn run(self: *Work, worker: usize) void {
        const tally = self.counter.tallies.items[worker];
        tally.poll = self.stop.pollOf(worker);
        self.drain(tally) catch |failure| {
            if (!self.has_failed.swap(true, .acq_rel)) self.failure = failure;
            self.stop.stop();
        };
    }

    fn drain(self: *Work, tally: *Tally) Error!void {
        while (!self.stop.isSet()) {
            const index = self.queue.take() orelse break;
            switch (self.plan.jobs.items[index]) {
                .texts => |texts| for (texts) |text| try self.counter.count(tally, text),
                .piece => |piece| try self.counter.count(tally, piece),
                .part => |number| {
                    const part = &self.plan.parts.items[number];
                    try part.count(tally, &self.counter.scheme);
                },
            }
        }
        try tally.flush();
    }

    /// Joins the parts with estimated starts.
    fn join(self: *Work) Error!void {
        if (self.plan.parts.items.len == 0) return;
        const tally = self.counter.tallies.items[0];
        for (self.counter.tallies.items) |each| {
            each.poll = self.stop.pollOf(0);
        }
        var end: usize = 0;
        for (self.plan.parts.items) |*part| {
            if (part.from == 0) end = 0;
            end = try part.join(tally, &self.counter.scheme, end);
        }
        try tally.flush();
    }
};

test {
    _ = @import("count/cuts.zig");
    _ = fold;
    _ = @import("count/words.zig");
    _ = @import("count/strings.zig");
    _ = merge;
}

/// The reference implementation: each pretoken into a map.
const Reference = struct {
    gpa: Allocator,
    counts: std.StringArrayHashMapUnmanaged(u64) = .empty,

    fn deinit(self: *Reference) void {
        for (self.counts.keys()) |key| self.gpa.free(key);
        self.counts.deinit(self.gpa);
    }

    fn add(self: *Reference, scheme: *const pretokens.Scheme, document: []const u8) !void {
        var pieces: pretokens.Pretokens = .init(self.gpa, scheme, document);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            const entry = try self.counts.getOrPut(self.gpa, document[span.start..span.end]);
            if (!entry.found_existing) {
                entry.key_ptr.* = try self.gpa.dupe(u8, entry.key_ptr.*);
                entry.value_ptr.* = 0;
            }
            entry.value_ptr.* += 1;
        }
    }

    fn expectEqual(self: *const Reference, inventory: *const Inventory, ordered: bool) !void {
        try std.testing.expectEqual(self.counts.count(), inventory.lengths.len);
        var source = inventory.source();
        var index: usize = 0;
        while (try source.next()) |entry| : (index += 1) {
            const place = self.counts.getIndex(entry.bytes) orelse return error.NeverSeen;
            if (ordered) try std.testing.expectEqual(index, place);
            try std.testing.expectEqual(self.counts.values()[place], entry.count);
        }
    }
};

/// Returns text with many short and long words that recur.
fn writeText(random: std.Random, text: []u8) []u8 {
    const kinds = [_][]const u8{
        "a", "b", "c", "de", " ", " ", "\n", "1", "!", "\u{4f60}", "\u{597d}", "\xff", "\xe4\xbd",
    };
    var len: usize = 0;
    while (len + 64 < text.len) {
        const longest: usize = if (random.uintLessThan(u8, 10) == 0) 24 else 4;
        for (0..1 + random.uintLessThan(usize, longest)) |_| {
            const part = kinds[random.uintLessThan(usize, kinds.len)];
            @memcpy(text[len..][0..part.len], part);
            len = @min(len + part.len, text.len - 8);
        }
        text[len] = ' ';
        len += 1;
    }
    return text[0..len];
}

test "counts: they equal the reference for any number of threads" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const buffer = try gpa.alloc(u8, 200_000);
    defer gpa.free(buffer);
    for (0..24) |round| {
        const limit = random.uintLessThan(usize, if (round == 0) buffer.len else 20_000) + 100;
        const text = writeText(random, buffer[0..limit]);
        const schemes = [_]pretokens.Scheme{ .r50k, .cl100k, .o200k };
        const scheme = schemes[round % schemes.len];
        const ordered = round % 4 == 3;
        var counter: Counter = try .init(gpa, scheme, &.{}, random.int(u64), ordered);
        defer counter.deinit();
        var reference: Reference = .{ .gpa = gpa };
        defer reference.deinit();
        var texts: [200][]const u8 = undefined;
        for (0..3) |_| {
            var start: usize = 0;
            for (&texts, 1..) |*document, number| {
                const end = text.len * number / texts.len;
                document.* = text[start..end];
                start = end;
                try reference.add(&scheme, document.*);
            }
            try counter.add(&texts, 1 + random.uintLessThan(usize, 5), null);
        }
        var inventory = try counter.take();
        defer inventory.deinit(gpa);
        try reference.expectEqual(&inventory, ordered);
    }
}

test "counts: spilled and merged counts equal the reference" {
    const gpa = std.testing.allocator;
    const io = std.testing.io;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var folder = std.testing.tmpDir(.{});
    defer folder.cleanup();
    const root = try folder.dir.realPathFileAlloc(io, ".", gpa);
    defer gpa.free(root);
    var arena: std.heap.ArenaAllocator = .init(gpa);
    defer arena.deinit();
    const buffer = try gpa.alloc(u8, 40_000);
    defer gpa.free(buffer);
    defer spill_entries.store(1 << 20, .monotonic);
    for ([_]usize{ 1, 3, 300 }) |runs| {
        var counter: Counter = try .init(gpa, .cl100k, &.{}, random.int(u64), false);
        defer counter.deinit();
        var reference: Reference = .{ .gpa = gpa };
        defer reference.deinit();
        const paths = try arena.allocator().alloc([]const u8, runs);
        var report: Report = .{};
        for (paths, 0..) |*path, number| {
            const limit = 100 + random.uintLessThan(usize, (buffer.len - 100) / runs);
            const text = writeText(random, buffer[0..limit]);
            const texts: [2][]const u8 = .{ text[0 .. text.len / 3], text[text.len / 3 ..] };
            for (texts) |document| try reference.add(&.cl100k, document);
            try counter.add(&texts, 2, null);
            path.* = try std.fmt.allocPrint(arena.allocator(), "{s}/{d}.tmc", .{ root, number });
            spill_entries.store(1 + random.uintLessThan(usize, 2000), .monotonic);
            try counter.spill(path.*, &report, null);
        }
        const weights = try arena.allocator().alloc(f64, runs);
        @memset(weights, 1);
        const whole = try std.fmt.allocPrint(arena.allocator(), "{s}/whole.tmc", .{root});
        try mergeFiles(gpa, paths, weights, whole, "{}", &report, null);
        var reader: Reader = try .open(gpa, whole, &report);
        defer reader.close();
        var inventory = try readInventory(gpa, &reader, std.math.maxInt(usize));
        defer inventory.deinit(gpa);
        try reference.expectEqual(&inventory, false);
    }
}
