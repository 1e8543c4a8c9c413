//! Two buffers → a large_list<uint32> in Arrow's C data interface, without a copy.
//!
//! Layout and ownership: arrow.apache.org/docs/format/CDataInterface.html. A consumer may move the
//! child out and outlive the parent, so each node has its own reference to its memory.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const gpa = buffer.gpa;

const Schema = extern struct {
    format: [*:0]const u8,
    name: [*:0]const u8 = "",
    metadata: ?[*]const u8 = null,
    /// 2: nullable, like Arrow's own constructors.
    flags: i64 = 2,
    child_count: i64 = 0,
    children: ?[*]*Schema = null,
    dictionary: ?*Schema = null,
    release: ?*const fn (*Schema) callconv(.c) void,
    private: ?*anyopaque = null,
};

const Array = extern struct {
    length: i64,
    null_count: i64 = 0,
    offset: i64 = 0,
    buffer_count: i64 = 2,
    child_count: i64 = 0,
    buffers: [*]?*const anyopaque,
    children: ?[*]*Array = null,
    dictionary: ?*Array = null,
    release: ?*const fn (*Array) callconv(.c) void,
    private: ?*anyopaque = null,
};

/// Additional data of a struct. A consumer moves the struct, but this stays until release.
const SchemaPrivate = struct { child: Schema, children: [1]*Schema };
const ArrayPrivate = struct {
    memory: *buffer.Memory,
    buffers: [2]?*const anyopaque,
    child: ?Array = null,
    children: [1]*Array = undefined,
};

/// Returns a tuple (schema capsule, array capsule) for the lists `ids[offsets[i]..offsets[i + 1]]`.
pub fn capsules(ids: *api.Object, offsets: *api.Object) ?*api.Object {
    const pair = api.PyTuple_New(2) orelse return null;
    const narrow = buffer.Instance.of(ids).memory.?.items == .u16;
    const schema = schemaCapsule(if (narrow) "S" else "I") orelse {
        api.Py_DecRef(pair);
        return null;
    };
    _ = api.PyTuple_SetItem(pair, 0, schema);
    const array = arrayCapsule(ids, offsets) orelse {
        api.Py_DecRef(pair);
        return null;
    };
    _ = api.PyTuple_SetItem(pair, 1, array);
    return pair;
}

fn schemaCapsule(item_format: [*:0]const u8) ?*api.Object {
    const private = gpa.create(SchemaPrivate) catch return api.PyErr_NoMemory();
    private.child = .{ .format = item_format, .name = "item", .release = releaseChildSchema };
    private.children = .{&private.child};
    const schema: Schema = .{
        .format = "+L",
        .child_count = 1,
        .children = &private.children,
        .release = releaseSchema,
        .private = private,
    };
    return capsuleOf(Schema, schema, "arrow_schema");
}

fn arrayCapsule(ids: *api.Object, offsets: *api.Object) ?*api.Object {
    var list = arrayOf(offsets, buffer.Instance.of(offsets).shape - 1) orelse return null;
    const private: *ArrayPrivate = @ptrCast(@alignCast(list.private.?));
    private.child = arrayOf(ids, buffer.Instance.of(ids).shape) orelse {
        releaseArray(&list);
        return null;
    };
    private.children = .{&private.child.?};
    list.child_count = 1;
    list.children = &private.children;
    return capsuleOf(Array, list, "arrow_array");
}

fn arrayOf(owner: *api.Object, length: api.Ssize) ?Array {
    const private = gpa.create(ArrayPrivate) catch {
        _ = api.PyErr_NoMemory();
        return null;
    };
    const memory = buffer.Instance.of(owner).memory.?;
    memory.retain();
    private.* = .{ .memory = memory, .buffers = .{ null, memory.data() } };
    return .{
        .length = length,
        .buffers = &private.buffers,
        .release = releaseArray,
        .private = private,
    };
}

/// Returns a capsule with a copy of a struct. It releases the struct unless a consumer has moved
/// it.
fn capsuleOf(comptime T: type, value: T, comptime name: [:0]const u8) ?*api.Object {
    const destroy = struct {
        fn destroy(capsule: *api.Object) callconv(.c) void {
            const shell: *T = @ptrCast(@alignCast(api.PyCapsule_GetPointer(capsule, name).?));
            if (shell.release) |release| release(shell);
            gpa.destroy(shell);
        }
    }.destroy;
    var moved = value;
    const shell = gpa.create(T) catch {
        moved.release.?(&moved);
        return api.PyErr_NoMemory();
    };
    shell.* = value;
    return api.PyCapsule_New(shell, name, destroy) orelse {
        shell.release.?(shell);
        gpa.destroy(shell);
        return null;
    };
}

// The formats are constants, so a moved child owns no memory.
fn releaseChildSchema(schema: *Schema) callconv(.c) void {
    schema.release = null;
}

fn releaseSchema(schema: *Schema) callconv(.c) void {
    gpa.destroy(@as(*SchemaPrivate, @ptrCast(@alignCast(schema.private.?))));
    schema.release = null;
}

fn releaseArray(array: *Array) callconv(.c) void {
    const private: *ArrayPrivate = @ptrCast(@alignCast(array.private.?));
    if (private.child) |*child| {
        if (child.release) |release| release(child);
    }
    private.memory.release();
    gpa.destroy(private);
    array.release = null;
}
