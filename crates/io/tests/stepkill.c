/* Kills a command by SIGKILL when it has run STEPS machine instructions of the stretch that it marks.
 *
 *   stepkill STEPS COMMAND ARGUMENT...
 *
 * The stretch begins behind the system call prctl(0x53544b31) and ends with prctl(0x53544b32); the kernel refuses both. A system
 * call inside counts as one instruction. Only the process's first thread is followed. x86-64 Linux.
 *
 * Exit status: 0 killed inside the stretch, 3 the stretch was over before (the command then runs to its end, which has to be a
 * success), 4 no stretch was seen, 5 the command failed, 125 anything else.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BEGIN = 0x53544b31, END = 0x53544b32, TROUBLE = 125 };

static pid_t peer;

static void fail(const char *what)
{
	perror(what);
	if (peer > 0)
		kill(peer, SIGKILL);
	exit(TROUBLE);
}

/* Lets it run until it stops again, handing on a signal that it got; returns 0 when it has ended, with its status in `status`. */
static int resume(int request, int *status)
{
	int stop_signal = WIFSTOPPED(*status) ? WSTOPSIG(*status) : 0;
	long deliver = stop_signal == SIGTRAP || stop_signal == SIGSTOP || stop_signal == (SIGTRAP | 0x80) ? 0 : stop_signal;
	if (ptrace(request, peer, 0, deliver) < 0)
		fail("ptrace");
	if (waitpid(peer, status, 0) < 0)
		fail("waitpid");
	return WIFSTOPPED(*status);
}

/* Whether it stands at, or has just made, the call that is this mark. */
static int at_mark(unsigned mark)
{
	struct user_regs_struct registers;
	if (ptrace(PTRACE_GETREGS, peer, 0, &registers) < 0)
		fail("registers");
	return registers.orig_rax == SYS_prctl && (unsigned)registers.rdi == mark;
}

static int ended(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 5;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return TROUBLE;
	long steps = atol(argv[1]);
	peer = fork();
	if (peer < 0)
		fail("fork");
	if (peer == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	int status;
	if (waitpid(peer, &status, 0) < 0 || !WIFSTOPPED(status))
		fail("start");
	if (ptrace(PTRACE_SETOPTIONS, peer, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0)
		fail("options");
	do {
		if (!resume(PTRACE_SYSCALL, &status))
			return ended(status) ? 5 : 4;
	} while (WSTOPSIG(status) != (SIGTRAP | 0x80) || !at_mark(BEGIN));
	/* Out of the call that is the mark. */
	if (!resume(PTRACE_SYSCALL, &status))
		return TROUBLE;
	for (long step = 0; step < steps; step++) {
		if (!resume(PTRACE_SINGLESTEP, &status))
			return TROUBLE;
		if (at_mark(END)) {
			if (ptrace(PTRACE_DETACH, peer, 0, 0) < 0 || waitpid(peer, &status, 0) < 0)
				fail("detach");
			return ended(status) ? 5 : 3;
		}
	}
	kill(peer, SIGKILL);
	waitpid(peer, &status, 0);
	return 0;
}
