//! A tokenizer as a Python object: `tokenmill._native.Core`.
//!
//! It converts and checks arguments, and contains no other logic. Work on more than `gil_bytes` of
//! text runs without the GIL, and every object that is read meanwhile is kept alive here.

const std = @import("std");
const api = @import("api.zig");
const batches = @import("batches.zig");
const buffer = @import("buffer.zig");
const encoder_ = @import("../encode/encoder.zig");
const platform = @import("../platform.zig");
const Tokenizer = @import("../encode/tokenizer.zig").Tokenizer;
const pretokens = @import("../pretokens.zig");
const session = @import("session.zig");
const spans = @import("spans.zig");
const truncate = @import("truncate.zig");
const Text = @import("text.zig").Text;
const tokens = @import("tokens.zig");
const Ints = @import("lists.zig").Ints;

const gpa = buffer.gpa;
const Object = api.Object;
pub const Args = [*]const *Object;

/// For shorter texts, releasing the GIL costs more than it gains.
pub const gil_bytes = 2048;

/// The ids of texts up to this length are collected on the stack.
const short_text_len = 2048;

/// The state of the module: its types, and the exceptions of tokenmill.errors.
pub const State = struct {
    core_type: ?*api.Type = null,
    buffer_type: ?*api.Type = null,
    session_type: ?*api.Type = null,
    vocabulary_error: ?*Object = null,
    unknown_token_error: ?*Object = null,
    pattern_error: ?*Object = null,
    counter_type: ?*api.Type = null,
    inventory_type: ?*api.Type = null,
    learner_type: ?*api.Type = null,
    counts_file_type: ?*api.Type = null,
    checksum_type: ?*api.Type = null,
    input_error: ?*Object = null,
};

/// An instance of `tokenmill._native.Core`: an immutable tokenizer.
pub const Core = extern struct {
    head: Object,
    tokenizer: ?*Tokenizer,
    ints: ?*Ints,

    pub fn of(object: *Object) *Core {
        return @ptrCast(@alignCast(object));
    }
    pub fn state(self: *Core) *State {
        return @ptrCast(@alignCast(api.PyType_GetModuleState(self.head.type).?));
    }

    /// Takes ownership of `tokenizer`, which is freed if the call fails.
    pub fn create(core_type: *api.Type, tokenizer: Tokenizer) ?*Object {
        var moved = tokenizer;
        const object = api.PyType_GenericAlloc(core_type, 0) orelse {
            moved.deinit(gpa);
            return null;
        };
        const self = Core.of(object);
        self.fill(tokenizer) catch {
            moved.deinit(gpa);
            api.Py_DecRef(object);
            return api.PyErr_NoMemory();
        };
        return object;
    }

    fn fill(self: *Core, tokenizer: Tokenizer) !void {
        const place = try gpa.create(Tokenizer);
        errdefer gpa.destroy(place);
        const ints = try gpa.create(Ints);
        errdefer gpa.destroy(ints);
        ints.* = try .init(tokenizer.vocabulary.ids_end, tokenizer.vocabulary.public);
        place.* = tokenizer;
        self.tokenizer = place;
        self.ints = ints;
    }
};

fn dealloc(object: *Object) callconv(.c) void {
    const self = Core.of(object);
    if (self.ints) |ints| {
        ints.deinit();
        gpa.destroy(ints);
    }
    if (self.tokenizer) |tokenizer| {
        tokenizer.deinit(gpa);
        gpa.destroy(tokenizer);
    }
    const core_type = self.head.type;
    api.PyObject_Free(object);
    // An instance of a heap type owns a reference to its type.
    api.Py_DecRef(@ptrCast(@alignCast(core_type)));
}

pub fn fail(exception: *Object, comptime format: []const u8, values: anytype) ?*Object {
    var message: [512]u8 = undefined;
    const text = std.fmt.bufPrintZ(&message, format, values) catch "message too long";
    api.PyErr_SetString(exception, text);
    return null;
}

/// Reads a pre-tokenizer: the name of a hand-written scanner as str, a compiled program as bytes,
/// or stages as a tuple.
pub fn schemeFrom(state: *State, object: *Object) ?pretokens.Scheme {
    if (api.isTuple(object)) return .{ .stages = stagesFrom(state, object) orelse return null };
    if (!api.isUnicode(object)) {
        return .{ .program = programFrom(state, object) orelse return null };
    }
    var text = Text.from(object) orelse return null;
    defer text.release();
    inline for (comptime std.enums.values(pretokens.Scheme.Tag)) |tag| {
        const name = @tagName(tag);
        if (tag != .program and tag != .stages and std.mem.eql(u8, text.bytes, name)) {
            // The safe split points are computed when the vocabulary is known.
            if (tag == .safe) return .{ .safe = .whole };
            if (tag == .metaspace) return .{ .metaspace = .blanks };
            return @unionInit(pretokens.Scheme, name, {});
        }
    }
    const name = text.bytes[0..@min(text.bytes.len, 80)];
    _ = fail(api.valueError(), "unknown pre-tokenizer '{s}'", .{name});
    return null;
}

fn programFrom(state: *State, object: *Object) ?pretokens.Program {
    var text = Text.from(object) orelse return null;
    defer text.release();
    return pretokens.Program.init(gpa, text.bytes) catch |failure| {
        _ = switch (failure) {
            error.OutOfMemory => api.PyErr_NoMemory(),
            error.InvalidProgram => fail(
                state.pattern_error.?,
                "not a compiled pattern",
                .{},
            ),
        };
        return null;
    };
}

/// Reads a tuple of (program or name of a class, behaviour, invert).
fn stagesFrom(state: *State, object: *Object) ?pretokens.stages.Stages {
    const count: usize = @intCast(api.PyTuple_Size(object));
    if (count == 0 or count > stages_max) {
        _ = fail(api.valueError(), "expected 1 to {d} stages, got {d}", .{ stages_max, count });
        return null;
    }
    var list: std.ArrayList(pretokens.stages.Stage) = .empty;
    var stages: pretokens.stages.Stages = .{ .list = &.{} };
    list.ensureTotalCapacityPrecise(gpa, count) catch {
        _ = api.PyErr_NoMemory();
        return null;
    };
    for (0..count) |index| {
        const item = api.PyTuple_GetItem(object, @intCast(index)).?;
        list.appendAssumeCapacity(stageFrom(state, item) orelse {
            for (list.items) |*stage| stage.deinit(gpa);
            list.deinit(gpa);
            return null;
        });
    }
    stages.list = list.allocatedSlice();
    return stages;
}

const stages_max = 64;

fn stageFrom(state: *State, object: *Object) ?pretokens.stages.Stage {
    if (!api.isTuple(object) or api.PyTuple_Size(object) != 3) {
        _ = fail(api.typeError(), "a stage must be (program or class, behaviour, invert)", .{});
        return null;
    }
    const match = api.PyTuple_GetItem(object, 0).?;
    const named = enumFrom(pretokens.stages.Behaviour, api.PyTuple_GetItem(object, 1).?);
    const behaviour = named orelse return null;
    const invert = api.PyLong_AsLongLong(api.PyTuple_GetItem(object, 2).?);
    if (api.PyErr_Occurred() != null) return null;
    return .{
        .match = if (api.isUnicode(match))
            .{ .class = enumFrom(pretokens.stages.Class, match) orelse return null }
        else
            .{ .program = programFrom(state, match) orelse return null },
        .behaviour = behaviour,
        .invert = invert != 0,
    };
}

fn enumFrom(comptime Enum: type, object: *Object) ?Enum {
    var text = Text.from(object) orelse return null;
    defer text.release();
    if (std.meta.stringToEnum(Enum, text.bytes)) |value| return value;
    const name = text.bytes[0..@min(text.bytes.len, 80)];
    _ = fail(api.valueError(), "unknown class or behaviour '{s}' of a stage", .{name});
    return null;
}

/// Returns a copy of the native numbers in an array, or in bytes, whose memory need not be aligned.
pub fn numbersFrom(comptime Number: type, object: *Object) ?[]Number {
    const size = @sizeOf(Number);
    var view: api.Buffer = .{};
    // One-dimensional, so that the format describes the items.
    if (api.PyObject_GetBuffer(object, &view, api.BUF_FORMAT | api.BUF_ND) < 0) return null;
    defer api.PyBuffer_Release(&view);
    const len: usize = @intCast(view.len);
    const formats = comptime switch (Number) {
        u8 => "B",
        u32 => "IL",
        u64 => "QL",
        f64 => "d",
        else => unreachable,
    };
    const format = if (view.format) |some| some[0] else 'B';
    const is_array = view.itemsize == size and std.mem.indexOfScalar(u8, formats, format) != null;
    if (!(is_array or format == 'B') or len % size != 0) {
        _ = fail(api.typeError(), "an array of " ++ @typeName(Number) ++ " is expected", .{});
        return null;
    }
    const numbers = gpa.alloc(Number, len / size) catch {
        _ = api.PyErr_NoMemory();
        return null;
    };
    if (len > 0) @memcpy(std.mem.sliceAsBytes(numbers), @as([*]const u8, @ptrCast(view.buf.?)));
    return numbers;
}

pub fn failEncoding(core: *Core, failure: encoder_.Error, missing_byte: u8) ?*Object {
    return switch (failure) {
        error.OutOfMemory => api.PyErr_NoMemory(),
        // The exception that interrupted it, such as KeyboardInterrupt, is already set.
        error.Interrupted => null,
        error.MissingByte => fail(
            core.state().vocabulary_error.?,
            "the text contains byte 0x{x:0>2}, for which this vocabulary has no token; " ++
                "use a vocabulary with all 256 bytes, or remove it from the text",
            .{missing_byte},
        ),
    };
}

/// Reads None, or one byte per added token.
pub fn allowedFrom(core: *Core, object: *Object) ?(?[]const u8) {
    if (api.isNone(object)) return @as(?[]const u8, null);
    var text = Text.from(object) orelse return null;
    defer text.release();
    const count = core.tokenizer.?.preprocessor.ids.len;
    if (text.bytes.len != count) {
        const message = "got a choice of {d} added tokens, expected {d}";
        _ = fail(api.valueError(), message, .{ text.bytes.len, count });
        return null;
    }
    // The memory of a bytes object stays valid as long as the caller's reference.
    return text.bytes;
}

pub fn pairOf(first: ?*Object, second: ?*Object) ?*Object {
    return tupleOf(.{ first, second });
}

/// Takes ownership of the objects. Returns null if one of them is null.
pub fn tupleOf(objects: anytype) ?*Object {
    const made = api.PyTuple_New(objects.len);
    var is_whole = made != null;
    inline for (objects) |object| is_whole = is_whole and object != null;
    inline for (objects, 0..) |object, index| {
        if (object) |some| {
            if (is_whole) _ = api.PyTuple_SetItem(made.?, index, some) else api.Py_DecRef(some);
        }
    }
    if (is_whole) return made;
    api.Py_DecRef(made);
    return null;
}

/// A section without the GIL in which signals are still checked, so Ctrl-C ends a long call.
pub const Unlocked = struct {
    saved: ?*api.ThreadState,

    pub fn begin() Unlocked {
        return .{ .saved = api.PyEval_SaveThread() };
    }
    pub fn end(self: *Unlocked) void {
        api.PyEval_RestoreThread(self.saved);
    }
    pub fn poll(self: *Unlocked) platform.threads.Poll {
        return .{ .context = self, .function = sawSignal };
    }
    fn sawSignal(context: *anyopaque) bool {
        const self: *Unlocked = @ptrCast(@alignCast(context));
        api.PyEval_RestoreThread(self.saved);
        const raised = api.PyErr_CheckSignals() != 0;
        self.saved = api.PyEval_SaveThread();
        return raised;
    }
};

/// Encodes one text into a list or spans with `function`, without the GIL if that pays off. False
/// if an exception is set.
pub fn encodeInto(
    core: *Core,
    text: []const u8,
    allowed: ?[]const u8,
    result: anytype,
    comptime function: anytype,
) bool {
    var encoder: encoder_.Encoder = .init(gpa, core.tokenizer.?);
    defer encoder.deinit();
    const outcome = if (text.len < gil_bytes) function(&encoder, text, allowed, result) else blk: {
        var unlocked: Unlocked = .begin();
        defer unlocked.end();
        encoder.merger.poll = unlocked.poll();
        break :blk function(&encoder, text, allowed, result);
    };
    outcome catch |failure| {
        _ = failEncoding(core, failure, encoder.merger.missing_byte);
        return false;
    };
    return true;
}

/// encode(text, allowed) → list of ids
fn encode(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    const allowed = allowedFrom(core, args[1]) orelse return null;
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    var buffer_: [short_text_len + encoder_.List.room_extra]u32 = undefined;
    var sink: encoder_.List = .{ .gpa = gpa };
    const count_max = core.tokenizer.?.preprocessor.idsMax(text.bytes.len);
    if (count_max != null and count_max.? <= short_text_len) {
        // The list never exceeds this capacity.
        sink.ids = .initBuffer(&buffer_);
        if (!encodeInto(core, text.bytes, allowed, &sink, encoder_.Encoder.encode)) return null;
        return core.ints.?.listOf(sink.ids.items);
    }
    defer sink.ids.deinit(gpa);
    if (!encodeInto(core, text.bytes, allowed, &sink, encoder_.Encoder.encode)) return null;
    return core.ints.?.listOf(sink.ids.items);
}

/// decode(ids) → bytes; ids are a list of int, or a contiguous array of 64-bit integers
fn decode(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(gpa);
    if (!api.isList(args[0])) {
        var view: api.Buffer = .{};
        if (api.PyObject_GetBuffer(args[0], &view, api.BUF_SIMPLE) < 0) return null;
        defer api.PyBuffer_Release(&view);
        const numbers: [*]const i64 = @ptrCast(@alignCast(view.buf.?));
        for (numbers[0..@intCast(@divExact(view.len, 8))]) |number| {
            if (!appendBytes(core, &bytes, number)) return null;
        }
    } else {
        var index: api.Ssize = 0;
        // The length is read again each time, since converting an int may run other Python code.
        while (index < api.PyList_Size(args[0])) : (index += 1) {
            const object = api.PyList_GetItem(args[0], index).?;
            api.Py_IncRef(object);
            const number = api.PyLong_AsLongLong(object);
            api.Py_DecRef(object);
            if (number == -1 and api.PyErr_Occurred() != null) return null;
            if (!appendBytes(core, &bytes, number)) return null;
        }
    }
    return api.PyBytes_FromStringAndSize(bytes.items.ptr, @intCast(bytes.items.len));
}

fn appendBytes(core: *Core, bytes: *std.ArrayList(u8), number: i64) bool {
    const id = std.math.cast(u32, number) orelse return failId(core, number);
    const token = core.tokenizer.?.idBytes(id) orelse return failId(core, number);
    bytes.appendSlice(gpa, token) catch {
        _ = api.PyErr_NoMemory();
        return false;
    };
    return true;
}

fn failId(core: *Core, number: i64) bool {
    const vocabulary = &core.tokenizer.?.vocabulary;
    const specials_count = core.tokenizer.?.preprocessor.ids.len;
    _ = fail(
        core.state().unknown_token_error.?,
        "id {d} is not in this vocabulary, which has {d} tokens below id {d} and {d} added " ++
            "tokens; was the text encoded with another tokenizer?",
        .{ number, vocabulary.token_count, vocabulary.publicEnd(), specials_count },
    );
    return false;
}

/// A method with a fixed number of positional arguments. Any other number is a TypeError.
pub fn method(
    comptime name: [:0]const u8,
    comptime count_: api.Ssize,
    comptime function: fn (*Object, Args) ?*Object,
) api.Method {
    const checked = struct {
        fn call(self: *Object, args: Args, given: api.Ssize) callconv(.c) ?*Object {
            if (given != count_) {
                const message = name ++ " expects {d} arguments, got {d}";
                return fail(api.typeError(), message, .{ count_, given });
            }
            return function(self, args);
        }
    }.call;
    return .{ .name = name, .function = @ptrCast(&checked), .flags = api.METH_FASTCALL };
}

const methods = [_]api.Method{
    method("encode", 2, encode),
    method("encode_buffer", 4, batches.encodeBuffer),
    method("encode_with_offsets", 2, spans.encodeWithOffsets),
    method("encode_words", 2, spans.encodeWords),
    method("encode_spans", 3, spans.encodeSpans),
    method("encode_batch", 3, batches.encodeBatch),
    method("encode_ragged", 3, batches.encodeRagged),
    method("encode_block", 4, batches.encodeBlock),
    method("encode_documents", 7, batches.encodeDocuments),
    method("count", 3, batches.count),
    method("count_batch", 3, batches.countBatch),
    method("truncate", 3, truncate.truncate),
    method("session", 1, session.create),
    method("decode", 1, decode),
    method("find", 1, tokens.find),
    method("tokens", 0, tokens.tokens),
    method("empty_id", 0, tokens.emptyId),
    method("ids_end", 0, tokens.idsEnd),
    .{},
};
const slots = [_]api.TypeSlot{
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&dealloc) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&methods) },
    .{},
};
pub const spec: api.TypeSpec = .{
    .name = "tokenmill._native.Core",
    .basicsize = @sizeOf(Core),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_DISALLOW_INSTANTIATION | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &slots,
};
