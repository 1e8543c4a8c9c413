//! Numbers of the core → a Python buffer that owns them. numpy reads them without a copy.

const std = @import("std");
const api = @import("api.zig");

pub const gpa = if (@import("builtin").link_libc) std.heap.c_allocator else std.heap.smp_allocator;

pub const Kind = enum(u8) {
    u8,
    u16,
    u32,
    u64,
    i64,

    fn itemSize(kind: Kind) usize {
        return switch (kind) {
            .u8 => 1,
            .u16 => 2,
            .u32 => 4,
            .u64, .i64 => 8,
        };
    }
    fn format(kind: Kind) [*:0]const u8 {
        return switch (kind) {
            .u8 => "B",
            .u16 => "H",
            .u32 => "I",
            .u64 => "Q",
            .i64 => "q",
        };
    }
};

/// Numbers with a reference count. The users are the buffer, and Arrow arrays, which are released
/// on any thread and even after the interpreter has ended, so Python's reference count cannot be
/// used.
pub const Memory = struct {
    users: std.atomic.Value(usize),
    items: Items,

    pub const Items = union(Kind) { u8: []u8, u16: []u16, u32: []u32, u64: []u64, i64: []i64 };

    pub fn retain(self: *Memory) void {
        _ = self.users.fetchAdd(1, .monotonic);
    }
    pub fn release(self: *Memory) void {
        if (self.users.fetchSub(1, .acq_rel) != 1) return;
        switch (self.items) {
            inline else => |items| gpa.free(items),
        }
        gpa.destroy(self);
    }
    pub fn data(self: *const Memory) *anyopaque {
        return switch (self.items) {
            inline else => |items| if (items.len > 0) items.ptr else @ptrCast(&empty),
        };
    }
};

/// An instance of `tokenmill._native.Buffer`.
pub const Instance = extern struct {
    head: api.Object,
    memory: ?*Memory,
    shape: api.Ssize,
    strides: api.Ssize,

    pub fn of(object: *api.Object) *Instance {
        return @ptrCast(@alignCast(object));
    }
};

/// The address of an empty buffer, since some consumers reject null.
var empty: u64 align(64) = 0;

/// Takes ownership of `items`, which must be allocated with `gpa`. They are freed if the call
/// fails.
pub fn create(buffer_type: *api.Type, comptime kind: Kind, items: anytype) ?*api.Object {
    const memory = gpa.create(Memory) catch {
        gpa.free(items);
        return api.PyErr_NoMemory();
    };
    memory.* = .{ .users = .init(1), .items = @unionInit(Memory.Items, @tagName(kind), items) };
    const object = api.PyType_GenericAlloc(buffer_type, 0) orelse {
        memory.release();
        return null;
    };
    const self = Instance.of(object);
    self.memory = memory;
    self.shape = @intCast(items.len);
    self.strides = @intCast(kind.itemSize());
    return object;
}

fn dealloc(object: *api.Object) callconv(.c) void {
    const self = Instance.of(object);
    if (self.memory) |memory| memory.release();
    const buffer_type = self.head.type;
    api.PyObject_Free(object);
    // An instance of a heap type owns a reference to its type.
    api.Py_DecRef(@ptrCast(@alignCast(buffer_type)));
}

fn length(object: *api.Object) callconv(.c) api.Ssize {
    return Instance.of(object).shape;
}

fn get(object: *api.Object, view: *api.Buffer, flags: c_int) callconv(.c) c_int {
    const self = Instance.of(object);
    const kind: Kind = self.memory.?.items;
    const wants_strides = flags & api.BUF_STRIDES == api.BUF_STRIDES;
    api.Py_IncRef(object);
    view.* = .{
        .buf = self.memory.?.data(),
        .obj = object,
        .len = self.shape * self.strides,
        .itemsize = self.strides,
        .readonly = 0,
        .ndim = 1,
        .format = if (flags & api.BUF_FORMAT != 0) kind.format() else null,
        .shape = if (flags & api.BUF_ND != 0) @ptrCast(&self.shape) else null,
        .strides = if (wants_strides) @ptrCast(&self.strides) else null,
    };
    return 0;
}

const slots = [_]api.TypeSlot{
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&dealloc) },
    .{ .slot = api.sq_length, .function = @ptrCast(&length) },
    .{ .slot = api.bf_getbuffer, .function = @ptrCast(&get) },
    .{},
};
pub const spec: api.TypeSpec = .{
    .name = "tokenmill._native.Buffer",
    .basicsize = @sizeOf(Instance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_DISALLOW_INSTANTIATION | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &slots,
};
