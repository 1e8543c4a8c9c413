//! Ids → a list of ints, from int objects that are made once.
//!
//! The stable ABI has a call for each item and each reference. Where a list and a reference count
//! are laid out as in all CPython versions so far, which is tried out when the module is loaded,
//! they are written directly. Pairs of numbers that follow each other share their ints.

const std = @import("std");
const api = @import("api.zig");
const pages = @import("../ids.zig").pages;
const Place = @import("../normal.zig").Place;
const Object = api.Object;

const List = extern struct { head: Object, size: api.Ssize, items: [*]?*Object };
const Pair = extern struct { head: Object, size: api.Ssize, items: [2]?*Object };

/// Whether lists, and pairs in them, can be written as they are declared here.
var is_direct = false;
var has_pairs = false;

/// Tries the layout out on a list of one large int.
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
    // The items are only looked at when the length beside them is right.
    is_direct = counts and seen.size == 1 and seen.items[0] == int;
    const tuple = api.PyTuple_New(2) orelse return api.PyErr_Clear();
    defer api.Py_DecRef(tuple);
    api.Py_IncRef(int);
    _ = api.PyTuple_SetItem(tuple, 1, int);
    const pair: *Pair = @ptrCast(@alignCast(tuple));
    has_pairs = is_direct and pair.size == 2 and pair.items[0] == null and pair.items[1] == int;
}

/// The int objects of the ids below a bound, made when they are first asked for. Guarded by the
/// GIL.
pub const Ints = struct {
    entries: []align(pages.page_size) Entry,
    /// The number of each id, where it is another.
    public: ?[]const u32,

    /// An int and references to it that were counted in advance: handing one out touches nothing
    /// but the entry. All zero is an int that was not asked for yet.
    const Entry = struct {
        object: ?*Object,
        stock: u32,
        /// Since 3.12 CPython does not count the references of ints of its own.
        is_counted: bool,
    };
    /// With it no count comes near those that CPython gives objects that it does not count.
    const stock_max = 1 << 29;

    pub fn init(ids_end: usize, public: ?[]const u32) !Ints {
        return .{ .entries = try pages.map(Entry, @max(ids_end, 1)), .public = public };
    }

    pub fn deinit(self: *Ints) void {
        for (self.entries) |entry| if (entry.object) |object| {
            if (entry.is_counted) object.refcount -= entry.stock;
            api.Py_DecRef(object);
        };
        pages.unmap(self.entries);
    }

    /// A list of new references.
    pub fn listOf(self: *Ints, ids: []const u32) ?*Object {
        const list = api.PyList_New(@intCast(ids.len)) orelse return null;
        if (!is_direct) return self.fillSlowly(list, ids);
        const items = @as(*List, @ptrCast(@alignCast(list))).items;
        // A copy, which the compiler knows that nobody writes to.
        const entries = self.entries;
        for (ids, items[0..ids.len]) |id, *item| {
            if (id < entries.len and entries[id].stock > 0) {
                @branchHint(.likely);
                entries[id].stock -= 1;
                item.* = entries[id].object;
            } else item.* = self.stocked(id) orelse {
                api.Py_DecRef(list);
                return null;
            };
        }
        return list;
    }

    /// A new reference, with more of them in stock.
    noinline fn stocked(self: *Ints, id: u32) ?*Object {
        const object = self.intOf(id) orelse return null;
        if (id >= self.entries.len) return object;
        const before = object.refcount;
        // So many are in use, which none of the versions may come to take for uncounted.
        if (before > 1 << 30 and before < 1 << 31) return object;
        api.Py_IncRef(object);
        const is_counted = object.refcount == before + 1;
        if (is_counted) object.refcount += stock_max - 1;
        self.entries[id] = .{ .object = object, .stock = stock_max, .is_counted = is_counted };
        return object;
    }

    fn fillSlowly(self: *Ints, list: *Object, ids: []const u32) ?*Object {
        for (ids, 0..) |id, index| {
            const object = self.intOf(id) orelse {
                api.Py_DecRef(list);
                return null;
            };
            _ = api.PyList_SetItem(list, @intCast(index), object);
        }
        return list;
    }

    /// A new reference.
    fn intOf(self: *Ints, id: u32) ?*Object {
        // Specials lie behind the vocabulary, and there are few of them.
        if (id >= self.entries.len) return api.PyLong_FromUnsignedLongLong(id);
        const place = &self.entries[id].object;
        const number = if (self.public) |public| public[id] else id;
        if (place.* == null) place.* = api.PyLong_FromUnsignedLongLong(number) orelse return null;
        api.Py_IncRef(place.*);
        return place.*;
    }
};

/// A list of ints.
pub fn numbersOf(numbers: []const u32) ?*Object {
    const list = api.PyList_New(@intCast(numbers.len)) orelse return null;
    var last: ?*Object = null;
    for (numbers, 0..) |number, index| {
        const is_same = index > 0 and number == numbers[index - 1];
        if (is_same) api.Py_IncRef(last) else last = api.PyLong_FromUnsignedLongLong(number);
        const item = last orelse {
            api.Py_DecRef(list);
            return null;
        };
        _ = api.PyList_SetItem(list, @intCast(index), item);
    }
    return list;
}

/// A list of pairs of ints. Where one begins at which another ends, the int is the same.
pub fn pairsOf(spans: []const Place) ?*Object {
    // New pairs of ints are no garbage: looking through them every 700 would take a quarter longer.
    const was_enabled = api.PyGC_Disable() != 0;
    defer if (was_enabled) {
        _ = api.PyGC_Enable();
    };
    const list = api.PyList_New(@intCast(spans.len)) orelse return null;
    var last: ?*Object = null;
    for (spans, 0..) |span, index| {
        const pair = api.PyTuple_New(2);
        const follows = index > 0 and span.start == spans[index - 1].end;
        const start = if (follows) last else api.PyLong_FromUnsignedLongLong(span.start);
        if (follows) api.Py_IncRef(start);
        last = api.PyLong_FromUnsignedLongLong(span.end);
        if (pair == null or start == null or last == null) {
            for ([_]?*Object{ pair, start, last, list }) |object| api.Py_DecRef(object);
            return null;
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
