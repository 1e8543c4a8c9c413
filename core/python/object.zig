//! Functions and values of the core → methods and types of Python.
//!
//! A function takes a `Call`, for a method a pointer to its value, and a struct of arguments. It
//! returns a value that results.zig converts, or raises. `Object(T)` is the heap type of a value:
//! a method has the value for itself until it returns, also while it works without the GIL. Any
//! other call on the object is an error meanwhile. Waiting would be a deadlock if a signal handler
//! makes the call.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const results = @import("results.zig");
const Failure = @import("../failure.zig").Failure;
const Kind = @import("../failure.zig").Kind;
const threads = @import("../platform.zig").threads;

pub const gpa = if (@import("builtin").link_libc) std.heap.c_allocator else std.heap.smp_allocator;

/// A Python exception is set.
pub const Raised = error{Raised};
pub const Error = Raised || error{OutOfMemory};

/// The types of objects in the module, by the name of their class.
pub const Class = enum {
    Core,
    Buffer,
    Session,
    Counter,
    Inventory,
    Learner,
    CountsFile,
    Checksum,
};

/// The state of the module: its types, and the exceptions of tokenmill.errors.
pub const State = struct {
    classes: std.EnumArray(Class, ?*api.Type) = .initFill(null),
    results: [results.types.len]?*api.Type = @splat(null),
    exceptions: std.EnumArray(Exception, ?*api.Object) = .initFill(null),

    pub const Exception = enum {
        VocabularyError,
        UnknownTokenError,
        PatternError,
        InputError,
    };

    pub fn of(module: *api.Object) *State {
        return @ptrCast(@alignCast(api.PyModule_GetState(module).?));
    }

    /// Releases all types and exceptions.
    pub fn deinit(self: *State) void {
        for (self.classes.values) |class| api.Py_DecRef(@ptrCast(@alignCast(class)));
        for (self.results) |class| api.Py_DecRef(@ptrCast(@alignCast(class)));
        for (self.exceptions.values) |exception| api.Py_DecRef(exception);
        self.* = .{};
    }
};

/// A call of a native function or method.
pub const Call = struct {
    owner: union(enum) { module: *api.Object, class: *api.Type },

    pub fn state(self: Call) *State {
        return switch (self.owner) {
            .module => |module| .of(module),
            .class => |class| @ptrCast(@alignCast(api.PyType_GetModuleState(class).?)),
        };
    }

    /// Sets the exception of a kind of failure.
    pub fn fail(self: Call, kind: Kind, comptime format: []const u8, values: anytype) Raised {
        return self.raise(.init(kind, format, values));
    }

    pub fn raise(self: Call, failure: Failure) Raised {
        const exception = switch (failure.kind) {
            // The exception, such as KeyboardInterrupt, is already set.
            .interrupted => return error.Raised,
            .memory => {
                _ = api.PyErr_NoMemory();
                return error.Raised;
            },
            .type => api.typeError(),
            .value => api.valueError(),
            .busy => api.runtimeError(),
            .system => api.osError(),
            .vocabulary => self.state().exceptions.get(.VocabularyError).?,
            .unknown_token => self.state().exceptions.get(.UnknownTokenError).?,
            .pattern => self.state().exceptions.get(.PatternError).?,
            .input => self.state().exceptions.get(.InputError).?,
        };
        const text = failure.text();
        // Part of a character may be at the end of a truncated name.
        const message = api.PyUnicode_DecodeUTF8(text.ptr, @intCast(text.len), "replace") orelse
            return error.Raised;
        defer api.Py_DecRef(message);
        api.PyErr_SetObject(exception, message);
        return error.Raised;
    }
};

/// A section without the GIL in which signals are still checked, so Ctrl-C ends a long call.
pub const Unlocked = struct {
    saved: ?*api.ThreadState,

    /// For shorter texts, releasing the GIL costs more than it gains.
    pub const bytes_min = 2048;

    pub fn begin() Unlocked {
        return .{ .saved = api.PyEval_SaveThread() };
    }
    pub fn end(self: *Unlocked) void {
        api.PyEval_RestoreThread(self.saved);
    }
    pub fn poll(self: *Unlocked) threads.Poll {
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

/// Calls a function without the GIL.
pub fn unlocked(comptime work: anytype, args: anytype) Return(work) {
    var section: Unlocked = .begin();
    defer section.end();
    return @call(.auto, work, args);
}

/// Calls a function without the GIL, with a poll as an additional argument.
pub fn polled(comptime work: anytype, args: anytype) Return(work) {
    var section: Unlocked = .begin();
    defer section.end();
    return @call(.auto, work, args ++ .{section.poll()});
}

fn Return(comptime work: anytype) type {
    return @typeInfo(@TypeOf(work)).@"fn".return_type.?;
}

/// The heap type of `T`. `T.class` is its name, and `T.deinit` or `T.release` frees it. Without
/// `T.busy_text` it is immutable, and several threads use it at the same time.
pub fn Object(comptime T: type) type {
    return extern struct {
        const Self = @This();
        pub const Value = T;

        head: api.Object,
        value: ?*T,
        is_busy: bool,

        pub fn of(object: *api.Object) *Self {
            return @ptrCast(@alignCast(object));
        }

        /// Takes ownership of `value`, also if the call fails.
        pub fn create(state: *State, value: T) Error!*api.Object {
            var moved = value;
            const place = gpa.create(T) catch {
                moved.deinit();
                return error.OutOfMemory;
            };
            place.* = moved;
            return wrap(state, place);
        }

        /// The same for a value that is allocated with `gpa`.
        pub fn wrap(state: *State, place: *T) Error!*api.Object {
            errdefer free(place);
            const object = api.PyType_GenericAlloc(state.classes.get(T.class).?, 0) orelse
                return error.Raised;
            of(object).value = place;
            return object;
        }

        fn free(value: *T) void {
            // It has other users, too.
            if (@hasDecl(T, "release")) return value.release();
            value.deinit();
            gpa.destroy(value);
        }

        fn dealloc(object: *api.Object) callconv(.c) void {
            const class = object.type;
            if (of(object).value) |value| free(value);
            api.PyObject_Free(object);
            // An instance of a heap type owns a reference to its type.
            api.Py_DecRef(@ptrCast(@alignCast(class)));
        }

        /// Returns the value, which is busy until `giveBack`.
        pub fn borrow(self: *Self, call: Call) Raised!*T {
            if (@hasDecl(T, "busy_text")) {
                if (self.is_busy) return call.fail(.busy, T.busy_text, .{});
                self.is_busy = true;
            }
            return self.value.?;
        }

        pub fn giveBack(self: *Self) void {
            self.is_busy = false;
        }

        /// The description of the type, with a null-terminated list of methods. `new` and `slots`
        /// may be empty.
        pub fn spec(
            comptime methods: []const api.Method,
            comptime new: ?*const anyopaque,
            comptime slots: []const api.TypeSlot,
        ) api.TypeSpec {
            const no_slot: api.TypeSlot = .{};
            const list = comptime [_]api.TypeSlot{
                .{ .slot = api.tp_dealloc, .function = @ptrCast(&dealloc) },
                .{ .slot = api.tp_methods, .function = @ptrCast(methods.ptr) },
            } ++ slots[0..slots.len].* ++ [_]api.TypeSlot{
                if (new) |some| .{ .slot = api.tp_new, .function = some } else no_slot,
                no_slot,
            };
            const static = struct {
                const list_ = list;
            };
            const not_new = if (new == null) api.TPFLAGS_DISALLOW_INSTANTIATION else 0;
            return .{
                .name = "tokenmill._native." ++ @tagName(T.class),
                .basicsize = @sizeOf(Self),
                .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_IMMUTABLETYPE | not_new,
                .slots = &static.list_,
            };
        }
    };
}

// ── Functions → methods ──────────────────────────────────────────────────────────────────────────

/// `fn (Call, Arguments) !Result` → a function of the module.
pub fn function(comptime name: [:0]const u8, comptime work: anytype) api.Method {
    return entry(name, struct {
        fn run(module: *api.Object, given: arguments.Given) Error!*api.Object {
            const call: Call = .{ .owner = .{ .module = module } };
            return finish(call, work, .{}, given, name);
        }
    }.run, true);
}

/// `fn (Call, *T, Arguments) !Result` → a method of `Object(T)`. With `*Object(T)` the object may
/// be busy.
pub fn method(comptime name: [:0]const u8, comptime work: anytype) api.Method {
    return methodOf(name, work, true);
}

/// A method without keywords, for short calls.
pub fn hot(comptime name: [:0]const u8, comptime work: anytype) api.Method {
    return methodOf(name, work, false);
}

fn methodOf(
    comptime name: [:0]const u8,
    comptime work: anytype,
    comptime has_names: bool,
) api.Method {
    const Self = @typeInfo(Parameter(work, 1)).pointer.child;
    return entry(name, struct {
        fn run(object: *api.Object, given: arguments.Given) Error!*api.Object {
            const call: Call = .{ .owner = .{ .class = object.type } };
            if (@hasDecl(Self, "Value")) return finish(call, work, .{Self.of(object)}, given, name);
            return finish(call, work, .{Object(Self).of(object)}, given, name);
        }
    }.run, has_names);
}

/// `fn (Call, Arguments) !T` → the constructor of `Object(T)`.
pub fn constructor(comptime T: type, comptime work: anytype) *const anyopaque {
    return @ptrCast(&struct {
        fn new(class: *api.Type, tuple: *api.Object, dict: ?*api.Object) callconv(.c) ?*api.Object {
            const call: Call = .{ .owner = .{ .class = class } };
            const given: arguments.Given = .{ .objects = .{ .tuple = tuple }, .names = dict };
            return orNull(finish(call, work, .{}, given, @tagName(T.class)));
        }
    }.new);
}

fn entry(comptime name: [:0]const u8, comptime run: anytype, comptime has_names: bool) api.Method {
    const Vector = [*]const *api.Object;
    const entries = struct {
        fn named(
            self: *api.Object,
            args: Vector,
            count: api.Ssize,
            names: ?*api.Object,
        ) callconv(.c) ?*api.Object {
            const objects: arguments.Given.Objects = .{ .vector = args[0..@intCast(count)] };
            return orNull(run(self, .{ .objects = objects, .names = names }));
        }
        fn positional(self: *api.Object, args: Vector, count: api.Ssize) callconv(.c) ?*api.Object {
            const objects: arguments.Given.Objects = .{ .vector = args[0..@intCast(count)] };
            return orNull(run(self, .{ .objects = objects, .names = null }));
        }
    };
    return .{
        .name = name,
        .function = if (has_names) @ptrCast(&entries.named) else @ptrCast(&entries.positional),
        .flags = if (has_names) api.METH_FASTCALL | api.METH_KEYWORDS else api.METH_FASTCALL,
    };
}

/// Reads the arguments, borrows the value of the object in `self` if there is one, calls `work` and
/// converts its result. Reading may run Python code that uses the object.
inline fn finish(
    call: Call,
    comptime work: anytype,
    self: anytype,
    given: arguments.Given,
    comptime name: []const u8,
) Error!*api.Object {
    const has_arguments = comptime parameterCount(work) == self.len + 2;
    const Arguments = if (has_arguments) Parameter(work, self.len + 1) else struct {};
    var read = try arguments.read(Arguments, call, given, name);
    defer arguments.release(Arguments, &read);
    const rest = if (has_arguments) .{read} else .{};
    if (self.len == 0) return results.convert(call, try @call(.auto, work, .{call} ++ rest));
    const object = self[0];
    if (Parameter(work, 1) == @TypeOf(object)) {
        return results.convert(call, try @call(.auto, work, .{ call, object } ++ rest));
    }
    const value = try object.borrow(call);
    defer object.giveBack();
    return results.convert(call, try @call(.auto, work, .{ call, value } ++ rest));
}

fn Parameter(comptime work: anytype, comptime index: usize) type {
    return @typeInfo(@TypeOf(work)).@"fn".params[index].type.?;
}

fn parameterCount(comptime work: anytype) usize {
    return @typeInfo(@TypeOf(work)).@"fn".params.len;
}

inline fn orNull(outcome: Error!*api.Object) ?*api.Object {
    return outcome catch |failure| switch (failure) {
        error.Raised => null,
        error.OutOfMemory => api.PyErr_NoMemory(),
    };
}
