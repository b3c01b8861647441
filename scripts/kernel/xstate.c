/*
 * Preloaded into user-mode Linux to repair two things in how it uses ptrace(2).
 *
 * It has a buffer of 2696 bytes for the extended state of a processor. A processor with AMX has 11008, and Linux
 * refuses to set less than all of it with EFAULT (xstateregs_set in arch/x86/kernel/fpu/regset.c). The rest is the
 * state of AMX, which nothing in the machine can use: zeros.
 *
 * It does not ask that its processes end with it. What it failed to kill would continue outside the machine, with
 * system calls that reach the host.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* From before Linux 2.4.6, and still used by user-mode Linux. */
#define PTRACE_OLDSETOPTIONS 21

long ptrace(enum __ptrace_request request, ...)
{
	/* Larger than any state: the kernel reads only what it needs. */
	static char state[64 << 10];
	struct iovec all = { state, sizeof state };
	va_list rest;
	long word, result;

	va_start(rest, request);
	pid_t pid = va_arg(rest, pid_t);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
		const struct iovec *given = data;

		memcpy(state, given->iov_base, given->iov_len);
		data = &all;
	}
	if (request == PTRACE_SETOPTIONS || request == PTRACE_OLDSETOPTIONS) {
		request = PTRACE_SETOPTIONS;
		data = (void *)((long)data | PTRACE_O_EXITKILL);
	}
	/* The system call stores the word that the C library's function returns (ptrace(2)). */
	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return syscall(SYS_ptrace, request, pid, address, data);
	result = syscall(SYS_ptrace, request, pid, address, &word);
	if (result < 0)
		return result;
	errno = 0;
	return word;
}
