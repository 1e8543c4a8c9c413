//! Numbers of the core → a Python buffer that owns them: numpy looks at them without a copy.

const std = @import("std");
const api = @import("api.zig");

pub const gpa = if (@import("builtin").link_libc) std.heap.c_allocator else std.heap.smp_allocator;

pub const Kind = enum(u8) {
    u16,
    u32,
    i64,

    fn itemSize(kind: Kind) usize {
        return switch (kind) {
            .u16 => 2,
            .u32 => 4,
            .i64 => 8,
        };
    }
    fn format(kind: Kind) [*:0]const u8 {
        return switch (kind) {
            .u16 => "H",
            .u32 => "I",
            .i64 => "q",
        };
    }
};

/// An instance of `tokenmill._native.Buffer`.
pub const Instance = extern struct {
    head: api.Object,
    bytes: ?[*]align(8) u8,
    shape: api.Ssize,
    strides: api.Ssize,
    kind: Kind,

    pub fn of(object: *api.Object) *Instance {
        return @ptrCast(@alignCast(object));
    }
    pub fn data(self: *Instance) *anyopaque {
        return if (self.bytes) |bytes| bytes else @ptrCast(&empty);
    }
};

var empty: u64 align(64) = 0;

/// Takes over `items`, which were allocated with `gpa`; they are freed when the call fails.
pub fn create(buffer_type: *api.Type, comptime T: type, items: []T) ?*api.Object {
    const object = api.PyType_GenericAlloc(buffer_type, 0) orelse {
        gpa.free(items);
        return null;
    };
    const self = Instance.of(object);
    self.bytes = if (items.len == 0) null else @ptrCast(@alignCast(items.ptr));
    if (items.len == 0) gpa.free(items);
    self.shape = @intCast(items.len);
    self.strides = @sizeOf(T);
    self.kind = switch (T) {
        u16 => .u16,
        u32 => .u32,
        i64 => .i64,
        else => @compileError("no buffer of this type"),
    };
    return object;
}

fn dealloc(object: *api.Object) callconv(.c) void {
    const self = Instance.of(object);
    const len: usize = @intCast(self.shape);
    if (self.bytes) |bytes| switch (self.kind) {
        inline else => |kind| {
            const T = switch (kind) {
                .u16 => u16,
                .u32 => u32,
                .i64 => i64,
            };
            gpa.free(@as([*]T, @ptrCast(@alignCast(bytes)))[0..len]);
        },
    };
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
    const wants_strides = flags & api.BUF_STRIDES == api.BUF_STRIDES;
    api.Py_IncRef(object);
    view.* = .{
        .buf = self.data(),
        .obj = object,
        .len = self.shape * @as(api.Ssize, @intCast(self.kind.itemSize())),
        .itemsize = @intCast(self.kind.itemSize()),
        .readonly = 0,
        .ndim = 1,
        .format = if (flags & api.BUF_FORMAT != 0) self.kind.format() else null,
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
