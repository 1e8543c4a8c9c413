//! A text and its ids as a Python object: `tokenmill._native.Session`.
//!
//! A long change runs without the GIL. Meanwhile the session is busy, and any other call on it is
//! an error. Waiting instead would deadlock if a signal handler makes the call.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const fronts = @import("fronts.zig");
const Encoder = @import("../encode/encoder.zig").Encoder;
const Session = @import("../session.zig").Session;
const Text = @import("text.zig").Text;

const gpa = buffer.gpa;
const Args = core_.Args;
const Core = core_.Core;
const Object = api.Object;

/// An instance of `tokenmill._native.Session`.
const Instance = extern struct {
    head: Object,
    /// Kept alive, since the session uses its tokenizer.
    core: ?*Object,
    session: ?*Session,
    is_busy: bool,

    fn of(object: *Object) *Instance {
        return @ptrCast(@alignCast(object));
    }
};

/// session(allowed) → Session of an empty text; a method of Core
pub fn create(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    const allowed = core_.allowedFrom(core, args[0]) orelse return null;
    if (!fronts.allowRepeating(core, "a session")) return null;
    const made = Session.init(gpa, core.tokenizer.?, allowed) catch return api.PyErr_NoMemory();
    return wrap(self, made);
}

/// Takes ownership of `session`, which is freed if the call fails.
fn wrap(core: *Object, session: Session) ?*Object {
    var moved = session;
    const place = gpa.create(Session) catch {
        moved.deinit();
        return api.PyErr_NoMemory();
    };
    place.* = moved;
    const session_type = Core.of(core).state().session_type.?;
    const object = api.PyType_GenericAlloc(session_type, 0) orelse {
        place.deinit();
        gpa.destroy(place);
        return null;
    };
    api.Py_IncRef(core);
    const self = Instance.of(object);
    self.core = core;
    self.session = place;
    self.is_busy = false;
    return object;
}

fn dealloc(object: *Object) callconv(.c) void {
    const self = Instance.of(object);
    if (self.session) |session| {
        session.deinit();
        gpa.destroy(session);
    }
    api.Py_DecRef(self.core);
    const session_type = self.head.type;
    api.PyObject_Free(object);
    // An instance of a heap type owns a reference to its type.
    api.Py_DecRef(@ptrCast(@alignCast(session_type)));
}

/// Returns the session if no other thread is changing it; otherwise an exception is set.
fn idle(object: *Object) ?*Session {
    const self = Instance.of(object);
    if (!self.is_busy) return self.session.?;
    api.PyErr_SetString(
        api.runtimeError(),
        "another thread is changing this session; give each thread its own with copy()",
    );
    return null;
}

const Goal = union(enum) { replace_from: usize, update };

fn change(object: *Object, goal: Goal, text: []const u8) ?*Object {
    const self = Instance.of(object);
    const core = Core.of(self.core.?);
    const session = self.session.?;
    var encoder: Encoder = .init(gpa, core.tokenizer.?);
    defer encoder.deinit();
    const again = switch (goal) {
        .replace_from => |cut| session.bytesAfterCheckpoint(cut),
        .update => 0,
    };
    const is_short = text.len + again < core_.gil_bytes;
    const kept = if (is_short) run(session, &encoder, goal, text) else blk: {
        self.is_busy = true;
        defer self.is_busy = false;
        var unlocked: core_.Unlocked = .begin();
        defer unlocked.end();
        encoder.merger.poll = unlocked.poll();
        break :blk run(session, &encoder, goal, text);
    };
    return api.PyLong_FromUnsignedLongLong(kept catch |failure| {
        return core_.failEncoding(core, failure, encoder.merger.missing_byte);
    });
}

fn run(session: *Session, encoder: *Encoder, goal: Goal, text: []const u8) !usize {
    return switch (goal) {
        .replace_from => |cut| session.replace(encoder, cut, text),
        .update => session.update(encoder, text),
    };
}

/// append(text) → the number of leading ids that stay unchanged
fn append(self: *Object, args: Args) ?*Object {
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    // Reading the text may run Python code, which may use the session.
    const session = idle(self) orelse return null;
    return change(self, .{ .replace_from = session.text().len }, text.bytes);
}

/// replace_from(byte, text) → the number of leading ids that stay unchanged
fn replaceFrom(self: *Object, args: Args) ?*Object {
    const cut: usize = @intCast(api.PyLong_AsLongLong(args[0]));
    var text = Text.from(args[1]) orelse return null;
    defer text.release();
    const session = idle(self) orelse return null;
    return change(self, .{ .replace_from = @min(cut, session.text().len) }, text.bytes);
}

/// update(text) → the number of leading ids that stay unchanged
fn update(self: *Object, args: Args) ?*Object {
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    _ = idle(self) orelse return null;
    return change(self, .update, text.bytes);
}

/// start_of_last(count) → the byte offset of the last `count` characters
fn startOfLast(self: *Object, args: Args) ?*Object {
    const session = idle(self) orelse return null;
    const wanted: usize = @intCast(api.PyLong_AsLongLong(args[0]));
    return api.PyLong_FromUnsignedLongLong(session.startOfLast(@min(wanted, session.characters)));
}

/// ids(start, end) → list
fn idList(self: *Object, args: Args) ?*Object {
    const session = idle(self) orelse return null;
    const slice = sliceOf(session, args);
    return Core.of(Instance.of(self).core.?).ints.?.listOf(slice);
}

/// buffer(start, end) → Buffer of u32, a copy
fn idBuffer(self: *Object, args: Args) ?*Object {
    const session = idle(self) orelse return null;
    const copied = gpa.dupe(u32, sliceOf(session, args)) catch return api.PyErr_NoMemory();
    session.inner().tokenizer.vocabulary.publish(copied);
    const state = Core.of(Instance.of(self).core.?).state();
    return buffer.create(state.buffer_type.?, .u32, copied);
}

fn sliceOf(session: *const Session, args: Args) []const u32 {
    const all = session.inner().ids.items;
    const end = @min(@as(usize, @intCast(api.PyLong_AsLongLong(args[1]))), all.len);
    const start: usize = @intCast(api.PyLong_AsLongLong(args[0]));
    return all[@min(start, end)..end];
}

/// text() → bytes
fn textBytes(self: *Object, _: Args) ?*Object {
    const session = idle(self) orelse return null;
    const text = session.text();
    return api.PyBytes_FromStringAndSize(text.ptr, @intCast(text.len));
}

/// text_str() → str
fn textStr(self: *Object, _: Args) ?*Object {
    const session = idle(self) orelse return null;
    const text = session.text();
    return api.PyUnicode_DecodeUTF8(text.ptr, @intCast(text.len), null);
}

/// copy() → Session
fn copy(self: *Object, _: Args) ?*Object {
    const session = idle(self) orelse return null;
    const made = session.clone() catch return api.PyErr_NoMemory();
    return wrap(Instance.of(self).core.?, made);
}

/// count(), bytes(), characters(), bytes_encoded() → int
fn number(comptime what: enum { ids, bytes, characters, encoded }) fn (*Object, Args) ?*Object {
    return struct {
        fn get(self: *Object, _: Args) ?*Object {
            const session = idle(self) orelse return null;
            return api.PyLong_FromUnsignedLongLong(switch (what) {
                .ids => session.inner().ids.items.len,
                .bytes => session.text().len,
                .characters => session.characters,
                .encoded => session.inner().bytes_encoded,
            });
        }
    }.get;
}

const methods = [_]api.Method{
    core_.method("append", 1, append),
    core_.method("replace_from", 2, replaceFrom),
    core_.method("update", 1, update),
    core_.method("start_of_last", 1, startOfLast),
    core_.method("ids", 2, idList),
    core_.method("buffer", 2, idBuffer),
    core_.method("text", 0, textBytes),
    core_.method("text_str", 0, textStr),
    core_.method("copy", 0, copy),
    core_.method("count", 0, number(.ids)),
    core_.method("bytes", 0, number(.bytes)),
    core_.method("characters", 0, number(.characters)),
    core_.method("bytes_encoded", 0, number(.encoded)),
    .{},
};
const slots = [_]api.TypeSlot{
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&dealloc) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&methods) },
    .{},
};
pub const spec: api.TypeSpec = .{
    .name = "tokenmill._native.Session",
    .basicsize = @sizeOf(Instance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_DISALLOW_INSTANTIATION | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &slots,
};
