//! Counting as Python objects: `tokenmill._native.Counter` and `Inventory`.
//!
//! A counter works without the GIL. Meanwhile any other call on it is an error. Waiting would be a
//! deadlock if a signal handler makes the call.

const std = @import("std");
const api = @import("api.zig");
const batches = @import("batches.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const counts = @import("../count.zig");
const Text = @import("text.zig").Text;
const Texts = @import("text.zig").Texts;

const gpa = buffer.gpa;
const Args = core_.Args;
const Object = api.Object;

pub fn stateOf(object_type: *api.Type) *core_.State {
    return @ptrCast(@alignCast(api.PyType_GetModuleState(object_type).?));
}

/// Frees an instance of a heap type, which owns a reference to its type.
pub fn free(object: *Object) void {
    const object_type = object.type;
    api.PyObject_Free(object);
    api.Py_DecRef(@ptrCast(@alignCast(object_type)));
}

/// Returns the arguments of a constructor. If there are not `count`, an exception is set.
pub fn argumentsOf(
    comptime count: usize,
    comptime name: []const u8,
    tuple: *Object,
) ?[count]*Object {
    const given = api.PyTuple_Size(tuple);
    if (given != count) {
        const message = name ++ " takes {d} arguments, not {d}";
        _ = core_.fail(api.typeError(), message, .{ count, given });
        return null;
    }
    var arguments: [count]*Object = undefined;
    for (&arguments, 0..) |*argument, index| {
        argument.* = api.PyTuple_GetItem(tuple, @intCast(index)).?;
    }
    return arguments;
}

pub fn fail(state: *core_.State, failure: counts.Error, report: *const counts.Report) ?*Object {
    const exception = state.input_error.?;
    return switch (failure) {
        error.OutOfMemory => api.PyErr_NoMemory(),
        // The exception, such as KeyboardInterrupt, is already set.
        error.Interrupted => null,
        error.PretokenTooLong => core_.fail(
            exception,
            "a pretoken has 2 GB or more; use a pattern that cuts this text",
            .{},
        ),
        error.CountTooLarge => core_.fail(
            exception,
            "the counts add up to 2^64 or more; use smaller weights",
            .{},
        ),
        error.InvalidFile => core_.fail(
            exception,
            "{s}: {s}, at byte {d}; count again, or copy the file again",
            .{ report.path(), report.what, report.offset },
        ),
        error.FileFailed => failFile(report),
    };
}

fn failFile(report: *const counts.Report) ?*Object {
    const why = switch (report.system.?) {
        error.FileNotFound => "no such file or folder",
        error.NoSpaceLeft => "no space left on the disk",
        error.DiskQuota => "the disk quota is used up",
        error.FileTooBig => "the file is too large for this disk",
        error.AccessDenied, error.PermissionDenied => "permission denied",
        error.IsDir => "it is a folder",
        error.NotDir => "a part of the path is not a folder",
        error.ReadOnlyFileSystem => "the disk is read-only",
        error.ProcessFdQuotaExceeded => "too many open files",
        else => |other| @errorName(other),
    };
    return core_.fail(api.osError(), "{s}: {s}", .{ report.path(), why });
}

/// The bytes of a path while its file is in use.
pub fn pathFrom(object: *Object) ?Text {
    var text = Text.from(object) orelse return null;
    if (std.mem.indexOfScalar(u8, text.bytes, 0) == null) return text;
    text.release();
    _ = core_.fail(api.valueError(), "a path has no zero byte", .{});
    return null;
}

// Counter

/// An instance of `tokenmill._native.Counter`.
const CounterInstance = extern struct {
    head: Object,
    counter: ?*counts.Counter,
    is_busy: bool,
    /// Whether an addition was interrupted. Then the counts are unknown.
    is_broken: bool,

    fn of(object: *Object) *CounterInstance {
        return @ptrCast(@alignCast(object));
    }
};

/// Counter(scheme, specials, seed, ordered)
fn newCounter(object_type: *api.Type, tuple: *Object, _: ?*Object) callconv(.c) ?*Object {
    const args = argumentsOf(4, "Counter", tuple) orelse return null;
    if (!api.isList(args[1])) {
        return core_.fail(api.typeError(), "specials are a list of names", .{});
    }
    var names = Texts.from(args[1]) orelse return null;
    defer names.release(names.slices.len);
    const seed = api.PyLong_AsUnsignedLongLongMask(args[2]);
    const ordered = api.PyLong_AsLongLong(args[3]) != 0;
    const scheme = core_.schemeFrom(stateOf(object_type), args[0]) orelse return null;
    var made = counts.Counter.init(gpa, scheme, names.slices, seed, ordered) catch
        return api.PyErr_NoMemory();
    const place = gpa.create(counts.Counter) catch {
        made.deinit();
        return api.PyErr_NoMemory();
    };
    place.* = made;
    const object = api.PyType_GenericAlloc(object_type, 0) orelse {
        place.deinit();
        gpa.destroy(place);
        return null;
    };
    const self = CounterInstance.of(object);
    self.counter = place;
    self.is_busy = false;
    self.is_broken = false;
    return object;
}

fn deallocCounter(object: *Object) callconv(.c) void {
    if (CounterInstance.of(object).counter) |counter| {
        counter.deinit();
        gpa.destroy(counter);
    }
    free(object);
}

/// Returns the counter. If it cannot be used, an exception is set.
fn idle(object: *Object) ?*counts.Counter {
    const self = CounterInstance.of(object);
    if (self.is_busy) {
        api.PyErr_SetString(
            api.runtimeError(),
            "another thread is using this counter; give each thread its own",
        );
        return null;
    }
    if (self.is_broken) {
        api.PyErr_SetString(
            stateOf(object.type).input_error.?,
            "an addition to this counter did not end, so its counts are not known; " ++
                "count again with a new one",
        );
        return null;
    }
    return self.counter.?;
}

/// add(texts, threads)
fn add(self: *Object, args: Args) ?*Object {
    if (!api.isList(args[0])) return core_.fail(api.typeError(), "texts are a list", .{});
    var texts = Texts.from(args[0]) orelse return null;
    defer texts.release(texts.slices.len);
    const threads: usize = @intCast(@max(1, api.PyLong_AsLongLong(args[1])));
    return run(self, counts.Counter.add, texts.slices, threads);
}

/// add_blocks(blocks, threads): `blocks` are tuples (data, spans, whether the last one continues)
fn addBlocks(self: *Object, args: Args) ?*Object {
    if (!api.isList(args[0])) return core_.fail(api.typeError(), "blocks are a list", .{});
    var blocks: Blocks = .{};
    defer blocks.release();
    if (!blocks.fill(args[0])) return null;
    const threads: usize = @intCast(@max(1, api.PyLong_AsLongLong(args[1])));
    return run(self, counts.Counter.addBlocks, blocks.items.items, threads);
}

/// Calls a method that counts `items`, without the GIL.
fn run(self: *Object, comptime method: anytype, items: anytype, threads: usize) ?*Object {
    // Reading the items may run Python code, which may use the counter.
    const counter = idle(self) orelse return null;
    const instance = CounterInstance.of(self);
    instance.is_busy = true;
    var unlocked: core_.Unlocked = .begin();
    const outcome = method(counter, items, threads, unlocked.poll());
    unlocked.end();
    instance.is_busy = false;
    outcome catch |failure| {
        instance.is_broken = true;
        counter.clear();
        return fail(stateOf(self.type), failure, &.{});
    };
    return api.none();
}

/// Blocks of documents. Their memory is kept alive while it is read without the GIL.
const Blocks = struct {
    objects: std.ArrayList(*Object) = .empty,
    texts: std.ArrayList(Text) = .empty,
    items: std.ArrayList(counts.Block) = .empty,

    /// False when an exception is set.
    fn fill(self: *Blocks, list: *Object) bool {
        const len: usize = @intCast(api.PyList_Size(list));
        self.allocate(len) catch {
            _ = api.PyErr_NoMemory();
            return false;
        };
        for (0..len) |index| {
            // Asking for a buffer may run Python code that changes the list.
            const object = api.PyList_GetItem(list, @intCast(index)) orelse return false;
            api.Py_IncRef(object);
            self.objects.appendAssumeCapacity(object);
            if (!api.isTuple(object) or api.PyTuple_Size(object) != 3) {
                _ = core_.fail(api.typeError(), "a block is a tuple (data, spans, continues)", .{});
                return false;
            }
            const data = Text.from(api.PyTuple_GetItem(object, 0).?) orelse return false;
            self.texts.appendAssumeCapacity(data);
            const spans = api.PyTuple_GetItem(object, 1).?;
            const texts = batches.textsFrom(spans, data.bytes) orelse return false;
            const continues = api.PyObject_IsTrue(api.PyTuple_GetItem(object, 2).?);
            self.items.appendAssumeCapacity(.{ .texts = texts, .continues = continues == 1 });
            if (continues < 0) return false;
        }
        return true;
    }

    fn allocate(self: *Blocks, len: usize) !void {
        try self.objects.ensureTotalCapacity(gpa, len);
        try self.texts.ensureTotalCapacity(gpa, len);
        try self.items.ensureTotalCapacity(gpa, len);
    }

    fn release(self: *Blocks) void {
        for (self.items.items) |block| gpa.free(block.texts);
        for (self.texts.items) |*text| text.release();
        for (self.objects.items) |object| api.Py_DecRef(object);
        self.items.deinit(gpa);
        self.texts.deinit(gpa);
        self.objects.deinit(gpa);
    }
};

/// last_cut(data, names) → the last offset where a text that continues may be cut, or None
pub fn lastCut(args: Args) ?*Object {
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    if (!api.isList(args[1])) return core_.fail(api.typeError(), "names are a list", .{});
    var names = Texts.from(args[1]) orelse return null;
    defer names.release(names.slices.len);
    var specials = counts.specialsOf(gpa, names.slices) catch return api.PyErr_NoMemory();
    defer specials.deinit(gpa);
    const found = counts.findLastCut(data.bytes, &specials);
    return if (found) |cut| api.PyLong_FromUnsignedLongLong(cut) else api.none();
}

/// take() → Inventory; the counter is empty afterwards
fn take(self: *Object, _: Args) ?*Object {
    const counter = idle(self) orelse return null;
    const instance = CounterInstance.of(self);
    instance.is_busy = true;
    var unlocked: core_.Unlocked = .begin();
    const outcome = counter.take();
    unlocked.end();
    instance.is_busy = false;
    const state = stateOf(self.type);
    const inventory = outcome catch |failure| {
        // A part of it may be added up.
        instance.is_broken = true;
        counter.clear();
        return fail(state, failure, &.{});
    };
    return wrap(state.inventory_type.?, inventory);
}

/// spill(path): writes all counts to a file; the counter is empty afterwards
fn spill(self: *Object, args: Args) ?*Object {
    var path = pathFrom(args[0]) orelse return null;
    defer path.release();
    const counter = idle(self) orelse return null;
    const instance = CounterInstance.of(self);
    var report: counts.Report = .{};
    instance.is_busy = true;
    var unlocked: core_.Unlocked = .begin();
    const outcome = counter.spill(path.bytes, &report, unlocked.poll());
    unlocked.end();
    instance.is_busy = false;
    outcome catch |failure| return fail(stateOf(self.type), failure, &report);
    return api.none();
}

/// memory(), unique(), total() and open_bytes(), those of a document that continues → int
fn number(comptime what: enum { memory, unique, total, open_bytes }) fn (*Object, Args) ?*Object {
    return struct {
        fn get(self: *Object, _: Args) ?*Object {
            const counter = idle(self) orelse return null;
            return api.PyLong_FromUnsignedLongLong(switch (what) {
                .memory => counter.memory(),
                .unique => counter.unique(),
                .total => counter.total(),
                .open_bytes => counter.open.items.len,
            });
        }
    }.get;
}

const counter_methods = [_]api.Method{
    core_.method("add", 2, add),
    core_.method("add_blocks", 2, addBlocks),
    core_.method("take", 0, take),
    core_.method("spill", 1, spill),
    core_.method("memory", 0, number(.memory)),
    core_.method("unique", 0, number(.unique)),
    core_.method("total", 0, number(.total)),
    core_.method("open_bytes", 0, number(.open_bytes)),
    .{},
};
const counter_slots = [_]api.TypeSlot{
    .{ .slot = api.tp_new, .function = @ptrCast(&newCounter) },
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&deallocCounter) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&counter_methods) },
    .{},
};
pub const counter_spec: api.TypeSpec = .{
    .name = "tokenmill._native.Counter",
    .basicsize = @sizeOf(CounterInstance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &counter_slots,
};

// Inventory

/// An immutable instance of `tokenmill._native.Inventory`.
const InventoryInstance = extern struct {
    head: Object,
    inventory: ?*counts.Inventory,

    fn of(object: *Object) *InventoryInstance {
        return @ptrCast(@alignCast(object));
    }
};

/// Returns the inventory of an object, or null for another type.
pub fn inventoryOf(state: *core_.State, object: *Object) ?*const counts.Inventory {
    if (object.type != state.inventory_type.?) return null;
    return InventoryInstance.of(object).inventory.?;
}

/// Takes ownership of `inventory`, also if the call fails.
pub fn wrap(inventory_type: *api.Type, inventory: counts.Inventory) ?*Object {
    var moved = inventory;
    const place = gpa.create(counts.Inventory) catch {
        moved.deinit(gpa);
        return api.PyErr_NoMemory();
    };
    place.* = moved;
    const object = api.PyType_GenericAlloc(inventory_type, 0) orelse {
        place.deinit(gpa);
        gpa.destroy(place);
        return null;
    };
    InventoryInstance.of(object).inventory = place;
    return object;
}

/// Inventory(bytes, lengths, counts): the pretokens end to end, u32 and u64
fn newInventory(object_type: *api.Type, tuple: *Object, _: ?*Object) callconv(.c) ?*Object {
    const args = argumentsOf(3, "Inventory", tuple) orelse return null;
    const lengths = core_.numbersFrom(u32, args[1]) orelse return null;
    var made: counts.Inventory = .{ .bytes = &.{}, .lengths = lengths, .counts = &.{} };
    if (fillInventory(object_type, &made, args)) return wrap(object_type, made);
    made.deinit(gpa);
    return null;
}

fn fillInventory(object_type: *api.Type, made: *counts.Inventory, args: [3]*Object) bool {
    made.bytes = core_.numbersFrom(u8, args[0]) orelse return false;
    made.counts = core_.numbersFrom(u64, args[2]) orelse return false;
    var bytes_total: u64 = 0;
    for (made.lengths) |length| bytes_total += length;
    const exception = stateOf(object_type).input_error.?;
    if (made.counts.len != made.lengths.len) {
        const message = "{d} lengths and {d} counts are not the same entries";
        _ = core_.fail(exception, message, .{ made.lengths.len, made.counts.len });
        return false;
    }
    if (bytes_total != made.bytes.len) {
        const message = "the lengths add up to {d} bytes, and there are {d}";
        _ = core_.fail(exception, message, .{ bytes_total, made.bytes.len });
        return false;
    }
    return true;
}

fn deallocInventory(object: *Object) callconv(.c) void {
    if (InventoryInstance.of(object).inventory) |inventory| {
        inventory.deinit(gpa);
        gpa.destroy(inventory);
    }
    free(object);
}

fn inventoryLength(object: *Object) callconv(.c) api.Ssize {
    return @intCast(InventoryInstance.of(object).inventory.?.lengths.len);
}

/// arrays() → (bytes, lengths, counts) as Buffers of u8, u32 and u64, copies
fn arrays(self: *Object, _: Args) ?*Object {
    const inventory = InventoryInstance.of(self).inventory.?;
    const buffer_type = stateOf(self.type).buffer_type.?;
    const tuple = api.PyTuple_New(3) orelse return null;
    inline for (.{ "bytes", "lengths", "counts" }, .{ .u8, .u32, .u64 }, 0..) |name, kind, index| {
        const items = @field(inventory, name);
        const copied = gpa.dupe(@TypeOf(items[0]), items) catch {
            api.Py_DecRef(tuple);
            return api.PyErr_NoMemory();
        };
        const made = buffer.create(buffer_type, kind, copied) orelse {
            api.Py_DecRef(tuple);
            return null;
        };
        _ = api.PyTuple_SetItem(tuple, index, made);
    }
    return tuple;
}

/// total() → the sum of all counts
fn inventoryTotal(self: *Object, _: Args) ?*Object {
    const sum = InventoryInstance.of(self).inventory.?.total() orelse {
        const exception = stateOf(self.type).input_error.?;
        return core_.fail(exception, "the counts add up to 2^64 or more", .{});
    };
    return api.PyLong_FromUnsignedLongLong(sum);
}

/// write(path, metadata): sorted, and equal entries added up
fn write(self: *Object, args: Args) ?*Object {
    var path = pathFrom(args[0]) orelse return null;
    defer path.release();
    var metadata = Text.from(args[1]) orelse return null;
    defer metadata.release();
    const inventory = InventoryInstance.of(self).inventory.?;
    var report: counts.Report = .{};
    var unlocked: core_.Unlocked = .begin();
    const poll = unlocked.poll();
    const outcome =
        counts.writeInventory(gpa, inventory, path.bytes, metadata.bytes, &report, poll);
    unlocked.end();
    outcome catch |failure| return fail(stateOf(self.type), failure, &report);
    return api.none();
}

const inventory_methods = [_]api.Method{
    core_.method("arrays", 0, arrays),
    core_.method("total", 0, inventoryTotal),
    core_.method("write", 2, write),
    .{},
};
const inventory_slots = [_]api.TypeSlot{
    .{ .slot = api.tp_new, .function = @ptrCast(&newInventory) },
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&deallocInventory) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&inventory_methods) },
    .{ .slot = api.sq_length, .function = @ptrCast(&inventoryLength) },
    .{},
};
pub const inventory_spec: api.TypeSpec = .{
    .name = "tokenmill._native.Inventory",
    .basicsize = @sizeOf(InventoryInstance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &inventory_slots,
};
