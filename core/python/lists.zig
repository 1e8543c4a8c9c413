//! Ids → a list of ints, from int objects that are created once.
//!
//! The stable ABI requires a call for each item and each reference. If lists and reference counts
//! have the layout of all CPython versions so far, which is tested when the module is loaded, they
//! are written directly. Consecutive pairs of numbers share their ints.

const std = @import("std");
const api = @import("api.zig");
const memory = @import("../platform.zig").memory;
const Error = @import("object.zig").Error;
const Place = @import("../normalize.zig").Place;
const Object = api.Object;

const List = extern struct { head: Object, size: api.Ssize, items: [*]?*Object };
const Pair = extern struct { head: Object, size: api.Ssize, items: [2]?*Object };

/// Whether lists, and pairs in them, have the layout declared here.
var is_direct = false;
var has_pairs = false;

/// Tests the layout with a list of one large int.
pub fn tryLayout() void {
    const int = api.PyLong_FromUnsignedLongLong(1 << 40) orelse return api.PyErr_Clear();
    defer api.Py_DecRef(int);
    const list = api.PyList_New(1) orelse return api.PyErr_Clear();
    defer api.Py_DecRef(list);
    const before = int.refcount;
    api.Py_IncRef(int);
    const counts = int.refcount == before + 1;
    _ = api.PyList_SetItem(list, 0, int);
    const seen: *List = @ptrCast(@alignCast(list));
    // The items are read only if the length next to them is correct.
    is_direct = counts and seen.size == 1 and seen.items[0] == int;
    const tuple = api.PyTuple_New(2) orelse return api.PyErr_Clear();
    defer api.Py_DecRef(tuple);
    api.Py_IncRef(int);
    _ = api.PyTuple_SetItem(tuple, 1, int);
    const pair: *Pair = @ptrCast(@alignCast(tuple));
    has_pairs = is_direct and pair.size == 2 and pair.items[0] == null and pair.items[1] == int;
}

/// The int objects of the ids below a bound, created on first use. Guarded by the GIL.
pub const Ints = struct {
    entries: []align(memory.page_size) Entry,
    /// The public id of each rank, if they differ.
    public: ?[]const u32,

    /// An int and a stock of references that were counted in advance, so that handing one out
    /// writes only to the entry. All zero means that the int was not created yet.
    const Entry = struct {
        object: ?*Object,
        stock: u32,
        /// False for immortal ints, which exist since CPython 3.12.
        is_counted: bool,
    };
    /// Small enough that no count comes near those of immortal objects.
    const stock_max = 1 << 29;

    pub fn init(ids_end: usize, public: ?[]const u32) !Ints {
        return .{ .entries = try memory.map(Entry, @max(ids_end, 1)), .public = public };
    }

    pub fn deinit(self: *Ints) void {
        for (self.entries) |entry| if (entry.object) |object| {
            if (entry.is_counted) object.refcount -= entry.stock;
            api.Py_DecRef(object);
        };
        memory.unmap(self.entries);
    }

    /// Returns a list of new references.
    pub fn listOf(self: *Ints, ids: []const u32) Error!*Object {
        const list = api.PyList_New(@intCast(ids.len)) orelse return error.Raised;
        if (!is_direct) return self.fillSlowly(list, ids);
        const items = @as(*List, @ptrCast(@alignCast(list))).items;
        // A local copy: the compiler can assume that it does not change.
        const entries = self.entries;
        for (ids, items[0..ids.len]) |id, *item| {
            if (id < entries.len and entries[id].stock > 0) {
                @branchHint(.likely);
                entries[id].stock -= 1;
                item.* = entries[id].object;
            } else item.* = self.stocked(id) orelse {
                api.Py_DecRef(list);
                return error.Raised;
            };
        }
        return list;
    }

    /// Returns a new reference, and refills the stock.
    noinline fn stocked(self: *Ints, id: u32) ?*Object {
        const object = self.intOf(id) orelse return null;
        if (id >= self.entries.len) return object;
        const before = object.refcount;
        // A count near this range must not grow, or some versions would treat the object as
        // immortal.
        if (before > 1 << 30 and before < 1 << 31) return object;
        api.Py_IncRef(object);
        const is_counted = object.refcount == before + 1;
        if (is_counted) object.refcount += stock_max - 1;
        self.entries[id] = .{ .object = object, .stock = stock_max, .is_counted = is_counted };
        return object;
    }

    fn fillSlowly(self: *Ints, list: *Object, ids: []const u32) Error!*Object {
        for (ids, 0..) |id, index| {
            const object = self.intOf(id) orelse {
                api.Py_DecRef(list);
                return error.Raised;
            };
            _ = api.PyList_SetItem(list, @intCast(index), object);
        }
        return list;
    }

    /// Returns a new reference.
    fn intOf(self: *Ints, id: u32) ?*Object {
        // Added tokens have ids after the vocabulary, and there are few of them.
        if (id >= self.entries.len) return api.PyLong_FromUnsignedLongLong(id);
        const place = &self.entries[id].object;
        const number = if (self.public) |public| public[id] else id;
        if (place.* == null) place.* = api.PyLong_FromUnsignedLongLong(number) orelse return null;
        api.Py_IncRef(place.*);
        return place.*;
    }
};

/// Returns a list of ints.
pub fn numbersOf(numbers: []const u32) Error!*Object {
    const list = api.PyList_New(@intCast(numbers.len)) orelse return error.Raised;
    var last: ?*Object = null;
    for (numbers, 0..) |number, index| {
        const is_same = index > 0 and number == numbers[index - 1];
        if (is_same) api.Py_IncRef(last) else last = api.PyLong_FromUnsignedLongLong(number);
        const item = last orelse {
            api.Py_DecRef(list);
            return error.Raised;
        };
        _ = api.PyList_SetItem(list, @intCast(index), item);
    }
    return list;
}

/// Returns a list of pairs of ints. If one begins where the previous one ends, they share the int.
pub fn pairsOf(spans: []const Place) Error!*Object {
    // New pairs of ints are not garbage. Collections after every 700 would take a quarter longer.
    const was_enabled = api.PyGC_Disable() != 0;
    defer if (was_enabled) {
        _ = api.PyGC_Enable();
    };
    const list = api.PyList_New(@intCast(spans.len)) orelse return error.Raised;
    var last: ?*Object = null;
    for (spans, 0..) |span, index| {
        const pair = api.PyTuple_New(2);
        const follows = index > 0 and span.start == spans[index - 1].end;
        const start = if (follows) last else api.PyLong_FromUnsignedLongLong(span.start);
        if (follows) api.Py_IncRef(start);
        last = api.PyLong_FromUnsignedLongLong(span.end);
        if (pair == null or start == null or last == null) {
            for ([_]?*Object{ pair, start, last, list }) |object| api.Py_DecRef(object);
            return error.Raised;
        }
        if (has_pairs) {
            @as(*Pair, @ptrCast(@alignCast(pair.?))).items = .{ start, last };
            @as(*List, @ptrCast(@alignCast(list))).items[index] = pair;
            continue;
        }
        _ = api.PyTuple_SetItem(pair.?, 0, start.?);
        _ = api.PyTuple_SetItem(pair.?, 1, last.?);
        _ = api.PyList_SetItem(list, @intCast(index), pair.?);
    }
    return list;
}
