//! The block scanners for one CPU feature level → an object file.
//!
//! `build.py` compiles this file once per CPU feature level, in parallel with the rest of the core,
//! and links the objects into the module. pretokens/levels.zig selects one when the module is
//! loaded.

const cpu = @import("platform.zig").cpu;
const levels = @import("pretokens/levels.zig");

comptime {
    @export(&levels.compiled, .{ .name = "tokenmill_scanners_" ++ @tagName(cpu.compiled) });
}
