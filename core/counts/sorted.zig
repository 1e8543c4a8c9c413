//! Tallies, or an inventory → entries in the order of their bytes.
//!
//! What is sorted is where an entry lies, beside its first eight bytes, which decide nearly every
//! comparison: 16 bytes an entry, and no copies. Each thread sorts a part of them, and the parts
//! are merged as they are read (merge.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const counts = @import("../counts.zig");
const pages = @import("../pages.zig");
const pool = @import("../pool.zig");
const words_ = @import("words.zig");
const Inventory = @import("inventory.zig").Inventory;
const Tally = @import("tally.zig").Tally;
const Merge = @import("merge.zig").Merge;

/// An entry: its first bytes, as a number, and where it is.
pub const Ref = struct { prefix: u64, place: u64 };

/// What entries are read from: `bytesOf` may use the room for them.
const Room = [16]u8;

pub fn prefixOf(bytes: []const u8) u64 {
    var first: [8]u8 = @splat(0);
    const len = @min(bytes.len, first.len);
    @memcpy(first[0..len], bytes[0..len]);
    return std.mem.readInt(u64, &first, .big);
}

/// Entries of a store in their order; it is a source of entries.
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
            if (a.prefix != b.prefix) return a.prefix < b.prefix;
            var rooms: [2]Room = undefined;
            const left = store.bytesOf(a.place, &rooms[0]);
            return std.mem.lessThan(u8, left, store.bytesOf(b.place, &rooms[1]));
        }

        pub fn next(self: *Self) counts.Error!?counts.Entry {
            if (self.index == self.refs.len) return null;
            const place = self.refs[self.index].place;
            self.index += 1;
            return .{
                .bytes = self.store.bytesOf(place, &self.room),
                .count = self.store.countOf(place),
            };
        }
    };
}

/// The entries of all tallies; equal ones may be in several of them.
pub const Tables = struct {
    tallies: []const *Tally,

    /// Of a place: the number of its tally, whether it is a string, and its slot.
    const Place = packed struct(u64) { slot: u2, line: u45, is_string: bool, tally: u16 };

    pub fn bytesOf(self: *const Tables, number: u64, room: *Room) []const u8 {
        const place: Place = @bitCast(number);
        const tally = self.tallies[place.tally];
        if (place.is_string) {
            const slot = tally.strings.lines[place.line].slots[place.slot];
            return tally.strings.arena.get(slot.place());
        }
        room.* = tally.secret.bytesOf(tally.words.lines[place.line].keys[place.slot]);
        return room[0..words_.lengthOf(room.*)];
    }

    pub fn countOf(self: *const Tables, number: u64) u64 {
        const place: Place = @bitCast(number);
        const tally = self.tallies[place.tally];
        if (place.is_string) {
            const slot = tally.strings.lines[place.line].slots[place.slot];
            return slot.count() + tally.strings.moreOf(slot.place());
        }
        const line = &tally.words.lines[place.line];
        return line.counts[place.slot] + tally.words.moreOf(line.keys[place.slot]);
    }

    /// The entries of one tally, of which `refs` has room for all. Returns how many there are.
    fn collect(self: *const Tables, number: usize, refs: []Ref) usize {
        const tally = self.tallies[number];
        var len: usize = 0;
        var words = tally.words.range(0, 1);
        while (words.next()) |found| {
            if (found.count.* == 0) continue;
            const filled = tally.secret.bytesOf(found.key);
            const bytes = filled[0..words_.lengthOf(filled)];
            const place: Place = .{
                .slot = @intCast(words.slot - 1),
                .line = @intCast(words.line),
                .is_string = false,
                .tally = @intCast(number),
            };
            refs[len] = .{ .prefix = prefixOf(bytes), .place = @bitCast(place) };
            len += 1;
        }
        var strings = tally.strings.range(0, 1);
        while (strings.next()) |slot| {
            if (slot.count() == 0) continue;
            const place: Place = .{
                .slot = @intCast(strings.slot - 1),
                .line = @intCast(strings.line),
                .is_string = true,
                .tally = @intCast(number),
            };
            const prefix = prefixOf(tally.strings.arena.get(slot.place()));
            refs[len] = .{ .prefix = prefix, .place = @bitCast(place) };
            len += 1;
        }
        return len;
    }
};

/// All entries of some tallies, sorted: each tally on its own, on threads. What is equal in
/// several of them is added up by whoever merges.
pub const SortedTables = struct {
    tables: Tables,
    refs: []align(pages.page_size) Ref,
    runs: []Sorted(Tables),

    pub fn init(gpa: Allocator, tallies: []const *Tally) Allocator.Error!*SortedTables {
        const self = try gpa.create(SortedTables);
        errdefer gpa.destroy(self);
        var entries: usize = 0;
        for (tallies) |tally| entries += tally.words.entries + tally.strings.entries;
        const runs = try gpa.alloc(Sorted(Tables), tallies.len);
        errdefer gpa.free(runs);
        self.* = .{
            .tables = .{ .tallies = tallies },
            .refs = try pages.map(Ref, @max(1, entries)),
            .runs = runs,
        };
        pool.run(tallies.len, tallies.len, self, sortRun);
        return self;
    }

    pub fn deinit(self: *SortedTables, gpa: Allocator) void {
        pages.unmap(self.refs);
        gpa.free(self.runs);
        gpa.destroy(self);
    }

    fn sortRun(self: *SortedTables, number: usize) void {
        var start: usize = 0;
        for (self.tables.tallies[0..number]) |tally| {
            start += tally.words.entries + tally.strings.entries;
        }
        const len = self.tables.collect(number, self.refs[start..]);
        self.runs[number] = .init(&self.tables, self.refs[start..][0..len]);
    }

    /// One after the other, equal ones added up.
    pub fn merged(self: *SortedTables, gpa: Allocator) counts.Error!Merge(Sorted(Tables)) {
        var merge: Merge(Sorted(Tables)) = .{ .gpa = gpa };
        errdefer merge.deinit();
        for (self.runs) |*run| try merge.add(run, 1);
        return merge;
    }
};

/// The entries of an inventory, sorted; it stays where it is.
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
            ref.* = .{
                .prefix = prefixOf(inventory.bytes[@intCast(start)..][0..length]),
                .place = index,
            };
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

    /// One after the other; entries that are there twice are so here.
    pub fn sorted(self: *const SortedInventory) Sorted(SortedInventory) {
        return .init(self, self.refs);
    }
};
