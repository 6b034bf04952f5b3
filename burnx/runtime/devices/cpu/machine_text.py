"""The text of the native machine proper: the loop over steps, the loop of a thread of the pool, and starting a job.

``machine_ir`` fills in what depends on the target; ``machine`` says what the offsets are.
"""

RUNNING = """
define void @machine_run(ptr %steps, i64 %worker, i64 %workers, ptr %state) {
entry:
  %rounding = alloca i64, align 8
  %usual = alloca i64, align 8
  $save_rounding
  %start_p = getelementptr i8, ptr %state, i64 320
  %start = load i64, ptr %start_p, align 8
  %first = icmp eq i64 %worker, 0
  %alone = icmp eq i64 %workers, 1
  %profile_p = getelementptr i8, ptr %state, i64 344
  %profile = load ptr, ptr %profile_p, align 8
  %profiled = icmp ne ptr %profile, null
  %timed = and i1 %first, %profiled
  br i1 %timed, label %clock, label %begin
clock:
  %time0 = call i64 @now()
  br label %begin
begin:
  %since0 = phi i64 [0, %entry], [%time0, %clock]
  br label %step
step:
  %pc = phi i64 [%start, %begin], [%pc1, %next], [%target, %jump]
  %ticks = phi i64 [0, %begin], [%ticks1, %next], [%ticks, %jump]
  %since = phi i64 [%since0, %begin], [%since1, %next], [%since, %jump]
  %row = getelementptr [4 x i64], ptr %steps, i64 %pc
  %word = load i64, ptr %row, align 8
  %a_p = getelementptr i64, ptr %row, i64 1
  %b_p = getelementptr i64, ptr %row, i64 2
  %op = and i64 %word, 255
  switch i64 %op, label %finish [
    i64 1, label %run
    i64 2, label %go
    i64 3, label %unless
    i64 4, label %copy
    i64 5, label %after
  ]
run:
  %kernel = load ptr, ptr %a_p, align 8
  %args = load ptr, ptr %b_p, align 8
  %solo_bit = and i64 %word, 512
  %solo = icmp ne i64 %solo_bit, 0
  br i1 %solo, label %solo_step, label %shared
solo_step:
  br i1 %first, label %single, label %after
single:
  call void %kernel(ptr %args, i64 0, i64 1, ptr %state)
  br label %after
shared:
  call void %kernel(ptr %args, i64 %worker, i64 %workers, ptr %state)
  br label %after
copy:
  %to = load ptr, ptr %a_p, align 8
  %from = load ptr, ptr %b_p, align 8
  %bytes_p = getelementptr i64, ptr %row, i64 3
  %bytes = load i64, ptr %bytes_p, align 8
  %more = add i64 %bytes, 4095
  %share = udiv i64 %more, %workers
  %chunk = and i64 %share, -64
  %chunk1 = add i64 %chunk, 64
  %low = mul i64 %chunk1, %worker
  %high = add i64 %low, %chunk1
  %over = icmp ugt i64 %high, %bytes
  %end = select i1 %over, i64 %bytes, i64 %high
  %some = icmp ult i64 %low, %end
  br i1 %some, label %move, label %after
move:
  %to_low = getelementptr i8, ptr %to, i64 %low
  %from_low = getelementptr i8, ptr %from, i64 %low
  %size = sub i64 %end, %low
  call void @llvm.memcpy.p0.p0.i64(ptr %to_low, ptr %from_low, i64 %size, i1 false)
  br label %after
unless:
  %flag_p = load ptr, ptr %a_p, align 8
  %flag = load i8, ptr %flag_p, align 1
  %set = icmp ne i8 %flag, 0
  %other = load i64, ptr %b_p, align 8
  %following = add i64 %pc, 1
  %target_u = select i1 %set, i64 %following, i64 %other
  br label %jump
go:
  %target_g = load i64, ptr %a_p, align 8
  br label %jump
jump:
  %target = phi i64 [%target_u, %unless], [%target_g, %go]
  br label %step
after:
  %pc1 = add i64 %pc, 1
  %barred_bit = and i64 %word, 256
  %flagged = icmp ne i64 %barred_bit, 0
  %explicit = icmp eq i64 %op, 5
  %barred = or i1 %flagged, %explicit
  br i1 %barred, label %meet, label %measure
meet:
  br i1 %alone, label %meet_alone, label %meet_all
meet_alone:
  %more_ticks = add i64 %ticks, 1
  %tick = and i64 %more_ticks, $glances
  %look = icmp eq i64 %tick, 0
  %stop_alone = call i1 @turn(ptr %state, i1 %look)
  br i1 %stop_alone, label %pause, label %measure
meet_all:
  %stop_all = call i1 @barrier(ptr %state, i64 %workers)
  br i1 %stop_all, label %pause, label %measure
measure:
  %ticks1 = phi i64 [%ticks, %after], [%more_ticks, %meet_alone], [%ticks, %meet_all]
  br i1 %timed, label %add_time, label %next
add_time:
  %time1 = call i64 @now()
  %took = sub i64 %time1, %since
  %slot = getelementptr i64, ptr %profile, i64 %pc
  %sofar = load i64, ptr %slot, align 8
  %total = add i64 %sofar, %took
  store i64 %total, ptr %slot, align 8
  br label %next
next:
  %since1 = phi i64 [%since, %measure], [%time1, %add_time]
  br label %step
pause:
  br i1 %timed, label %add_paused, label %leave
add_paused:
  %time2 = call i64 @now()
  %took2 = sub i64 %time2, %since
  %slot2 = getelementptr i64, ptr %profile, i64 %pc
  %sofar2 = load i64, ptr %slot2, align 8
  %total2 = add i64 %sofar2, %took2
  store i64 %total2, ptr %slot2, align 8
  br label %leave
finish:
  br label %leave
leave:
  %stopped_at = phi i64 [%pc1, %pause], [%pc1, %add_paused], [-1, %finish]
  $restore_rounding
  br i1 %first, label %report, label %done
report:
  %end_p = getelementptr i8, ptr %state, i64 328
  store i64 %stopped_at, ptr %end_p, align 8
  br label %done
done:
  ret void
}

; Have the processor that the caller is on to itself: the worker that stays there moves to where the caller was.
define internal void @make_room(ptr %pool) {
  %cpu = call i32 @find_processor()
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %look, label %done
look:
  %wide = zext i32 %cpu to i64
  %places_p = getelementptr i8, ptr %pool, i64 88
  %places = load ptr, ptr %places_p, align 8
  %place_p = getelementptr i64, ptr %places, i64 %wide
  %place = load i64, ptr %place_p, align 8
  %home_p = getelementptr i8, ptr %pool, i64 80
  %home = load i64, ptr %home_p, align 8
  %same = icmp eq i64 %place, %home
  %foreign = icmp slt i64 %place, 0
  %nothing = or i1 %same, %foreign
  br i1 %nothing, label %done, label %moved
moved:
  store i64 %place, ptr %home_p, align 8
  %owners_p = getelementptr i8, ptr %pool, i64 96
  %owners = load ptr, ptr %owners_p, align 8
  %owner_p = getelementptr i64, ptr %owners, i64 %place
  %owner = load i64, ptr %owner_p, align 8
  %free = icmp eq i64 %owner, 0
  br i1 %free, label %done, label %swap
swap:
  store i64 0, ptr %owner_p, align 8
  %left_p = getelementptr i64, ptr %owners, i64 %home
  store i64 %owner, ptr %left_p, align 8
  %masks_p = getelementptr i8, ptr %pool, i64 104
  %masks = load ptr, ptr %masks_p, align 8
  %mask = getelementptr [128 x i8], ptr %masks, i64 %home
  %owner32 = trunc i64 %owner to i32
  call void @keep_on(i32 %owner32, ptr %mask)
  br label %done
done:
  ret void
}

; A thread of the pool: wait for a job, take part in it, again.  The word is a count of jobs and how many workers.
define void @machine_serve(ptr %pool, i64 %worker, i64 %seen0) {
entry:
  %sleepers = getelementptr i8, ptr %pool, i64 4
  %steps_p = getelementptr i8, ptr %pool, i64 64
  %state_p = getelementptr i8, ptr %pool, i64 72
  %pending = getelementptr i8, ptr %pool, i64 128
  %pending_sleepers = getelementptr i8, ptr %pool, i64 132
  %first = trunc i64 %seen0 to i32
  br label %wait
wait:
  %seen = phi i32 [%first, %entry], [%word, %look], [%word, %work], [%word, %wake]
  %word = call i32 @await_change(ptr %pool, i32 %seen, ptr %sleepers, i64 $idle)
  %count32 = and i32 %word, 1023
  %count = zext i32 %count32 to i64
  %ends = icmp eq i64 %count, 0
  br i1 %ends, label %done, label %look
look:
  %mine = icmp ult i64 %worker, %count
  br i1 %mine, label %work, label %wait
work:
  %steps = load ptr, ptr %steps_p, align 8
  %state = load ptr, ptr %state_p, align 8
  call void @machine_run(ptr %steps, i64 %worker, i64 %count, ptr %state)
  %before = atomicrmw sub ptr %pending, i32 1 seq_cst, align 4
  %last = icmp eq i32 %before, 1
  br i1 %last, label %wake, label %wait
wake:
  call void @wake_sleepers(ptr %pending, ptr %pending_sleepers)
  br label %wait
done:
  ret void
}

; Whether the pool was free and now is the caller's.
define i64 @machine_take(ptr %pool) {
  %taken_p = getelementptr i8, ptr %pool, i64 192
  %pair = cmpxchg ptr %taken_p, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %pair, 1
  %result = zext i1 %mine to i64
  ret i64 %result
}

define void @machine_give(ptr %pool) {
  %taken_p = getelementptr i8, ptr %pool, i64 192
  store atomic i32 0, ptr %taken_p release, align 4
  ret void
}

; Run steps from pc on, with the pool if there is to be more than one worker and nobody else has it.
; -1: at the end; -2: a kernel failed; else where to go on after the caller has looked around.
define i64 @machine_start(ptr %pool, ptr %steps, i64 %workers, ptr %state, i64 %pc) {
entry:
  %count_p = getelementptr i8, ptr %state, i64 64
  %work_p = getelementptr i8, ptr %state, i64 192
  %stop_p = getelementptr i8, ptr %state, i64 256
  %start_p = getelementptr i8, ptr %state, i64 320
  %end_p = getelementptr i8, ptr %state, i64 328
  %deadline_p = getelementptr i8, ptr %state, i64 336
  store i64 0, ptr %state, align 8
  store i32 0, ptr %count_p, align 4
  store i64 0, ptr %work_p, align 8
  store i32 0, ptr %stop_p, align 4
  store i64 %pc, ptr %start_p, align 8
  %time = call i64 @now()
  %deadline = add i64 %time, $turn_ns
  store i64 %deadline, ptr %deadline_p, align 8
  %alone = icmp eq i64 %workers, 1
  br i1 %alone, label %single, label %several
several:
  %taken = call i64 @machine_take(ptr %pool)
  %mine = icmp eq i64 %taken, 1
  br i1 %mine, label %post, label %single
single:
  call void @machine_run(ptr %steps, i64 0, i64 1, ptr %state)
  br label %ended
post:
  call void @share(ptr %pool, ptr %steps, i64 %workers, ptr %state)
  call void @machine_give(ptr %pool)
  br label %ended
ended:
  %error = load i64, ptr %state, align 8
  %failed = icmp ne i64 %error, 0
  %end = load i64, ptr %end_p, align 8
  %result = select i1 %failed, i64 -2, i64 %end
  ret i64 %result
}

; Run steps with the workers of the pool; this is worker 0.
define internal void @share(ptr %pool, ptr %steps, i64 %workers, ptr %state) {
entry:
  %sleepers = getelementptr i8, ptr %pool, i64 4
  %steps_p = getelementptr i8, ptr %pool, i64 64
  %state_p = getelementptr i8, ptr %pool, i64 72
  %pending = getelementptr i8, ptr %pool, i64 128
  %pending_sleepers = getelementptr i8, ptr %pool, i64 132
  store ptr %steps, ptr %steps_p, align 8
  store ptr %state, ptr %state_p, align 8
  call void @make_room(ptr %pool)
  %count = trunc i64 %workers to i32
  %others = sub i32 %count, 1
  store atomic i32 %others, ptr %pending monotonic, align 4
  %old = load i32, ptr %pool, align 4
  %job = and i32 %old, -1024
  %job1 = add i32 %job, 1024
  %word = or i32 %job1, %count
  store atomic i32 %word, ptr %pool seq_cst, align 4
  call void @wake_sleepers(ptr %pool, ptr %sleepers)
  call void @machine_run(ptr %steps, i64 0, i64 %workers, ptr %state)
  br label %check
check:
  %left = load atomic i32, ptr %pending acquire, align 4
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %wait
wait:
  %w = call i32 @await_change(ptr %pending, i32 %left, ptr %pending_sleepers, i64 $patience)
  br label %check
done:
  ret void
}

; No more jobs: all threads of the pool return.  The pool is the caller's, and stays so.
define void @machine_close(ptr %pool) {
  %sleepers = getelementptr i8, ptr %pool, i64 4
  %old = load i32, ptr %pool, align 4
  %job = and i32 %old, -1024
  %job1 = add i32 %job, 1024
  store atomic i32 %job1, ptr %pool seq_cst, align 4
  call void @wake_sleepers(ptr %pool, ptr %sleepers)
  ret void
}
"""
