"""instructions → the characters with which a match can go on from each of them."""

from tokenmill.patterns.instructions import LOOKS, LOOPS, PEEKS, Instruction, Op


class Guards:
    """The sets of one program; `masks` grows with those that guards need."""

    def __init__(self, code: list[Instruction], masks: list[int], class_count: int) -> None:
        self._code = code
        self.masks = masks
        self._edge = 1 << class_count
        self._all = (2 << class_count) - 1
        self._index = {mask: index for index, mask in enumerate(masks)}
        self._firsts: list[int | None] = [None] * len(code)

    def apply(self) -> None:
        """Sets the guards, and drops backtracking that can bring nothing."""
        for code in self._code:
            if code.op in PEEKS and code.b:
                code.members = self._intern(self.masks[code.members] | self._edge)
        safe = self._find_safe()
        for pc, code in enumerate(self._code):
            if code.op == Op.SPLIT:
                code.guard_a, code.guard_b = self.set_of(code.a), self.set_of(code.b)
            elif code.op in (Op.LOOP_GREEDY, Op.LOOP_LAZY):
                code.guard_a = self.set_of(pc + 1)
                # Giving a character back is in vain where what follows cannot start with it, or
                # cannot fail.
                overlap = self.masks[code.guard_a] & self.masks[code.members]
                if code.op == Op.LOOP_GREEDY and (not overlap or safe[pc + 1]):
                    code.op = Op.LOOP_POSSESSIVE

    def set_of(self, pc: int) -> int:
        """The set of characters (or the edge) that may stand where a match goes on from `pc`."""
        stack = [pc]
        while stack:
            at = stack[-1]
            missing = [target for target in self._depends(at) if self._firsts[target] is None]
            if missing:
                stack += missing
            else:
                self._firsts[at] = self._combine(at)
                stack.pop()
        first = self._firsts[pc]
        assert first is not None
        return self._intern(first)

    def _intern(self, mask: int) -> int:
        if mask not in self._index:
            self._index[mask] = len(self.masks)
            self.masks.append(mask)
        return self._index[mask]

    def _find_safe(self) -> list[bool]:
        """For each instruction, whether a match that goes on from it cannot fail.

        May say no where the answer is yes.
        """
        safe = [False] * len(self._code)
        for pc in reversed(range(len(self._code))):
            code = self._code[pc]
            if code.op in (Op.MATCH, Op.SUB_END):
                safe[pc] = True
            elif code.op == Op.SPLIT:
                safe[pc] = safe[code.a] or safe[code.b]
            elif code.op == Op.JUMP:
                safe[pc] = safe[code.a]
            elif code.op in LOOPS and code.a == 0:
                safe[pc] = safe[pc + 1]
        return safe

    def _depends(self, pc: int) -> tuple[int, ...]:
        """Where a match may go from `pc` before it consumes a character."""
        code = self._code[pc]
        if code.op == Op.SPLIT:
            return (code.a, code.b)
        if code.op == Op.JUMP or code.op in LOOKS:
            return (code.a,)
        if code.op in LOOPS:
            return () if code.a else (pc + 1,)
        if code.op in PEEKS or code.op == Op.ATOMIC:
            return (pc + 1,)
        return ()

    def _combine(self, pc: int) -> int:
        code = self._code[pc]
        rest = 0
        for target in self._depends(pc):
            rest |= self._firsts[target] or 0
        if code.op == Op.CHAR or code.op in LOOPS:
            return self.masks[code.members] | rest
        if code.op == Op.PEEK_AHEAD:
            return self.masks[code.members] & rest
        # The end of a match, or of a group: whatever follows must not change what an atomic group
        # chooses.
        return rest if self._depends(pc) else self._all
