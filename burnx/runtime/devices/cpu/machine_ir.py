"""The native machine as LLVM IR: how threads wait, the barrier, and what differs between processors and systems.

The loops that run steps are in ``machine_text``; what the offsets are is said in ``machine``.
"""

from __future__ import annotations

from string import Template

from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.machine_text import RUNNING

# processor -> a pause in a waiting loop; how floats are rounded is made the default while kernels run, so that all
# threads agree whatever the process has set
_PROCESSORS = {
    "x86_64": {
        "declare": """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)""",
        "pause": "call void @llvm.x86.sse2.pause()",
        "save_rounding": """call void @llvm.x86.sse.stmxcsr(ptr %rounding)
  store i32 8064, ptr %usual
  call void @llvm.x86.sse.ldmxcsr(ptr %usual)""",
        "restore_rounding": "call void @llvm.x86.sse.ldmxcsr(ptr %rounding)",
    },
    "aarch64": {
        "declare": """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)""",
        "pause": "call void @llvm.aarch64.hint(i32 1)",
        "save_rounding": """%fpcr = call i64 @llvm.aarch64.get.fpcr()
  store i64 %fpcr, ptr %rounding
  call void @llvm.aarch64.set.fpcr(i64 0)""",
        "restore_rounding": """%saved = load i64, ptr %rounding
  call void @llvm.aarch64.set.fpcr(i64 %saved)""",
    },
}

# system -> how a thread sleeps on a word as long as it holds a value, and how all who do are woken
_FUTEX = """
declare i64 @syscall(i64, ...)
define internal void @sleep_while(ptr %word, i32 %value) {
  %wide = zext i32 %value to i64
  %r = call i64 (i64, ...) @syscall(i64 NUMBER, ptr %word, i64 128, i64 %wide, ptr null, ptr null, i64 0)
  ret void
}
define internal void @wake_all(ptr %word) {
  %r = call i64 (i64, ...) @syscall(i64 NUMBER, ptr %word, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  ret void
}
declare i32 @sched_getcpu()
declare i32 @sched_setaffinity(i32, i64, ptr)
define internal i32 @find_processor() {
  %cpu = call i32 @sched_getcpu()
  ret i32 %cpu
}
define internal void @keep_on(i32 %thread, ptr %mask) {
  %r = call i32 @sched_setaffinity(i32 %thread, i64 128, ptr %mask)
  ret void
}"""
_SYSTEMS = {
    ("linux", "x86_64"): (_FUTEX.replace("NUMBER", "202"), 1),
    ("linux", "aarch64"): (_FUTEX.replace("NUMBER", "98"), 1),
    ("darwin", ""): (
        """
declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)
define internal void @sleep_while(ptr %word, i32 %value) {
  %wide = zext i32 %value to i64
  %r = call i32 @__ulock_wait(i32 1, ptr %word, i64 %wide, i32 0)
  ret void
}
define internal void @wake_all(ptr %word) {
  %r = call i32 @__ulock_wake(i32 257, ptr %word, i64 0)
  ret void
}
define internal i32 @find_processor() {
  ret i32 -1
}
define internal void @keep_on(i32 %thread, ptr %mask) {
  ret void
}""",
        6,
    ),
}

_WAITING = """
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @now() noinline {
  %time = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %second = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %second, align 8
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %nanoseconds
  ret i64 %sum
}

; Wait until the word no longer holds what was seen: spin, then let others run, then sleep.
define internal i32 @await_change(ptr %word, i32 %seen, ptr %sleepers, i64 %patience_ns) noinline {
entry:
  br label %spin
spin:
  %turn = phi i32 [0, %entry], [%next, %again]
  %value = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %value, %seen
  br i1 %changed, label %done, label %again
again:
  $pause
  %next = add i32 %turn, 1
  %more = icmp ult i32 %next, $spins
  br i1 %more, label %spin, label %slow
slow:
  %start = call i64 @now()
  br label %yield
yield:
  %before = phi i64 [%start, %slow], [%time, %patient]
  %value2 = load atomic i32, ptr %word acquire, align 4
  %changed2 = icmp ne i32 %value2, %seen
  br i1 %changed2, label %done, label %patient
patient:
  %y = call i32 @sched_yield()
  %time = call i64 @now()
  %waited = sub i64 %time, %start
  %late = icmp sgt i64 %waited, %patience_ns
  %gone = sub i64 %time, %before
  %crowded = icmp sgt i64 %gone, $crowded
  %tired = or i1 %late, %crowded
  br i1 %tired, label %sleep, label %yield
sleep:
  %s = atomicrmw add ptr %sleepers, i32 1 seq_cst, align 4
  call void @sleep_while(ptr %word, i32 %seen)
  %w = atomicrmw sub ptr %sleepers, i32 1 seq_cst, align 4
  %value3 = load atomic i32, ptr %word acquire, align 4
  %changed3 = icmp ne i32 %value3, %seen
  br i1 %changed3, label %done, label %sleep
done:
  %result = phi i32 [%value, %spin], [%value2, %yield], [%value3, %sleep]
  ret i32 %result
}

define internal void @wake_sleepers(ptr %word, ptr %sleepers) {
  %count = load atomic i32, ptr %sleepers seq_cst, align 4
  %none = icmp eq i32 %count, 0
  br i1 %none, label %done, label %wake
wake:
  call void @wake_all(ptr %word)
  br label %done
done:
  ret void
}

; What is done once between two barriers.  Whether the program is to stop here: after an error, or for a while.
define internal i1 @turn(ptr %state, i1 %look) alwaysinline {
  %work = getelementptr i8, ptr %state, i64 192
  store i64 0, ptr %work, align 8
  %error = load i64, ptr %state, align 8
  %failed = icmp ne i64 %error, 0
  br i1 %failed, label %stop, label %timely
timely:
  br i1 %look, label %watch, label %go
watch:
  %time = call i64 @now()
  %deadline_p = getelementptr i8, ptr %state, i64 336
  %deadline = load i64, ptr %deadline_p, align 8
  %late = icmp sgt i64 %time, %deadline
  br i1 %late, label %stop, label %go
stop:
  %stop_p = getelementptr i8, ptr %state, i64 256
  store i32 1, ptr %stop_p, align 4
  ret i1 true
go:
  ret i1 false
}

define internal i1 @barrier(ptr %state, i64 %workers) noinline {
  %count_p = getelementptr i8, ptr %state, i64 64
  %generation_p = getelementptr i8, ptr %state, i64 128
  %sleepers = getelementptr i8, ptr %state, i64 132
  %generation = load atomic i32, ptr %generation_p monotonic, align 4
  %before = atomicrmw add ptr %count_p, i32 1 acq_rel, align 4
  %all = trunc i64 %workers to i32
  %here = add i32 %before, 1
  %last = icmp eq i32 %here, %all
  br i1 %last, label %release, label %wait
release:
  %stop = call i1 @turn(ptr %state, i1 true)
  store atomic i32 0, ptr %count_p monotonic, align 4
  %next = add i32 %generation, 1
  store atomic i32 %next, ptr %generation_p seq_cst, align 4
  call void @wake_sleepers(ptr %generation_p, ptr %sleepers)
  ret i1 %stop
wait:
  %g = call i32 @await_change(ptr %generation_p, i32 %generation, ptr %sleepers, i64 $patience)
  %stop_p = getelementptr i8, ptr %state, i64 256
  %stopped = load i32, ptr %stop_p, align 4
  %stops = icmp ne i32 %stopped, 0
  ret i1 %stops
}
"""

SPINS = 100  # turns of a waiting loop before others are let run
PATIENCE_NS = 100_000  # how long a barrier lets others run before it sleeps
CROWDED_NS = 10_000  # a processor that was lent for longer than this is wanted: sleep
IDLE_NS = 50_000  # how long a thread without a job looks for the next one before it sleeps
TURN_NS = 50_000_000  # how long native code runs before Python may handle signals
GLANCES = 7  # a single worker looks at the clock at every 8th barrier


def can_share(target: Target) -> bool:
    """Whether threads can wait for each other on this system."""
    return _system(target) in _SYSTEMS


def write_machine(target: Target) -> str:
    """The text of the machine for a target."""
    processor = _PROCESSORS[_processor(target)]
    futex, clock = _SYSTEMS.get(_system(target), _SYSTEMS["linux", "x86_64"])
    places = {
        **processor,
        "clock": clock,
        "spins": SPINS,
        "patience": PATIENCE_NS,
        "idle": IDLE_NS,
        "crowded": CROWDED_NS,
        "turn_ns": TURN_NS,
        "glances": GLANCES,
    }
    text = processor["declare"] + futex + _WAITING + RUNNING
    return Template(text).substitute({name: str(value) for name, value in places.items()})


def _processor(target: Target) -> str:
    return "x86_64" if target.triple.startswith(("x86_64", "amd64")) else "aarch64"


def _system(target: Target) -> tuple[str, str]:
    if "linux" in target.triple:
        return "linux", _processor(target)
    return ("darwin", "") if "darwin" in target.triple else ("", "")
