//! Ids → a list of ints, from int objects that are made once.
//!
//! The stable ABI has a call for each item and each reference. Where a list and a reference count
//! are laid out as in all CPython versions so far, which is tried out when the module is loaded,
//! they are written directly: seven nanoseconds an id instead of forty.

const std = @import("std");
const api = @import("api.zig");
const gpa = @import("buffer.zig").gpa;
const Object = api.Object;

const List = extern struct { head: Object, size: api.Ssize, items: [*]?*Object };

/// Whether objects can be written as they are declared here.
var is_direct = false;

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
}

/// The int objects of the ids below a bound, made when they are first asked for. Guarded by the
/// GIL.
pub const Ints = struct {
    objects: []?*Object,

    /// Up to here CPython has ints of its own, which since 3.12 must not be counted.
    const shared_max = 256;

    pub fn init(ids_end: usize) !Ints {
        const objects = try gpa.alloc(?*Object, ids_end);
        @memset(objects, null);
        return .{ .objects = objects };
    }

    pub fn deinit(self: *Ints) void {
        for (self.objects) |object| if (object) |some| api.Py_DecRef(some);
        gpa.free(self.objects);
    }

    /// A list of new references.
    pub fn listOf(self: *Ints, ids: []const u32) ?*Object {
        const list = api.PyList_New(@intCast(ids.len)) orelse return null;
        if (!is_direct) return self.fillSlowly(list, ids);
        const items = @as(*List, @ptrCast(@alignCast(list))).items;
        for (ids, 0..) |id, index| {
            const known = if (id < self.objects.len) self.objects[id] else null;
            if (known != null and id > shared_max) {
                @branchHint(.likely);
                known.?.refcount += 1;
                items[index] = known;
            } else items[index] = self.intOf(id) orelse {
                api.Py_DecRef(list);
                return null;
            };
        }
        return list;
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
        if (id >= self.objects.len) return api.PyLong_FromUnsignedLongLong(id);
        const place = &self.objects[id];
        if (place.* == null) place.* = api.PyLong_FromUnsignedLongLong(id) orelse return null;
        api.Py_IncRef(place.*);
        return place.*;
    }
};
