//! Tallies, or an inventory → entries in the order of their bytes.
//!
//! The sorted items have the place of an entry and its first 16 bytes, which decide nearly every
//! comparison: 24 bytes per entry, without copies of pretokens. Tallies are sorted in slices of the
//! range of all byte strings, so that the items need little memory. In each slice a thread sorts
//! the entries of one tally, and reading merges them (merge.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const counts = @import("../count.zig");
const words_ = @import("words.zig");
const Inventory = @import("inventory.zig").Inventory;
const Tally = @import("tally.zig").Tally;
const Merge = @import("merge.zig").Merge;

/// An entry: its first bytes as numbers, and its place.
pub const Ref = struct {
    first: u64,
    second: u64,
    place: u64,

    fn of(bytes: []const u8, place: u64) Ref {
        var room: [16]u8 = @splat(0);
        const len = @min(bytes.len, room.len);
        @memcpy(room[0..len], bytes[0..len]);
        return .{
            .first = std.mem.readInt(u64, room[0..8], .big),
            .second = std.mem.readInt(u64, room[8..16], .big),
            .place = place,
        };
    }
};

/// Memory for `bytesOf`.
const Room = [16]u8;

/// The number of entries that are fetched in advance.
const refs_ahead = 16;

/// The entries of a store in order: a source of entries.
pub fn Sorted(comptime Store: type) type {
    return struct {
        const Self = @This();

        store: *const Store,
        refs: []Ref,
        index: usize = 0,
        room: Room = undefined,

        pub fn init(store: *const Store, refs: []Ref) Self {
            std.mem.sortUnstable(Ref, refs, store, isLess);
            return .{ .store = store, .refs = refs };
        }

        fn isLess(store: *const Store, a: Ref, b: Ref) bool {
            if (a.first != b.first) return a.first < b.first;
            if (a.second != b.second) return a.second < b.second;
            var rooms: [2]Room = undefined;
            const left = store.bytesOf(a.place, &rooms[0]);
            return std.mem.lessThan(u8, left, store.bytesOf(b.place, &rooms[1]));
        }

        pub fn next(self: *Self) counts.Error!?counts.Entry {
            if (self.index == self.refs.len) return null;
            const place = self.refs[self.index].place;
            const ahead = self.index + refs_ahead;
            if (ahead < self.refs.len) self.store.prepare(self.refs[ahead].place);
            self.index += 1;
            return .{
                .bytes = self.store.bytesOf(place, &self.room),
                .count = self.store.countOf(place),
            };
        }
    };
}

/// The entries of all tallies. Several tallies may have equal entries.
const Tables = struct {
    tallies: []const *Tally,

    /// A place: the number of the tally, whether the entry is a string, and its slot.
    const Place = packed struct(u64) { slot: u2, line: u45, is_string: bool, tally: u16 };
    comptime {
        const tallies_max = std.math.maxInt(@FieldType(Place, "tally"));
        std.debug.assert(platform.threads.threads_max <= tallies_max);
    }

    fn bytesOf(self: *const Tables, number: u64, room: *Room) []const u8 {
        const place: Place = @bitCast(number);
        const tally = self.tallies[place.tally];
        if (place.is_string) {
            const slot = tally.strings.lines[place.line].slots[place.slot];
            return tally.strings.arena.get(slot.place());
        }
        room.* = tally.secret.bytesOf(tally.words.lines[place.line].keys[place.slot]);
        return room[0..words_.lengthOf(room.*)];
    }

    fn countOf(self: *const Tables, number: u64) u64 {
        const place: Place = @bitCast(number);
        const tally = self.tallies[place.tally];
        if (place.is_string) {
            const slot = tally.strings.lines[place.line].slots[place.slot];
            return slot.count() + tally.strings.moreOf(slot.place());
        }
        const line = &tally.words.lines[place.line];
        return line.counts[place.slot] + tally.words.moreOf(line.keys[place.slot]);
    }

    fn prepare(self: *const Tables, number: u64) void {
        const place: Place = @bitCast(number);
        const tally = self.tallies[place.tally];
        if (place.is_string) {
            @prefetch(&tally.strings.lines[place.line], .{});
        } else @prefetch(&tally.words.lines[place.line], .{});
    }
};

/// The entries of one tally, unordered.
const Entries = struct {
    tally: *Tally,
    number: usize,
    words: words_.Words.Range,
    strings: @import("strings.zig").Strings.Range,

    fn init(tally: *Tally, number: usize) Entries {
        return .{
            .tally = tally,
            .number = number,
            .words = tally.words.range(0, 1),
            .strings = tally.strings.range(0, 1),
        };
    }

    fn next(self: *Entries) ?Ref {
        while (self.words.next()) |found| {
            if (found.count.* == 0) continue;
            const filled = self.tally.secret.bytesOf(found.key);
            const place: Tables.Place = .{
                .slot = @intCast(self.words.slot - 1),
                .line = @intCast(self.words.line),
                .is_string = false,
                .tally = @intCast(self.number),
            };
            return .of(filled[0..words_.lengthOf(filled)], @bitCast(place));
        }
        while (self.strings.next()) |slot| {
            if (slot.count() == 0) continue;
            const place: Tables.Place = .{
                .slot = @intCast(self.strings.slot - 1),
                .line = @intCast(self.strings.line),
                .is_string = true,
                .tally = @intCast(self.number),
            };
            return .of(self.tally.strings.arena.get(slot.place()), @bitCast(place));
        }
        return null;
    }
};

/// Entries whose first eight bytes are in this range, both ends included.
pub const Slice = struct { low: u64, high: u64 };

/// The number of entries from which slices are estimated.
const samples_max = 1 << 12;

/// Returns slices of the entries of tallies, in order, each of at most about `entries_max`. The
/// caller owns them. Entries with the same first eight bytes are in one slice.
pub fn slicesOf(
    gpa: Allocator,
    tallies: []const *Tally,
    entries_max: usize,
) Allocator.Error![]Slice {
    var entries: usize = 0;
    for (tallies) |tally| entries += tally.words.entries + tally.strings.entries;
    var slices: std.ArrayList(Slice) = .empty;
    errdefer slices.deinit(gpa);
    var samples: std.ArrayList(u64) = .empty;
    defer samples.deinit(gpa);
    const stride = 1 + entries / samples_max;
    if (entries > entries_max) for (tallies, 0..) |tally, number| {
        var all: Entries = .init(tally, number);
        var index: usize = 0;
        while (all.next()) |ref| : (index += 1) {
            if (index % stride == 0) try samples.append(gpa, ref.first);
        }
    };
    std.sort.heap(u64, samples.items, {}, std.sort.asc(u64));
    const wanted = 1 + entries / entries_max;
    var low: u64 = 0;
    for (1..wanted) |number| {
        if (samples.items.len == 0) break;
        const bound = samples.items[samples.items.len * number / wanted];
        if (bound <= low) continue;
        try slices.append(gpa, .{ .low = low, .high = bound - 1 });
        low = bound;
    }
    try slices.append(gpa, .{ .low = low, .high = std.math.maxInt(u64) });
    return slices.toOwnedSlice(gpa);
}

/// Returns the sorted entries of tallies in a slice, sorted by threads, each tally separately.
/// Merging adds up equal entries of several tallies.
pub const SortedTables = struct {
    gpa: Allocator,
    tables: Tables,
    slice: Slice,
    runs: []Run,

    const Run = struct {
        refs: []align(platform.memory.page_size) Ref = &.{},
        sorted: Sorted(Tables) = undefined,
        failure: ?Allocator.Error = null,
    };

    pub fn init(
        gpa: Allocator,
        tallies: []const *Tally,
        slice: Slice,
    ) Allocator.Error!*SortedTables {
        const self = try gpa.create(SortedTables);
        errdefer gpa.destroy(self);
        self.* = .{
            .gpa = gpa,
            .tables = .{ .tallies = tallies },
            .slice = slice,
            .runs = try gpa.alloc(Run, tallies.len),
        };
        @memset(self.runs, .{});
        errdefer self.freeRuns();
        platform.threads.run(tallies.len, tallies.len, self, sortRun);
        for (self.runs) |run| if (run.failure) |failure| return failure;
        return self;
    }

    pub fn deinit(self: *SortedTables) void {
        self.freeRuns();
        self.gpa.destroy(self);
    }

    fn freeRuns(self: *SortedTables) void {
        for (self.runs) |run| if (run.refs.len > 0) platform.memory.unmap(run.refs);
        self.gpa.free(self.runs);
    }

    fn sortRun(self: *SortedTables, number: usize) void {
        const run = &self.runs[number];
        const tally = self.tables.tallies[number];
        var count: usize = 0;
        var all: Entries = .init(tally, number);
        while (all.next()) |ref| count += @intFromBool(self.has(ref));
        if (count > 0) run.refs = platform.memory.map(Ref, count) catch |failure| {
            run.failure = failure;
            return;
        };
        platform.memory.adviseHuge(run.refs);
        var len: usize = 0;
        all = .init(tally, number);
        while (all.next()) |ref| if (self.has(ref)) {
            run.refs[len] = ref;
            len += 1;
        };
        run.sorted = .init(&self.tables, run.refs);
    }

    fn has(self: *const SortedTables, ref: Ref) bool {
        return self.slice.low <= ref.first and ref.first <= self.slice.high;
    }

    /// Returns the next entry. Equal entries are added up.
    pub fn merged(self: *SortedTables) counts.Error!Merge(Sorted(Tables)) {
        var merge: Merge(Sorted(Tables)) = .{ .gpa = self.gpa };
        errdefer merge.deinit();
        for (self.runs) |*run| try merge.add(&run.sorted, 1);
        return merge;
    }
};

/// The sorted entries of an inventory, which must not move.
pub const SortedInventory = struct {
    inventory: *const Inventory,
    starts: []u64,
    refs: []Ref,

    pub fn init(gpa: Allocator, inventory: *const Inventory) Allocator.Error!SortedInventory {
        const starts = try gpa.alloc(u64, inventory.lengths.len);
        errdefer gpa.free(starts);
        const refs = try gpa.alloc(Ref, inventory.lengths.len);
        var start: u64 = 0;
        for (starts, refs, inventory.lengths, 0..) |*place, *ref, length, index| {
            place.* = start;
            ref.* = .of(inventory.bytes[@intCast(start)..][0..length], index);
            start += length;
        }
        return .{ .inventory = inventory, .starts = starts, .refs = refs };
    }

    pub fn deinit(self: *SortedInventory, gpa: Allocator) void {
        gpa.free(self.starts);
        gpa.free(self.refs);
    }

    pub fn bytesOf(self: *const SortedInventory, index: u64, _: *Room) []const u8 {
        const number: usize = @intCast(index);
        const start: usize = @intCast(self.starts[number]);
        return self.inventory.bytes[start..][0..self.inventory.lengths[number]];
    }

    pub fn countOf(self: *const SortedInventory, index: u64) u64 {
        return self.inventory.counts[@intCast(index)];
    }

    pub fn prepare(self: *const SortedInventory, index: u64) void {
        const start: usize = @intCast(self.starts[@intCast(index)]);
        @prefetch(self.inventory.bytes.ptr + start, .{});
    }

    /// Returns the next entry. Equal entries are separate.
    pub fn sorted(self: *const SortedInventory) Sorted(SortedInventory) {
        return .init(self, self.refs);
    }
};
