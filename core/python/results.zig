//! Results of the core → Python objects.
//!
//! A struct with a `class` becomes an object of that class. A struct with a `sequence` becomes a
//! struct sequence: a tuple whose items are also attributes with the names of its fields. A slice
//! of numbers becomes a Buffer, which takes ownership of it. A Zig tuple becomes a tuple.
//!
//! **Invariant** a conversion takes ownership of its value, also if it fails.

const std = @import("std");
const api = @import("api.zig");
const counting = @import("counting.zig");
const documents = @import("documents.zig");
const learner = @import("learner.zig");
const load = @import("load.zig");
const object_ = @import("object.zig");
const Buffer = @import("buffer.zig").Buffer;
const Call = object_.Call;
const Error = object_.Error;
const Object = api.Object;
const State = object_.State;

const gpa = object_.gpa;

/// The struct sequences of the module.
pub const types = .{
    documents.JsonLines,
    documents.Ids,
    load.Model,
    load.Spelling,
    counting.Pretokens,
    learner.Merges,
    learner.Certificate,
};

/// Bytes of an object, allocated with `gpa`.
pub const Bytes = struct { owned: []u8 };

/// Returns a new reference.
pub fn convert(call: Call, value: anytype) Error!*Object {
    const T = @TypeOf(value);
    if (T == *Object) return value;
    if (T == Bytes) {
        defer gpa.free(value.owned);
        return bytesOf(value.owned);
    }
    switch (@typeInfo(T)) {
        .void => return api.none(),
        .bool => return api.boolean(value),
        .int => |int| {
            const made = if (int.signedness == .signed)
                api.PyLong_FromLongLong(value)
            else
                api.PyLong_FromUnsignedLongLong(value);
            return made orelse error.Raised;
        },
        .optional => return if (value) |some| convert(call, some) else api.none(),
        .pointer => return Buffer.create(call.state(), value),
        .@"struct" => {
            if (@hasDecl(T, "class")) return object_.Object(T).create(call.state(), value);
            return sequence(call, value);
        },
        else => comptime unreachable,
    }
}

/// Returns a struct sequence, or a tuple for a tuple.
fn sequence(call: Call, value: anytype) Error!*Object {
    const T = @TypeOf(value);
    const names = comptime std.meta.fieldNames(T);
    var items: [names.len]*Object = undefined;
    var failure: ?Error = null;
    var done: usize = 0;
    inline for (names) |name| {
        // After a failure the remaining values are still converted, to release them.
        if (convert(call, @field(value, name))) |item| {
            items[done] = item;
            done += 1;
        } else |reason| failure = failure orelse reason;
    }
    const made = if (failure == null) newSequence(T, call) else null;
    if (made == null) {
        for (items[0..done]) |item| api.Py_DecRef(item);
        return failure orelse error.Raised;
    }
    for (items, 0..) |item, index| {
        if (@hasDecl(T, "sequence")) {
            api.PyStructSequence_SetItem(made.?, @intCast(index), item);
        } else _ = api.PyTuple_SetItem(made.?, @intCast(index), item);
    }
    return made.?;
}

fn newSequence(comptime T: type, call: Call) ?*Object {
    if (!@hasDecl(T, "sequence")) return api.PyTuple_New(std.meta.fieldNames(T).len);
    const index = comptime for (types, 0..) |Type, index| {
        if (Type == T) break index;
    } else unreachable;
    return api.PyStructSequence_New(call.state().results[index].?);
}

/// Returns the new type of a struct sequence.
pub fn typeOf(comptime T: type) ?*api.Type {
    const names = comptime std.meta.fieldNames(T);
    const fields = comptime blk: {
        var list: [names.len + 1]api.SequenceField = @splat(.{});
        for (names, list[0..names.len]) |name, *field| field.name = name;
        break :blk list;
    };
    return api.PyStructSequence_NewType(&(struct {
        const spec: api.SequenceSpec = .{
            .name = "tokenmill._native." ++ T.sequence,
            .fields = &fields,
            .length = names.len,
        };
    }.spec));
}

pub fn bytesOf(bytes: []const u8) Error!*Object {
    return api.PyBytes_FromStringAndSize(bytes.ptr, @intCast(bytes.len)) orelse error.Raised;
}

/// Returns a list of the values of `items`, converted one by one.
pub fn listOf(call: Call, items: anytype) Error!*Object {
    const list = api.PyList_New(@intCast(items.len)) orelse return error.Raised;
    errdefer api.Py_DecRef(list);
    for (items, 0..) |item, index| {
        _ = api.PyList_SetItem(list, @intCast(index), try convert(call, item));
    }
    return list;
}
